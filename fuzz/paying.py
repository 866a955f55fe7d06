"""Commands that pay, and the rule of all of them: what was paid for is there afterwards, and is not paid a second time.

Used by the cases of unwritable places and of signals: a first life of the command goes wrong, a second one does not.
"""

# ruff: noqa: E501 — a call is easier to read in one line

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from fuzz import kit
from fuzz.lives import charges

OUT = "OUT"
"""Stands for the place to write to."""
_MEAN = ["--column", "0", "--range", "0,1"]
_JOB = ["--ledger", "in/job.ledger", "--out", OUT]
RELEASES: list[tuple[str, list[str], list[str]]] = [
    (".npz", ["release", "mean", "in/a.npz", *kit.TERMS, *_MEAN, "--out", OUT], ["in/a.npz"]),
    ("", ["release", "count", "in/a.npz", *kit.TERMS, "--column", "0", "--between", "0,1"], ["in/a.npz"]),
    ("", ["release", "quantile", "in/a.npz", *kit.TERMS, *_MEAN, "--at", "0.5", "--json"], ["in/a.npz"]),
    (".npz", ["release", "histogram", "in/table.csv", *kit.TERMS, "--schema", "in/schema.json", "--column", "age", "--bins", "4", "--out", OUT], ["in/table.csv", "in/schema.json"]),
    ("", ["compare", "in/a.npz", "in/b.npz", "--method", "dp-swd", *kit.TERMS, "--clip", "1"], ["in/a.npz", "in/b.npz"]),
    (".sketch", ["sketch", "in/a.npz", *kit.TERMS, "--range", "0,1", "--classes", "2", "--out", OUT], ["in/a.npz"]),
    (".release", ["answer", "in/request.json", "in/target.npz", "--epsilon", "5", "--delta", "1e-5", "--key", "in/answer.key", "--out", OUT], ["in/request.json", "in/target.npz", "in/answer.key"]),
]  # fmt: skip
"""(ending, command, what it takes of the kit): the same command again goes on."""
JOBS: list[tuple[str, list[str], list[str]]] = [
    ("", [*kit.SYNTH["rows"], *_JOB], ["in/a.npz"]),
    ("", [*kit.SYNTH["table"], *_JOB], ["in/table.csv", "in/schema.json"]),
    ("", [*kit.SYNTH["sinkhorn"], *_JOB], ["in/a.npz"]),
    ("", [*kit.ADAPT, *_JOB], ["in/source.npz", "in/target.npz"]),
]
"""The same with `--resume` goes on."""


def at(words: list[str], place: str) -> list[str]:
    """The command with its place."""
    return [place if word == OUT else word for word in words]


def due(words: list[str]) -> int:
    """How many charges it makes in all."""
    return 2 if "dp-swd" in words or "blocks=2" in words else 1


def again(words: list[str], place: str, said: str) -> list[str]:
    """The command that goes on after the first life: the one that it names, as a shell reads it."""
    named = re.search(r"with: privot ((?:synth|adapt) --resume .+?)\.?$", said.strip())
    if named:
        # a line cut short, or one with more than words, would fail here
        told = subprocess.run(["bash", "-c", rf"printf '%s\0' {named[1]}"], capture_output=True, check=True)  # noqa: S603, S607
        return [os.fsdecode(word) for word in told.stdout.split(b"\0")[:-1]]
    folder = Path(place)
    return [*words, "--resume"] if words[0] in ("synth", "adapt") and (folder / "job.json").exists() else words


def unpaid(words: list[str], code: int, said: str, lost: bool) -> str:
    """What is wrong after the second life, which must end well; `lost`: the first was killed without a word."""
    paid = sum(charges(Path("in")))
    if code == 4 and lost and "is lost, so allow a second charge" in said and words[0] in ("synth", "adapt"):
        # a job pays before it releases: a kill between the two loses the release, and the sentence says so
        return ""
    if code:
        return f"the second life ended in {code}: {said[:300]}"
    if paid != due(words):
        return f"{paid} charges in all where {due(words)} are due"
    return ""
