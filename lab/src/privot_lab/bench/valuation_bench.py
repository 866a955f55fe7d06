"""Scores of made-up records: privot and opendataval's LAVA, each in its own process, as ratios of time and memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from privot.errors import UsageError, brief
from privot_lab.bench.lava_peer import NOT_INSTALLED

CLASSES, FLIPPED = 10, 0.05
PEER = "opendataval"
PEER_SCRIPT = Path(__file__).with_name("lava_peer.py")


def made_up(records: int, validation: int, columns: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Ten Gaussians in a cube as x, y, v and w, and the rows of x whose labels were changed."""
    g = np.random.default_rng(seed)
    middle = g.random((CLASSES, columns))

    def some(n: int) -> tuple[Any, Any]:
        y = g.integers(0, CLASSES, n)
        return np.clip(middle[y] + g.normal(0.0, 0.4, (n, columns)), 0.0, 1.0).astype(np.float32), y

    (x, y), (v, w) = some(records), some(validation)
    bad = g.choice(records, max(1, int(FLIPPED * records)), replace=False)
    y[bad] = (y[bad] + g.integers(1, CLASSES, len(bad))) % CLASSES
    return {"x": x, "y": y, "v": v, "w": w}, bad


def measure_valuation(
    records: int,
    validation: int,
    columns: int,
    *,
    peers: str | None = None,
    threads: int = 2,
    limit: int = 1800,
    seed: int = 0,
    say: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """Seconds, processor seconds, peak memory and recall of both ways, as plain JSON types; `say` hears of each.

    Parameters
    ----------
    records, validation, columns
        Sizes of the made-up sets; 5 % of the records have a wrong label.
    peers
        The interpreter of an environment with opendataval; the peer is left out unless given.
    threads, limit
        Of each way; the limit is of processor seconds of the peer.
    """
    if min(records, validation) < 2 * CLASSES or columns < 1 or threads < 1 or limit < 1:
        raise UsageError(f"Expected at least {2 * CLASSES} records on either side, a column, a thread and a second.")
    if peers is not None and shutil.which(peers) is None:
        # said before our own way takes its minutes
        raise UsageError(f"{brief(peers)} cannot be run: name a Python interpreter.")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "records.npz"
        made, bad = made_up(records, validation, columns, seed)
        np.savez(given, **made)
        del made
        ways: list[tuple[str, list[str], list[str]]] = [
            ("privot", [sys.executable, "-m", "privot_lab.bench.own_scores", str(given)], [])
        ]
        if peers is not None:
            more = ["--threads", str(threads), "--limit", str(limit)]
            ways.append((PEER, [peers, str(PEER_SCRIPT), str(given)], more))
        for who, command, more in ways:
            rows.append(timed_scores(who, command, more, Path(folder) / f"{who}.npz", bad, threads, limit))
            say(rows[-1])
    found: dict[str, Any] = {
        "records": records, "validation": validation, "columns": columns, "threads": threads,
        "load": os.getloadavg()[0], "cores": os.cpu_count(), "rows": rows,
    }  # fmt: skip
    if len(rows) == 2 and rows[1]["seconds"] is not None:
        for name in ("seconds", "processor_seconds", "mebibytes"):
            found[f"times_less_{name}"] = rows[1][name] / rows[0][name]
    return found


def timed_scores(
    who: str, command: list[str], more: list[str], out: Path, bad: Any, threads: int, limit: int
) -> dict[str, Any]:
    """One way in its own process: its times, memory and recall, or a note that says why there are none."""
    kept = dict(os.environ)
    if who != "privot":
        # not this interpreter's packages: the other one has its own
        kept.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(  # noqa: S603
            [*command, str(out), *more],
            capture_output=True,
            env={**kept, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
            check=False,
        )
    except OSError:
        raise UsageError(f"{brief(command[0])} cannot be run: name a Python interpreter.") from None
    if done.returncode != 0:
        notes = {NOT_INSTALLED: "not installed", -signal.SIGXCPU: f"ended after {limit} s of processor time"}
        note = notes.get(done.returncode, f"failed (exit code {done.returncode})")
        return {"who": who, "seconds": None, "note": note}
    with np.load(out) as file:
        worst = np.argsort(-file["score"])[: len(bad)]
        row = {name: float(file[name]) for name in ("seconds", "processor_seconds", "mebibytes")}
    return {"who": who, **row, "recall": len(np.intersect1d(worst, bad)) / len(bad), "note": ""}
