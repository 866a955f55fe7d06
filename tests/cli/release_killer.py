"""Kills commands that release at chosen moments and runs them again: `python release_killer.py FOLDER TIMES [few]`.

Every life is a fork of this process that runs one command. In the first one a function of privot sends the signal to
its own process when it is called, so that every kill meets the same state. Prints a JSON line for each kill: how the
first life ended and what it said, what the ledgers held then, and what the same command said and charged afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

# this is run as a file, so the fuzzer's lives are found by the root of the project
sys.path.insert(0, str(Path(__file__).parents[2]))

# what the commands load along their way is loaded here, so that a life is spent on the command
from fuzz.lives import charges, life

import privot.cli.app
import privot.cli.running.private_comparison
import privot.cli.running.sketch_release
import privot.cli.running.summary_release
import privot.federation.private_distance
import privot.federation.sketches.delivering
import privot.jobs.paid_question
import privot.mechanisms
import privot.tables
import privot.transport  # noqa: F401

TERMS = "--epsilon 0.5 --delta 1e-6"
COMMANDS = {
    "release count": f"release count a.csv --column u --between 2,5 {TERMS} --adjacency add-remove",
    "release mean": f"release mean a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "release histogram": f"release histogram a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "release quantile": f"release quantile a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "compare dp-swd": f"compare a.csv b.csv --method dp-swd {TERMS} --adjacency replace-one --clip 9",
    "sketch": f"sketch a.csv {TERMS} --adjacency add-remove --range 0,9 --out s.sketch",
}
"""Every command that releases and keeps no job; `job_killer` kills jobs."""
MOMENTS = {
    "at the charge": "privot.ledger.ledger.Ledger._append",
    "after the charge": "privot.ledger.ledger.Ledger._anchor",
    "before the noise": "privot.vault.vault.run_paid",
    "before it is kept": "privot.release.Release.save",
    "while it is delivered": "privot.cli.printing.guarantee_words.in_words",
    "when it was delivered": "privot.jobs.paid_question.Question.remove",
}
WRITTEN = {
    "before it is kept": "privot.federation.sketches.delivering.write_whole",
    "while it is delivered": "privot.federation.sketches.signed_sketch.Sketch.save",
}
"""A sketch is kept and written as a file of its own, not printed."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
FEW = [
    ("release mean", "at the charge", "SIGKILL"),
    ("release mean", "after the charge", "SIGINT"),
    ("compare dp-swd", "after the charge", "SIGKILL"),
    ("release count", "before the noise", "SIGKILL"),
    ("compare dp-swd", "before it is kept", "SIGTERM"),
    ("release quantile", "while it is delivered", "SIGINT"),
    ("sketch", "while it is delivered", "SIGTERM"),
    ("release histogram", "when it was delivered", "SIGKILL"),
]
"""One kill of each kind."""


def killed(name: str, moment: str, number: str, turn: int) -> dict[str, Any]:
    """One kill, and the same command again."""
    place = WRITTEN.get(moment, MOMENTS[moment]) if name == "sketch" else MOMENTS[moment]
    sides = 2 if name == "compare dp-swd" else 1
    # the budget of each side is a row, then its charge is; of two sides the one or the other is charged
    at = 1 + sides + turn % sides if "the charge" in moment else 1
    code, out, err = life(COMMANDS[name], (place, int(signal.Signals[number]), at))
    found: dict[str, Any] = {"name": name, "moment": moment, "signal": number, "code": code, "out": out, "err": err}
    found |= {"sides": sides, "charged_then": sum(charges())}
    Path("s.sketch").unlink(missing_ok=True)
    code, out, err = life(COMMANDS[name])
    left = [path.name for path in Path().glob("*.ledger.*/*") if path.name != ".lock"]
    found |= {"code_again": code, "out_again": out, "err_again": err, "charged": charges(), "left": left}
    for path in Path().iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix != ".csv":
            path.unlink()
    return found


def main(folder: Path, times: int, few: bool) -> None:
    os.chdir(folder)
    rows = np.random.default_rng(0).integers(0, 10, size=(2, 60, 2))
    for name, numbers in zip("ab", rows, strict=True):
        Path(f"{name}.csv").write_text("u,v\n" + "".join(f"{u},{v}\n" for u, v in numbers))
    every = [(name, moment, number) for name in COMMANDS for moment in MOMENTS for number in SIGNALS]
    for turn in range(times):
        for case in FEW if few else every:
            print(json.dumps(killed(*case, turn)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "few" in sys.argv[3:])
