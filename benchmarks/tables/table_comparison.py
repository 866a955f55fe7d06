"""Six measures of synthetic tables, ours and others': what models learn from them, and counts of 1, 2 and 3 columns.

    python benchmarks/tables/table_comparison.py ours FOLDER --epsilon 0.2 1 5 --draws 3 --out results.jsonl
    python benchmarks/tables/table_comparison.py cells FOLDER CELLS.npz [--most 32]
    python benchmarks/tables/table_comparison.py peer FOLDER SAMPLE.npz --name aim --epsilon 1 --out results.jsonl
    python benchmarks/tables/table_comparison.py show results.jsonl

FOLDER holds train.csv, test.csv (also .csv.gz) and schema.json, as `table_data.py` writes them. `cells` writes the
training records as whole numbers, each column's cells merged to at most `--most` neighbours of even public width;
`table_peers.py` makes synthetic cells of them, which `peer` measures: a number stands evenly within its cell.

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
import time
from collections import defaultdict
from itertools import combinations, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privot import Vault
from privot.evaluation.schema_axes import axes_of
from privot.evaluation.table_quality import train_and_test
from privot.synthesis import Synthesizer
from privot.tables import Schema, Table, TableCodec, encode_file, read_table

BINS, MAX_TRIPLES, QUERIES = 16, 200, 1000
SIZES = (("one-way", 1), ("pairs", 2), ("triples", 3))
EVEN = tuple(f"even {name}" for name, _ in SIZES)
MEASURES = ("boosting", "logistic", "one-way", "pairs", "triples", "queries", *EVEN)
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Data:
    """A folder's records, and how tables are compared with them."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.codec = TableCodec(Schema.load(folder / "schema.json"))
        train, test = (next(folder.glob(f"{part}.csv*")) for part in ("train", "test"))
        self.test = read_table(str(test))
        x, y = encode_file(str(train), self.codec, compact=True)
        assert y is not None
        self.x, self.y = x, y
        self.edges = [self._edges(i) for i in range(x.shape[1])]
        self.real, self.even = self._binned(x, y), self._even(x, y)
        self.queries = self._queries()
        self.answers = self._answers(x, y)

    def _edges(self, column: int) -> Floats:
        """Upper ends of bins of a number; of a category, the places that stand alone."""
        values = self.x[:, column]
        if self.codec.features[column].is_number:
            present = values[values >= 0.0]
            cuts = np.quantile(present, np.arange(1, BINS) / BINS, method="higher") if len(present) else np.zeros(1)
            return np.concatenate([[0.0], np.unique(cuts[cuts > 0.0])])
        counts = np.bincount(values.astype(np.int64))
        return np.sort(np.argsort(-counts, kind="stable")[: BINS - 1]).astype(np.float64)

    def _binned(self, x: Floats, y: Ints) -> Ints:
        out = np.empty((len(x), x.shape[1] + 1), dtype=np.int64)
        for i, edges in enumerate(self.edges):
            if self.codec.features[i].is_number:
                # a value that is an edge starts a bin; a missing one, −1, is before the first
                out[:, i] = np.searchsorted(edges - 1e-9, x[:, i], side="right")
            else:
                place = np.searchsorted(edges, x[:, i]).clip(max=len(edges) - 1)
                out[:, i] = np.where(edges[place] == x[:, i], place, len(edges))
        out[:, -1] = y
        return out

    def _even(self, x: Floats, y: Ints) -> Ints:
        """The same for bins of even public width."""
        out = self._binned(x, y)
        for i, axis in enumerate(axes_of(self.codec, compact=True)):
            if axis.edges is not None:
                out[:, i] = self._merged(axis, BINS)[axis.index(x, None)]
        return out

    def _queries(self) -> list[list[tuple[int, Floats]]]:
        rng = np.random.default_rng(1)
        columns = self.x.shape[1] + 1
        out = []
        for _ in range(QUERIES):
            query = []
            for i in rng.choice(columns, min(3, columns), replace=False):
                if i < columns - 1 and self.codec.features[i].is_number:
                    query.append((int(i), np.sort(rng.choice(self.x[:, i], 2))))
                else:
                    values = np.unique(self.y if i == columns - 1 else self.x[:, i]).astype(np.float64)
                    kept = values[rng.random(len(values)) < 0.5]
                    query.append((int(i), kept if len(kept) else values[:1]))
            out.append(query)
        return out

    def _answers(self, x: Floats, y: Ints) -> Floats:
        every = np.column_stack([x, y])
        out = np.empty(len(self.queries))
        for place, query in enumerate(self.queries):
            inside = np.ones(len(every), dtype=bool)
            for i, values in query:
                if i < x.shape[1] and self.codec.features[i].is_number:
                    inside &= (every[:, i] >= values[0] - 1e-9) & (every[:, i] <= values[1] + 1e-9)
                else:
                    inside &= np.isin(every[:, i], values)
            out[place] = inside.mean()
        return out

    def measure(self, table: Table, models: bool = True) -> dict[str, float]:
        """The six measures."""
        out = {}
        if models:
            for model in ("boosting", "logistic"):
                out[model] = float(train_and_test(table, self.test, self.codec, model).auc or 0.5)
        x, y = self.codec.encode(table, compact=True)
        assert y is not None
        compared = [("", self._binned(x, y), self.real), ("even ", self._even(x, y), self.even)]
        for (kind, drawn, real), (name, size) in product(compared, SIZES):
            sets = list(combinations(range(drawn.shape[1]), size))
            if len(sets) > MAX_TRIPLES and size == 3:
                sets = [sets[i] for i in np.random.default_rng(2).permutation(len(sets))[:MAX_TRIPLES]]
            out[kind + name] = float(np.mean([_variation(drawn, real, places) for places in sets]))
        out["queries"] = float(np.abs(self._answers(x, y) - self.answers).mean())
        return out

    # --- cells for others

    def cells(self, most: int) -> tuple[Ints, Ints]:
        """Whole numbers per record, and how many each column has, the label last."""
        columns, sizes = [], []
        for axis in axes_of(self.codec, compact=True):
            merged = self._merged(axis, most)
            columns.append(merged[axis.index(self.x, None)])
            sizes.append(int(merged.max()) + 1)
        return np.column_stack([*columns, self.y]), np.array([*sizes, self.codec.classes])

    def _merged(self, axis: object, most: int) -> Ints:
        cells, missing, ordered = axis.cells, axis.missing, axis.edges is not None  # type: ignore[attr-defined]
        if not ordered or cells - missing <= most:
            return np.arange(cells)
        out = np.arange(cells) * most // (cells - missing)
        if missing:
            out[-1] = out[-2] + 1
        return out

    def table_of(self, cells: Ints, most: int, seed: int = 0) -> Table:
        """Rows for synthetic cells: a fine cell of each merged one, evenly, and a place in it, evenly."""
        rng = np.random.default_rng(seed)
        out = np.empty((len(cells), self.x.shape[1]))
        for i, axis in enumerate(axes_of(self.codec, compact=True)):
            merged = self._merged(axis, most)
            first = np.searchsorted(merged, cells[:, i])
            count = np.bincount(merged)[cells[:, i]]
            fine = first + (rng.random(len(cells)) * count).astype(np.int64)
            if axis.edges is None:
                out[:, i] = fine
                continue
            ends = np.concatenate([[0.0], axis.edges, [1.0]])
            gone = (fine == axis.cells - 1) & axis.missing
            at = np.where(gone, 0, fine)
            out[:, i] = np.where(gone, -1.0, ends[at] + rng.random(len(cells)) * (ends[at + 1] - ends[at]))
        return self.codec.decode(out, cells[:, -1].astype(np.int64), compact=True)


