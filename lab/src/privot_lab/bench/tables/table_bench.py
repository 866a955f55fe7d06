"""Privot, MST and AIM on one *public* table in one run; figures are exact, so it must not be given a private one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from privot.errors import DataError, UsageError, brief
from privot.tables import Schema, Table, TableCodec, read_table
from privot_lab.bench.tables.table_comparison import MEASURES, TableComparison
from privot_lab.bench.tables.table_peer import MISSING, NOT_INSTALLED

METHODS = ("privot", "mst", "aim")
HELD_OUT = 0.25
"""The share of rows that models are tested on where no test table is given."""
WIDEST = 1_000_000
_SCRIPT = Path(__file__).with_name("table_peer.py")


@dataclass(frozen=True)
class TableRow:
    """One method at one ε and seed: its measures, the processor seconds, and what went wrong if something did."""

    method: str
    epsilon: float
    seed: int
    seconds: float | None
    measures: dict[str, float] = field(default_factory=dict)
    note: str = ""


def open_comparison(data: str | Path, schema: str | Path, test: str | Path | None, seed: int = 0) -> TableComparison:
    """The comparison on a public table; without `test`, a quarter of its rows is held out at random."""
    codec = TableCodec(Schema.load(schema))
    table = read_table(data)
    if test is None:
        order = np.random.default_rng(seed).permutation(table.rows)
        cut = int(HELD_OUT * table.rows)
        held, kept = (Table({name: table[name][at] for name in table}) for at in (order[:cut], order[cut:]))
    else:
        held, kept = read_table(test), table
    if min(held.rows, kept.rows) < 2:
        raise DataError("A comparison needs at least two rows to learn from and two to test on.")
    return TableComparison(codec, *codec.encode(kept, compact=True), held)


def measure_tables(
    comparison: TableComparison,
    epsilons: Sequence[float],
    delta: float,
    *,
    methods: Sequence[str] = METHODS,
    peers: str | None = None,
    draws: int = 1,
    cells: int = 32,
    limit: int = 1800,
    say: Callable[[TableRow], None] = lambda row: None,
) -> dict[str, Any]:
    """Every method at every ε, `draws` times, as plain JSON types; `say` hears of each as it ends.

    Parameters
    ----------
    peers
        The interpreter of an environment with `dpmm`; this one unless given.
    cells
        Cells per column of numbers that peers are given; 0 gives them privot's own.
    limit
        Processor seconds that one peer may take.
    """
    odd = [method for method in methods if method not in METHODS]
    if odd or not methods:
        raise UsageError(f"A method is one of {', '.join(METHODS)}, got {brief(odd[0] if odd else '')}.")
    if peers is None and find_spec("dpmm") is None and "privot" not in methods:
        raise UsageError("dpmm is not installed here: name the interpreter of an environment that has it.")
    rows = []
    for epsilon in epsilons:
        for method in methods:
            for seed in range(draws):
                if method == "privot":
                    table, seconds = comparison.ours(epsilon, delta, seed)
                    row = TableRow(method, epsilon, seed, seconds, comparison.measure(table))
                else:
                    row = _peer(comparison, method, epsilon, delta, seed, peers or sys.executable, cells, limit)
                rows.append(row)
                say(row)
    return {
        "rows": [asdict(row) for row in rows],
        "measures": [name for name in MEASURES if any(name in row.measures for row in rows)],
        "delta": delta,
        "adjacency": "add-remove",
        "records": {"train": len(comparison.x), "test": comparison.test.rows},
        "cells_of_peers": cells or "privot's own",
        "privacy": "none of these figures is private: the table was stated to be public",
    }


def _peer(
    comparison: TableComparison,
    method: str,
    epsilon: float,
    delta: float,
    seed: int,
    python: str,
    cells: int,
    limit: int,
) -> TableRow:
    most = cells or WIDEST
    with tempfile.TemporaryDirectory() as folder:
        given, drawn = Path(folder) / "cells.npz", Path(folder) / "sample.npz"
        held, sizes = comparison.cells(most)
        np.savez_compressed(given, cells=held, sizes=sizes)
        command = [python, str(_SCRIPT), str(given), str(drawn), "--method", method, "--epsilon", str(epsilon)]
        command += ["--delta", str(delta), "--seed", str(seed), "--limit", str(limit)]
        # not this interpreter's packages: the other one has its own
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            done = subprocess.run(command, capture_output=True, env={**kept, "OMP_NUM_THREADS": "1"}, check=False)  # noqa: S603
        except OSError:
            raise UsageError(f"{brief(python)} cannot be run: name a Python interpreter.") from None
        if done.returncode == 0:
            with np.load(drawn) as file:
                table, seconds = comparison.table_of(file["cells"], most, seed), float(file["seconds"])
            return TableRow(method, epsilon, seed, seconds, comparison.measure(table))
        missing = drawn.with_suffix(MISSING)
        package = missing.read_text(encoding="utf-8") if missing.exists() else "dpmm"
    notes = {
        NOT_INSTALLED: f"{package} cannot be imported",
        -signal.SIGXCPU: f"ended after {limit} s of processor time",
    }
    return TableRow(
        method, epsilon, seed, None, note=notes.get(done.returncode, f"failed (exit code {done.returncode})")
    )
