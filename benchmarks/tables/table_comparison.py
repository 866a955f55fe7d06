"""Six measures of synthetic tables, ours and others': what models learn from them, and counts of 1, 2 and 3 columns.

    python benchmarks/tables/table_comparison.py ours FOLDER --epsilon 0.2 1 5 --draws 3 --out results.jsonl
    python benchmarks/tables/table_comparison.py cells FOLDER CELLS.npz [--most 32]
    python benchmarks/tables/table_comparison.py peer FOLDER SAMPLE.npz --name aim --epsilon 1 --out results.jsonl

FOLDER holds train.csv, test.csv (also .csv.gz) and schema.json, as `table_data.py` writes them. `cells` writes the
training records as whole numbers, each column's cells merged to at most `--most` neighbours of even public width;
`privot/bench/table_peer.py` makes synthetic cells of them, which `peer` measures: a number stands evenly within its
cell. `table_runs.py` does all of it, and `table_summary.py` reads the results.

Boosting and logistic regression are trained on as many synthetic rows as there are training records and tested on
test.csv (AUC). Counts are compared with the training records: mean total variation of columns, pairs and triples
(at most `MAX_TRIPLES`), the label included, numbers in at most 16 bins at quantiles of the training records, categories
beyond the 15 commonest together; and the mean error of `QUERIES` random queries, a range or a set in each of three
columns. `even one-way`, `even pairs` and `even triples` are the same over at most 16 bins of even public width, made of
whole cells: they show the noise alone, the others also what cells lose.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privot.bench.table_comparison import SIZES, TableComparison, merged_cells
from privot.evaluation.real_bins import BINS, MAX_TRIPLES, variation
from privot.evaluation.schema_axes import axes_of
from privot.evaluation.table_figures import Coded
from privot.evaluation.table_quality import train_and_test
from privot.tables import Schema, Table, TableCodec, encode_file, read_table

Ints = NDArray[np.int64]


class Data(TableComparison):
    """A folder's records, and how tables are compared with them."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        codec = TableCodec(Schema.load(folder / "schema.json"))
        train, test = (next(folder.glob(f"{part}.csv*")) for part in ("train", "test"))
        x, y = encode_file(str(train), codec, compact=True)
        assert y is not None
        super().__init__(codec, x, y, read_table(str(test)))
        self.even = self._even(Coded(x, y, codec))

    def _even(self, coded: Coded) -> Ints:
        """Bins of even public width."""
        out = self.bins.binned(coded)
        for i, axis in enumerate(axes_of(self.codec, compact=True)):
            if axis.edges is not None:
                out[:, i] = merged_cells(axis, BINS)[axis.index(coded.rows, None)]
        return out

    def measure(self, table: Table, models: bool = True) -> dict[str, float]:
        """The six measures, and counts over even bins."""
        out = super().measure(table, models)
        drawn = self._even(Coded(*self.codec.encode(table, compact=True), self.codec))
        for name, size in SIZES:
            sets = list(combinations(range(drawn.shape[1]), size))
            if len(sets) > MAX_TRIPLES and size == 3:
                sets = [sets[i] for i in np.random.default_rng(2).permutation(len(sets))[:MAX_TRIPLES]]
            found = [variation(drawn[:, list(places)], self.even[:, list(places)])[0] for places in sets]
            out[f"even {name}"] = float(np.mean(found))
        return out


def note(path: str | None, line: dict[str, object]) -> None:
    """One line of results, printed and kept at once."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}), flush=True)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ours", "real", "cells", "peer"])
    parser.add_argument("folder")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.2, 1.0, 5.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--most", type=int, default=32, help="cells per column of numbers, for others")
    parser.add_argument("--name", default="privot")
    parser.add_argument("--no-models", action="store_true", help="counts only")
    parser.add_argument("--out", default=None)
    chosen = parser.parse_args()
    data = Data(Path(chosen.folder))
    if chosen.what == "cells":
        cells, sizes = data.cells(chosen.most)
        np.savez_compressed(chosen.file, cells=cells, sizes=sizes)
    elif chosen.what == "real":
        print({m: train_and_test(data.codec.decode(data.x, data.y, compact=True), data.test, data.codec, m).auc
               for m in ("boosting", "logistic")})  # fmt: skip
    elif chosen.what == "peer":
        with np.load(chosen.file) as file:
            cells, seconds = file["cells"], float(file["seconds"])
        found = data.measure(data.table_of(cells, chosen.most), not chosen.no_models)
        note(chosen.out, {"table": data.name, "epsilon": chosen.epsilon[0], "method": chosen.name,
                          "seed": chosen.first, "seconds": seconds, **found})  # fmt: skip
    else:
        for epsilon in chosen.epsilon:
            for seed in range(chosen.first, chosen.first + chosen.draws):
                table, seconds = data.ours(epsilon, chosen.delta, seed)
                found = data.measure(table, not chosen.no_models)
                note(chosen.out, {"table": data.name, "epsilon": epsilon, "method": chosen.name, "seed": seed,
                                  "seconds": seconds, **found})  # fmt: skip


if __name__ == "__main__":
    main()