def _variation(drawn: Ints, real: Ints, places: tuple[int, ...]) -> float:
    sizes = [1 + int(max(t[:, i].max() for t in (drawn, real))) for i in places]
    shares = []
    for table in (drawn, real):
        code = np.ravel_multi_index(tuple(table[:, i] for i in places), sizes)
        shares.append(np.bincount(code, minlength=int(np.prod(sizes))) / len(table))
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def ours(data: Data, epsilon: float, delta: float, seed: int) -> tuple[Table, float]:
    """One private release, and processor seconds."""
    vault = Vault(
        data.x,
        data.y,
        clip=data.codec.bound(compact=True),
        classes=data.codec.classes,
        adjacency="add-remove",
        budget=(epsilon, delta),
    )
    start = time.process_time()
    fitted = Synthesizer(epsilon, delta, codec=data.codec, seed=seed, device="cpu").fit(vault)
    table = fitted.sample(len(data.x), seed=seed)[0]
    return table, time.process_time() - start


def note(path: str | None, line: dict[str, object]) -> None:
    """One line of results, printed and kept at once."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}), flush=True)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def show(path: str) -> None:
    """Mean and standard error of every measure, by table, ε and method."""
    found = defaultdict(list)
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        found[raw["table"], raw["epsilon"], raw["method"]].append(raw)
    print("| table | ε | method | draws | " + " | ".join(MEASURES) + " | s |\n|" + "---|" * (5 + len(MEASURES)))
    for (table, epsilon, method), lines in sorted(found.items(), key=lambda item: (item[0][0], item[0][1], item[0][2])):
        cells = []
        for name in MEASURES:
            values = np.array([line[name] for line in lines if name in line])
            error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.4f}{error}" if len(values) else "–")
        seconds = np.mean([line["seconds"] for line in lines])
        print(f"| {table} | {epsilon:g} | {method} | {len(lines)} | " + " | ".join(cells) + f" | {seconds:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ours", "real", "cells", "peer", "show"])
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
    if chosen.what == "show":
        show(chosen.folder)
        return
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
                table, seconds = ours(data, epsilon, chosen.delta, seed)
                found = data.measure(table, not chosen.no_models)
                note(chosen.out, {"table": data.name, "epsilon": epsilon, "method": chosen.name, "seed": seed,
                                  "seconds": seconds, **found})  # fmt: skip


if __name__ == "__main__":
    main()
