"""Kills commands that release at chosen moments and runs them again: `python release_killer.py FOLDER TIMES [few]`.

Every life is a fork of this process that runs one command. In the first one a function of privot sends the signal to
its own process when it is called, so that every kill meets the same state. Prints a JSON line for each kill: how the
first life ended and what it said, what the ledgers held then, and what the same command said and charged afterwards.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

# what the commands load along their way is loaded here, so that a life is spent on the command
import privot.cli.app
import privot.cli.running.private_comparison
import privot.cli.running.sketch_release
import privot.cli.running.summary_release
import privot.federation.private_distance
import privot.federation.sketches.delivering
import privot.jobs.release_once
import privot.mechanisms
import privot.tables
import privot.transport  # noqa: F401
from privot import cli
from privot.ledger import Ledger

TERMS = "--epsilon 0.5 --delta 1e-6"
COMMANDS = {
    "release count": f"release count a.csv --column u --between 2,5 {TERMS} --adjacency add-remove",
    "release mean": f"release mean a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "release histogram": f"release histogram a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "release quantile": f"release quantile a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "compare dp-swd": f"compare a.csv b.csv --method dp-swd {TERMS} --adjacency replace-one --clip 9",
    "sketch": f"sketch a.csv {TERMS} --adjacency add-remove --range 0,9 --out s.sketch",
}
"""Every command that releases and keeps no job; jobs are killed in tests/synthesis and tests/adaptation."""
MOMENTS = {
    "at the charge": "privot.ledger.ledger.Ledger._append",
    "after the charge": "privot.ledger.ledger.Ledger._anchor",
    "before the noise": "privot.vault.vault.run_paid",
    "before it is kept": "privot.jobs.release_once.write_whole",
    "while it is delivered": "privot.cli.printing.guarantee_words.in_words",
    "when it was delivered": "privot.jobs.release_once._remove",
}
WRITTEN = {"while it is delivered": "privot.federation.sketches.signed_sketch.Sketch.save"}
"""A sketch is written to a file, not printed."""
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


def strike(place: str, number: int, at: int) -> None:
    """Let the function at `place` send the signal to its own process when it is called for the `at`-th time."""
    owner, name = _found(place.split("."))
    real, calls = getattr(owner, name), []

    def struck(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == at:
            os.kill(os.getpid(), number)
            # the interpreter looks at signals between two steps
            [None for _ in range(1000)]
        return real(*given, **named)

    setattr(owner, name, struck)


def _found(parts: list[str]) -> tuple[Any, str]:
    with suppress(ModuleNotFoundError):
        return import_module(".".join(parts[:-1])), parts[-1]
    return getattr(import_module(".".join(parts[:-2])), parts[-2]), parts[-1]


def life(words: str, struck: tuple[str, int, int] | None = None) -> tuple[int, str, str]:
    """(exit code or minus the signal, standard output, standard error) of one run of a command, in a fork."""
    child = os.fork()
    if child == 0:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        # tests that run in the background ignore interrupts
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if struck is not None:
            strike(*struck)
        sys.argv = ["privot", *shlex.split(words)]
        code = 1
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, Path("out").read_text(), Path("err").read_text()


def charges() -> list[int]:
    """How many charges each ledger here holds; each is verified."""
    found = []
    for path in sorted(Path().glob("*.ledger")):
        with Ledger.open(path) as book:
            book.verify()
            found.append(len(book.entries()))
    return found


def killed(name: str, moment: str, number: str, turn: int) -> dict[str, Any]:
    """One kill, and the same command again."""
    place = WRITTEN.get(moment, MOMENTS[moment]) if name == "sketch" else MOMENTS[moment]
    sides = 2 if name == "compare dp-swd" else 1
    # the budget of each side is a row, then its charge is; of two sides the one or the other is charged
    at = 1 + sides + turn % sides if "the charge" in moment else 2 if "is kept" in moment else 1
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
