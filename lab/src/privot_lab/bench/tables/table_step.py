"""One step of one run of `table_runs`, in a process of its own, so that many run at once and each can be ended.

    python -m privot_lab.bench.tables.table_step ours FOLDER --epsilon 1 --delta 1e-6 --seed 0 --out LINE.json
    python -m privot_lab.bench.tables.table_step cells FOLDER --file CELLS.npz --most 32
    python -m privot_lab.bench.tables.table_step peer FOLDER --file SAMPLE.npz --most 32 --out LINE.json

FOLDER holds train.csv, test.csv (also .csv.gz) and schema.json of a *public* table. `cells` writes the training rows as
whole numbers for `table_peer.py`, each column's cells merged to at most `--most` neighbours; `peer` measures the
synthetic cells that it made, and `ours` a release of privot.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privot.errors import DataError
from privot.tables import Schema, TableCodec, encode_file, read_table
from privot_lab.bench.tables.table_comparison import TableComparison


def open_folder(folder: Path) -> TableComparison:
    """The comparison on the table of a folder."""
    files = {part: sorted(folder.glob(f"{part}.csv*")) for part in ("train", "test")}
    if not (folder / "schema.json").is_file() or not all(files.values()):
        raise DataError(f"{folder.name!r} must hold train.csv, test.csv (or .csv.gz) and schema.json.")
    codec = TableCodec(Schema.load(folder / "schema.json"))
    x, y = encode_file(files["train"][0], codec, compact=True)
    return TableComparison(codec, x, y, read_table(files["test"][0]))


def main(words: Sequence[str] | None = None) -> None:
    """Do one step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=["ours", "cells", "peer"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--most", type=int, default=32)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    comparison = open_folder(chosen.folder)
    if chosen.step == "cells":
        cells, sizes = comparison.cells(chosen.most)
        np.savez_compressed(chosen.file, cells=cells, sizes=sizes)
        return
    if chosen.step == "peer":
        with np.load(chosen.file) as file:
            cells, seconds = file["cells"], float(file["seconds"])
        table = comparison.table_of(cells, chosen.most)
    else:
        table, seconds = comparison.ours(chosen.epsilon, chosen.delta, chosen.seed)
    found = {"seconds": seconds, **comparison.measure(table), **comparison.measure_even(table)}
    chosen.out.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
