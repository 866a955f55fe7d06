"""Cases of damaged files: one valid file of every format, mutated, read by a command that takes it."""

# ruff: noqa: E501 — a call is easier to read in one line

from __future__ import annotations

from pathlib import Path

from fuzz import kit
from fuzz.case import BUDGET, DATA, DONE, REFUTED, UNPROVEN, USAGE, Case, random_of
from fuzz.mutations import mutate

COMPARED = ["--slices", "5"]
TABLE = [
    "synth",
    "in/table.csv",
    *kit.TERMS,
    *kit.QUICK,
    "--schema",
    "in/schema.json",
    "--samples",
    "5",
    "--out",
    "out/new",
]
CALLS: list[tuple[str, list[str], list[str], set[int]]] = [
    ("in/a.npz", ["compare", "in/a.npz", "in/b.npz", *COMPARED], ["in/b.npz"], set()),
    ("in/a.npz", ["ledger", "init", "out/l", "--data", "in/a.npz", *kit.TERMS], [], set()),
    ("in/a.npy", ["compare", "in/a.npy", "in/b.npz", *COMPARED], ["in/b.npz"], set()),
    ("in/a.csv", ["compare", "in/a.csv", "in/b.npz", *COMPARED], ["in/b.npz"], set()),
    ("in/a.csv.gz", ["compare", "in/a.csv.gz", "in/b.npz", *COMPARED], ["in/b.npz"], set()),
    ("in/train-images-idx3-ubyte", ["compare", "in/train-images-idx3-ubyte", "in/pictures", *COMPARED], ["in/train-labels-idx1-ubyte", "in/pictures"], set()),
    ("in/train-labels-idx1-ubyte", ["compare", "in/train-images-idx3-ubyte", "in/pictures", *COMPARED], ["in/train-images-idx3-ubyte", "in/pictures"], set()),
    ("in/pictures/u/0.png", ["compare", "in/pictures", "in/pictures", *COMPARED], ["in/pictures"], set()),
    ("in/words.npz", ["compare", "in/a.txt", "in/b.txt", "--words", "in/words.npz", *COMPARED], ["in/a.txt", "in/b.txt"], set()),
    ("in/a.txt", ["compare", "in/a.txt", "in/b.txt", "--words", "in/words.npz", *COMPARED], ["in/b.txt", "in/words.npz"], set()),
    ("in/table.csv", [*TABLE], ["in/schema.json"], set()),
    ("in/table.csv.gz", [w.replace("table.csv", "table.csv.gz") for w in TABLE], ["in/schema.json"], set()),
    ("in/table.parquet", [w.replace("table.csv", "table.parquet") for w in TABLE], ["in/schema.json"], set()),
    ("in/schema.json", [*TABLE], ["in/table.csv"], {USAGE}),
    ("in/schema.toml", [w.replace("schema.json", "schema.toml") for w in TABLE], ["in/table.csv"], {USAGE}),
    ("in/schema.json", ["ledger", "init", "out/l", "--data", "in/table.csv", "--schema", "in/schema.json", *kit.TERMS], ["in/table.csv"], {USAGE}),
    ("in/dictionary.json", ["schema", "propose", "--dictionary", "in/dictionary.json", "--header", "in/table.csv", "--out", "out/s.json"], ["in/table.csv"], {USAGE}),
    ("in/table.csv", ["schema", "propose", "--sample", "in/table.csv", "--public", "--out", "out/s.json"], [], {USAGE}),
    ("in/table.parquet", ["schema", "propose", "--sample", "in/table.parquet", "--public", "--out", "out/s.json"], [], {USAGE}),
    ("in/made.csv", ["evaluate", "in/made.csv", "--test", "in/table.csv", "--schema", "in/schema.json"], ["in/table.csv", "in/schema.json"], set()),
    ("in/a.sketch", ["compare", "in/a.sketch", "in/b.sketch"], ["in/b.sketch"], {BUDGET}),
    ("in/a.key.pub", ["compare", "in/a.sketch", "in/b.sketch", "--trust", "in/a.key.pub", "--trust", "in/b.key.pub"], ["in/a.sketch", "in/b.sketch", "in/b.key.pub"], {BUDGET}),
    ("in/a.key", ["sketch", "in/a.npz", *kit.TERMS, "--range", "0,1", "--key", "in/a.key", "--out", "out/a.sketch"], ["in/a.npz"], {USAGE}),
    ("in/a.sketch", ["federate", "matrix", "in/a.sketch", "in/b.sketch", "--workers", "1"], ["in/b.sketch"], set()),
    ("in/a.sketch", ["audit", "in/a.sketch", "--trials", "1000"], [], {REFUTED, UNPROVEN, USAGE}),
    ("in/b.sketch", ["points", "in/a.npz", "--validation", "in/b.sketch", "--range", "0,1"], ["in/a.npz"], set()),
    ("in/release.npz", ["audit", "in/release.npz", "--trials", "1000", "--runs", "100"], [], {REFUTED, UNPROVEN, USAGE}),
    ("in/guarantee.json", ["audit", "in/guarantee.json", "--trials", "1000"], [], {REFUTED, UNPROVEN, USAGE}),
    ("in/transcript.npz", ["audit", "in/transcript.npz", "--trials", "1000"], [], {REFUTED, USAGE}),
    ("in/rows.ledger", ["ledger", "show", "in/rows.ledger"], [], set()),
    ("in/rows.ledger", ["ledger", "verify", "in/rows.ledger"], [], set()),
    ("in/book.ledger", ["sketch", "in/a.npz", *kit.TERMS, "--range", "0,1", "--ledger", "in/book.ledger", "--out", "out/a.sketch"], ["in/a.npz"], {BUDGET, USAGE}),
]  # fmt: skip
"""(the file to damage, the call that reads it, what else it takes of the kit, codes that are right beside 0 and 3)."""


def cases(seed: int, count: int, bombs: float = 0.03) -> list[Case]:
    """`count` cases."""
    return [case(seed, number, bombs) for number in range(count)]


def case(seed: int, number: int, bombs: float = 0.03) -> Case:
    """One file of one format, damaged; the formats take turns."""
    random = random_of(seed, "files", number)
    file, arguments, needs, further = CALLS[number % len(CALLS)]
    arguments = [*arguments, "--json"] if random.random() < 0.3 else list(arguments)

    def prepare(source: Path, folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        kit.take(source, folder, [file, *needs])
        (folder / "mutation").write_text(mutate(folder / file, random, bombs))

    return Case("files", number, arguments, prepare, frozenset({DONE, DATA} | further), file)
