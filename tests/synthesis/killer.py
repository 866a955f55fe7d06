"""Kills `privot synth` at random moments and resumes it: `python killer.py FOLDER MOMENTS SEED arrays|table|METHOD`.

Every life is a fork that runs the command; the first of a job is killed (SIGKILL) after a random share of the time an
undisturbed run takes, and so, half of the time, is the second. Prints a JSON line for each job: how often it was
killed, how often the ledger was charged, whether a payment was lost, and the guarantee it ended with.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import matplotlib.figure  # noqa: F401
import numpy as np
import torch
import torch._dynamo

# what a run loads along its way is loaded here, so that a life is spent on the job
import privot.cli.app
import privot.synthesis.output.html_report  # noqa: F401
from privot.cli import run
from privot.ledger import Ledger
from privot.synthesis import Synthesizer

TERMS = "--epsilon 2 --delta 1e-5 --adjacency add-remove".split()
JOB = "--samples 50 --set checkpoint=0.02 --seed 1 --device cpu".split()
ARRAYS = "--classes 2 --range 0,1 --set steps=40".split()
SCHEMA = {
    "label": "y",
    "columns": [
        {"name": "a", "type": "continuous", "low": 0, "high": 1},
        {"name": "b", "type": "continuous", "low": 0, "high": 1},
        {"name": "y", "type": "categorical", "categories": ["0", "1"]},
    ],
}


def life(arguments: list[str], seconds: float | None) -> int | None:
    """The exit code of one run, or None if it was killed after `seconds`."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os._exit(run(arguments))
    end = time.monotonic() + (seconds if seconds is not None else 600.0)
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def job(folder: Path, data: Path, moments: list[float]) -> dict[str, object]:
    ledger, out, schema = folder / "ledger", folder / "out", data.with_name("schema.json")
    folder.mkdir()
    of_table = ["--schema", str(schema)] if schema.exists() else []
    budget = ["--data", str(data), "--epsilon", "9", *TERMS[2:], *of_table]
    assert life(["ledger", "init", str(ledger), *budget], None) == 0
    public = of_table or ARRAYS
    arguments = ["synth", str(data), *TERMS, *JOB, *public, "--out", str(out), "--ledger", str(ledger), "--resume"]
    kills = sum(life(arguments, moment) is None for moment in moments)
    code = life(arguments, None)
    lost = code == 4
    if lost:
        code = life([*arguments, "--pay-again"], None)
    with Ledger.open(ledger) as book:
        book.verify()
        charges = len(book.entries())
    return {"code": code, "kills": kills, "charges": charges, "lost": lost, **what_was_made(out)}


def what_was_made(out: Path) -> dict[str, object]:
    """Read in a fork: a process whose tensors have started threads cannot be forked safely afterwards."""
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        made = Synthesizer.load(out)
        x, _ = made.sample(20)
        if made.kind_.codec is not None:
            x = made.kind_.codec.encode(x, compact=True)[0]
        found = {
            "epsilon": made.guarantee_.epsilon(),
            "usable": bool(np.isfinite(x).all() and x.shape == (20, 2)),
            "steps": len(made.losses_),
        }
        os.write(start, json.dumps(found).encode())
        os._exit(0)
    os.close(start)
    os.waitpid(child, 0)
    with os.fdopen(end) as pipe:
        return dict(json.loads(pipe.read()))


def main(folder: Path, moments: int, seed: int, kind: str) -> None:
    torch.set_num_threads(1)
    if kind not in ("arrays", "table"):
        JOB.extend(["--method", kind, *"--set blocks=8 --set batch=20 --set records=400".split()])
    dice = random.Random(seed)
    y = np.arange(400) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((400, 2)), 0, 1)
    data = folder / ("data.csv" if kind == "table" else "data.npz")
    if kind != "table":
        np.savez(data, x=x, y=y)
    else:
        lines = [f"{a},{b},{k}" for (a, b), k in zip(x, y, strict=True)]
        data.write_text("\n".join(["a,b,y", *lines]) + "\n", encoding="utf-8")
        (folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    start = time.monotonic()
    print(json.dumps(job(folder / "undisturbed", data, [])), flush=True)
    whole = time.monotonic() - start
    for number in range(moments):
        shares = [dice.random()] + [dice.random() for _ in range(number % 2)]
        print(json.dumps(job(folder / str(number), data, [whole * share for share in shares])), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
