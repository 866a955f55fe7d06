"""Runs privot, AIM and MST on folders of public tables, several at once; a results file says what was run already.

A folder is as `table_step` wants it. Peers run on cells merged to 32 per column of numbers, and on privot's own even
cells ("all"), by the interpreter of an environment that has `dpmm`. A peer that takes more than `limit` seconds of
processor time is noted with `"stopped": true` and no measures. Peers run with a faster inference, equal up to rounding
(`"inference": "fast"`), so that their seconds are less than their own; `own_inference` runs theirs.

Runs that take longest are started first. After `until` seconds by the clock no run is started and those under way are
ended; the results have whole lines only. The next call goes on: finished runs are skipped, AIM goes on after its last
round kept in `state`, other runs begin again. `table_summary` reads the results.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import privot
from privot.errors import DataError, UsageError, brief
from privot_lab.bench.tables.table_peer import MISSING, NOT_INSTALLED

PEER = Path(__file__).with_name("table_peer.py")
STEP = [sys.executable, "-m", "privot_lab.bench.tables.table_step"]
CELLS = {"32": 32, "all": 1_000_000}
METHODS = ("aim-all", "aim-32", "mst-all", "mst-32", "privot")
"""Longest first."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class TableRuns:
    """What is to be run, and where results are kept."""

    folders: tuple[Path, ...]
    out: Path
    epsilons: tuple[float, ...] = (0.2, 1.0, 5.0)
    delta: float = 1e-6
    methods: tuple[str, ...] = METHODS
    seeds: tuple[int, ...] = (0, 1, 2)
    peers: str = sys.executable
    jobs: int = 1
    until: float | None = None
    limit: int = 7200
    own_inference: bool = False
    say: Callable[[str], None] = field(default=lambda line: None, compare=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for method in self.methods:
            if method not in METHODS:
                raise UsageError(f"A method is one of {', '.join(METHODS)}, got {brief(method)}.")
        if min(self.jobs, self.limit, 1 if self.until is None else self.until) <= 0 or min(self.seeds, default=0) < 0:
            raise UsageError("Jobs and limits must be positive, and seeds must not be negative.")
        for folder in self.folders:
            if not folder.is_dir():
                raise DataError(f"{folder.name!r} is not a folder: expected one with train.csv, test.csv, schema.json.")

    @property
    def inference(self) -> str:
        """Whose inference peers run with: `dpmm`'s own, or the one of `table_peer_inference`."""
        return "own" if self.own_inference else "fast"

    def state_of(self, run: Run) -> Path:
        """Where the rounds of AIM are kept; seconds of the two inferences are not added up."""
        return self.out.with_suffix(".state") / ("-".join(map(str, (*run.key, self.inference))) + ".npz")


class Run(NamedTuple):
    """One method on one table at one ε with one seed."""

    folder: Path
    epsilon: float
    method: str
    seed: int

    @property
    def key(self) -> tuple[str, float, str, int]:
        """As a line of the results names it."""
        return self.folder.name, self.epsilon, self.method, self.seed


class TimeOverError(Exception):
    """The time of this call is over."""


class Processes:
    """The processes under way, each a group of its own, so that all of them can be ended."""

    def __init__(self) -> None:
        self._lock, self._groups, self.over = threading.Lock(), set[int](), False

    def run(self, command: list[str]) -> int:
        """A command with one thread, to its end: its exit code. Raises when all were ended."""
        # the order of Python's sets must be the same when AIM goes on
        env = {**os.environ, **ONE_THREAD, "PYTHONHASHSEED": "0"}
        with self._lock:
            if self.over:
                raise TimeOverError
            process = subprocess.Popen(command, env=env, start_new_session=True)  # noqa: S603
            self._groups.add(process.pid)
        code = process.wait()
        with self._lock:
            self._groups.discard(process.pid)
            if self.over:
                raise TimeOverError
        return code

    def end(self) -> None:
        """End all of them, and start no other."""
        with self._lock:
            self.over = True
            for group in self._groups:
                os.killpg(group, signal.SIGKILL)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Only one process at a time."""
    with out.with_suffix(out.suffix + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def append(out: Path, line: dict[str, Any]) -> None:
    """One whole line; what a process left of half a line is cut off first."""
    with locked(out), out.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        held = file.read()
        whole = held.rfind(b"\n") + 1
        if whole != size:
            file.truncate(whole)
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def done(out: Path) -> set[tuple[str, float, str, int]]:
    """What the results hold: table, ε, method and seed. Half a line holds nothing."""
    if not out.exists():
        return set()
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]
    return {(line["table"], line["epsilon"], line["method"], line.get("seed", 0)) for line in lines}


def pending(chosen: TableRuns) -> list[Run]:
    """The runs that are not in the results, longest first: by method, then by seed, then by the size of the table."""
    known = done(chosen.out)
    runs = [Run(*made) for made in product(chosen.folders, chosen.epsilons, chosen.methods, chosen.seeds)]
    size = {folder: sum(file.stat().st_size for file in folder.glob("train.csv*")) for folder in chosen.folders}
    return sorted(
        (run for run in runs if run.key not in known),
        key=lambda run: (METHODS.index(run.method), run.seed, -size[run.folder], run.epsilon),
    )


def commit() -> str:
    """Of the checkout that is run; the version of an installed package."""
    root = Path(privot.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return privot.__version__
    found = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)  # noqa: S603, S607
    return found.stdout.strip() or privot.__version__


def measures(processes: Processes, chosen: TableRuns, run: Run, held: Path) -> dict[str, Any]:
    """The seconds and measures of one run, from its cells on."""
    line = held / "line.json"
    terms = ["--epsilon", str(run.epsilon), "--delta", str(chosen.delta), "--seed", str(run.seed)]
    if run.method == "privot":
        steps = [[*STEP, "ours", str(run.folder), *terms, "--out", str(line)]]
    else:
        peer, cells = run.method.split("-")
        given, drawn, most = str(held / "cells.npz"), str(held / "sample.npz"), ["--most", str(CELLS[cells])]
        state = chosen.state_of(run)
        state.parent.mkdir(parents=True, exist_ok=True)
        fit = [chosen.peers, str(PEER), given, drawn, "--method", peer, *terms, "--limit", str(chosen.limit)]
        fit += ["--state", str(state), *(["--as-it-comes"] if chosen.own_inference else [])]
        steps = [[*STEP, "cells", str(run.folder), "--file", given, *most], fit]
        steps += [[*STEP, "peer", str(run.folder), "--file", drawn, *most, "--out", str(line)]]
    for step in steps:
        code = processes.run(step)
        if code == -signal.SIGXCPU:
            return {"seconds": chosen.limit, "stopped": True}
        missing = held / f"sample{MISSING}"
        if code == NOT_INSTALLED and missing.exists():
            name = brief(missing.read_text(encoding="utf-8"))
            raise RuntimeError(f"{run.key}: {chosen.peers} cannot import {name}: install it there, or name another.")
        if code:
            raise RuntimeError(f"{run.key}: exit code {code} of {' '.join(step)}")
    found: dict[str, Any] = json.loads(line.read_text(encoding="utf-8"))
    return found


def run_one(processes: Processes, chosen: TableRuns, run: Run) -> None:
    """One run, from its cells to its line in the results."""
    table, epsilon, method, seed = run.key
    chosen.say(f"{table}, ε = {epsilon:g}, {method}, seed {seed}: started")
    with tempfile.TemporaryDirectory() as held:
        found = measures(processes, chosen, run, Path(held))
    named = {"table": table, "epsilon": epsilon, "method": method, "seed": seed}
    line = {**named, **found, **({"inference": chosen.inference} if method != "privot" else {})}
    append(chosen.out, {**line, "delta": chosen.delta, "commit": commit(), "machine": platform.machine()})
    chosen.state_of(run).unlink(missing_ok=True)


def run_all(chosen: TableRuns) -> tuple[int, list[str]]:
    """Run what is missing until it is there or time is over: how many runs are left, and what failed."""
    processes, runs, failed = Processes(), pending(chosen), list[str]()
    timer = threading.Timer(chosen.until, processes.end) if chosen.until else None
    if timer:
        timer.daemon = True
        timer.start()
    # a call that is ended from outside ends its runs, too
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    start = time.monotonic()
    with ThreadPoolExecutor(chosen.jobs) as pool:
        try:
            for future in [pool.submit(run_one, processes, chosen, run) for run in runs]:
                try:
                    future.result()
                except TimeOverError:
                    continue
                except RuntimeError as error:
                    failed.append(str(error))
        except BaseException:
            processes.end()
            raise
        finally:
            if timer:
                timer.cancel()
    left = len(pending(chosen))
    chosen.say(f"{len(runs) - left} runs done, {left} left, {time.monotonic() - start:.0f} s")
    return left, failed
