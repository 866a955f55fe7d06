"""The sentence that each mishap gets, as one table: every command is run for real, in a folder that is thrown away.

    python docs/building/mishap_sentences.py

Small invented records, a CPU, three minutes. What a sentence says about test records is invented as well.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

PATIENCE = 300.0
HIDING = """
import sys
from importlib.machinery import PathFinder
real = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: None if name == "torch" else real(name, path, target)
sys.argv[0] = "privot"
from privot.cli import main
main()
"""
"""Starts privot where PyTorch is not found, as if it were not installed."""
SCHEMA = {"columns": [{"name": f"c{k}", "type": "continuous", "low": 0, "high": 1} for k in range(10)]}


def privot(place: Path, words: str, wanted: str = "", *, hiding: bool = False) -> tuple[str, int, str]:
    """The command, its exit code, and the lines that a person reads which hold `wanted`."""
    start = ["-c", HIDING] if hiding else ["-m", "privot"]
    line = [sys.executable, *start, *words.split()]
    done = subprocess.run(line, cwd=place, capture_output=True, text=True, timeout=PATIENCE)  # noqa: S603
    return words, done.returncode, said(done.stderr + done.stdout, wanted, place)


def said(text: str, wanted: str, place: Path) -> str:
    """Those lines with a stroke between them; the folder that is thrown away is not named."""
    lines = [line.removeprefix("privot: ") for line in text.splitlines() if wanted in line and " so far" not in line]
    return " ".join(" / ".join(lines).replace(f"{place}/", "").split())


def interrupted(place: Path, words: str, when: Callable[[], bool]) -> tuple[str, int, str]:
    """The same for a command that is interrupted once `when` is true."""
    line = [sys.executable, "-m", "privot", *words.split()]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(line, cwd=place, **pipes) as process:  # noqa: S603
        end = time.monotonic() + PATIENCE
        while not when() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=PATIENCE)[1]
    return words, process.returncode, said(err, "Interrupted", place)


def prepare(place: Path) -> None:
    """The files that the commands read."""
    dice = np.random.default_rng(0)
    y = np.arange(400) % 2
    np.savez(place / "scans.npz", x=np.clip(0.25 + 0.5 * y[:, None] + 0.1 * dice.standard_normal((400, 4)), 0, 1), y=y)
    names = ",".join(column["name"] for column in SCHEMA["columns"])
    for file in ("patients.csv", "few.csv"):
        table = "\n".join(",".join(f"{v:.3f}" for v in row) for row in dice.random((200, 10)))
        (place / file).write_text(f"{names}\n{table}\n")
    (place / "schema.json").write_text(json.dumps(SCHEMA))
    digits = load_digits()
    x, labels = digits.data / 16.0, digits.target
    np.savez(place / "bright.npz", x=x[:800], y=labels[:800])
    # the same digits under a weaker contrast
    pale = 0.3 + 0.5 * x
    np.savez(place / "pale.npz", x_train=pale[800:1400], x_test=pale[1400:], y_test=labels[1400:])
    (place / "work").mkdir()
    (place / "work" / "copy.csv").write_bytes((place / "patients.csv").read_bytes())


def rows(place: Path) -> Iterator[tuple[str, str, int, str]]:
    """(what happens, the command, its exit code, the sentence), one after another: later ones build on earlier ones."""
    terms, two = "--epsilon 1 --delta 1e-5", "--adjacency replace-one"
    synth = f"synth scans.npz --classes 2 --range 0,1 {terms} {two} --seed 1 --set checkpoint=0 --out"
    table = f"synth {{}} --schema schema.json {terms} {two} --seed 1 --out"
    own = table.format("patients.csv")
    mean = f"release mean {{}} --column c0 --range 0,1 {terms} {two}"
    adapt = f"adapt bright.npz pale.npz {terms} --range 0,1 --seed 1 --test pale.npz --out model"
    early, paid = place / "early", place / "scans" / "checkpoint.safetensors"
    yield "no PyTorch", *privot(place, f"{synth} scans", hiding=True)
    yield "Ctrl-C before anything is paid", *interrupted(place, f"{synth} early", early.exists)
    yield "Ctrl-C while it trains", *interrupted(place, f"{synth} scans", paid.exists)
    yield "`--resume` after that", *privot(place, "synth --resume --out scans", "Going on")
    yield "`--resume` where there is no job", *privot(place, f"{own} table --resume", "There is no job")
    yield "200 rows at ε = 1", *privot(place, f"{table.format('few.csv')} few", "too few")
    yield "the budget is spent", *privot(place, f"{own} more", "would bring")
    yield "a copied file", *privot(place, mean.format("work/copy.csv"), "Warning")
    yield "another `--budget`", *privot(place, mean.format("work/copy.csv") + " --budget 9")
    yield "a mistyped `--ledger`", *privot(place, mean.format("patients.csv") + " --ledger patient.ledger")
    yield "a changed contrast", *privot(place, adapt, "not private")


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    # a shell starts what runs in the background deaf to Ctrl-C, and the commands would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        prepare(place)
        print("| what happens | command | exit code | sentence |\n|---|---|---|---|")
        for what, command, code, sentence in rows(place):
            print(f"| {what} | `privot {command}` | {code} | {sentence.replace('|', chr(92) + '|')} |", flush=True)


if __name__ == "__main__":
    main()
