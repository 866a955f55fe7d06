"""The jobs that the neighbour game is played with: worst-case neighbours, through the commands and names people use."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neighbour_game import Job

from privot.cli import run

TERMS = "--epsilon 2 --delta 1e-6 --adjacency add-remove".split()
QUICK = "--samples 40 --seed 1 --device cpu".split()
SCHEMA: dict[str, Any] = {
    "label": "ill",
    "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 99},
        {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"], "missing": True},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ],
}


def visits(count: int = 60) -> list[str]:
    """The rows that both neighbours have."""
    dice = random.Random(0)
    return [
        f"{dice.randrange(20, 80)},{dice.choice(['Ulm', 'Bonn'])},{dice.choice(['no', 'yes'])}" for _ in range(count)
    ]


def table(folder: Path, second: bool, odd: str = "99,,yes") -> None:
    """A table whose second neighbour lacks one record: the only one at the end of the range, and of no city."""
    rows = ["age,city,ill", *visits(), *([] if second else [odd])]
    (folder / "data.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")


def command(*words: str) -> Callable[[], Any]:
    """The exit code of one command."""
    return lambda: run(list(words))


def summary(kind: str, *more: str) -> Job:
    """One simple number, kept in a file."""
    words = ("release", kind, "data.csv", "--schema", "schema.json", *TERMS, "--out", "number.npz", *more)
    return Job(f"release {kind}", "add-remove", table, command(*words))


SUMMARIES = (
    summary("count"),
    summary("mean", "--column", "age"),
    summary("histogram", "--column", "city"),
    summary("quantile", "--column", "age"),
)
TABLE = Job(
    "synth of a table",
    "add-remove",
    table,
    command("synth", "data.csv", "--schema", "schema.json", *TERMS, *QUICK, "--out", "made"),
)
FAST = (*SUMMARIES, TABLE)
