"""Runs privot, AIM and MST on folders of tables, several at once; what is in the results already is not run again.

    python benchmarks/tables/table_runs.py FOLDER … --peers PYTHON --epsilon 1 --seeds 0 1 2 --jobs 16 --until 570 \
        --out results.jsonl

FOLDER is as `table_comparison.py` wants it; PYTHON is the interpreter of an environment that has `dpmm`. Peers run on
cells merged to 32 per column of numbers, and on privot's own cells ("all"). A peer that takes more than `--limit`
seconds of processor time is noted with `"stopped": true` and no measures. Peers run with a faster inference, equal up
to rounding (`"inference": "fast"`), so that their seconds are less than their own; `--as-it-comes` runs theirs.

Runs that take longest are started first. After `--until` seconds by the clock no run is started and those under way are
ended; the results have whole lines only. The next call goes on: finished runs are skipped, AIM goes on after its last
round kept in `--state`, other runs begin again. `table_summary.py` reads the results.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "src/privot/bench/table_peer.py"
COMPARE = HERE / "table_comparison.py"
CELLS = {"32": 32, "all": 1_000_000}
METHODS = ("aim-all", "aim-32", "mst-all", "mst-32", "privot")
"""Longest first."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Run(NamedTuple):
    """One method on one table at one ε with one seed."""

    folder: Path
    epsilon: float
    method: str
    seed: int

    @property
    def key(self) -> tuple[str, float, str, int]:
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


def pending(chosen: argparse.Namespace) -> list[Run]:
    """The runs that are not in the results, longest first: by method, then by the size of the table, then by seed."""
    known = done(chosen.out)
    runs = [Run(*made) for made in product(chosen.folders, chosen.epsilon, chosen.methods, chosen.seeds)]
    size = {folder: sum(file.stat().st_size for file in folder.glob("train.csv*")) for folder in chosen.folders}
    return sorted(
        (run for run in runs if run.key not in known),
        key=lambda run: (METHODS.index(run.method), run.seed, -size[run.folder], run.epsilon),
    )


def commit() -> str:
    """Of the tree that is run, where it is known."""
    found = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)  # noqa: S603, S607
    return found.stdout.strip()


def inference(chosen: argparse.Namespace) -> str:
    """Whose inference peers run with: `dpmm`'s own, or the one of `table_peer_inference.py`."""
    return "own" if chosen.as_it_comes else "fast"


def state_of(chosen: argparse.Namespace, run: Run) -> Path:
    """Where the rounds of AIM are kept; seconds of the two inferences are not added up."""
    state: Path = chosen.state / ("-".join(map(str, (*run.key, inference(chosen)))) + ".npz")
    return state


def measures(processes: Processes, chosen: argparse.Namespace, run: Run, held: Path) -> dict[str, Any]:
    """The line of one run."""
    compare = [sys.executable, str(COMPARE)]
    line = held / "line.jsonl"
    named = ["--epsilon", str(run.epsilon), "--first", str(run.seed), "--out", str(line), "--name", run.method]
    if run.method == "privot":
        steps = [[*compare, "ours", str(run.folder), "--delta", str(chosen.delta), *named]]
    else:
        peer, cells = run.method.split("-")
        given, drawn, most = str(held / "cells.npz"), str(held / "sample.npz"), ["--most", str(CELLS[cells])]
        fit = [chosen.peers, str(PEER), given, drawn, "--method", peer, "--epsilon", str(run.epsilon)]
        fit += ["--delta", str(chosen.delta), "--seed", str(run.seed), "--limit", str(chosen.limit)]
        chosen.state.mkdir(parents=True, exist_ok=True)
        fit += ["--state", str(state_of(chosen, run)), *(["--as-it-comes"] if chosen.as_it_comes else [])]
        steps = [[*compare, "cells", str(run.folder), given, *most], fit]
        steps += [[*compare, "peer", str(run.folder), drawn, *most, *named]]
    for step in steps:
        code = processes.run(step)
        if code == -signal.SIGXCPU:
            table, epsilon, method, seed = run.key
            return {"table": table, "epsilon": epsilon, "method": method, "seed": seed,
                    "seconds": chosen.limit, "stopped": True}  # fmt: skip
        if code:
            raise RuntimeError(f"{run.key}: exit code {code} of {' '.join(step)}")
    found: dict[str, Any] = json.loads(line.read_text(encoding="utf-8"))
    return found


def run_one(processes: Processes, chosen: argparse.Namespace, run: Run) -> None:
    """One run, from its cells to its line in the results."""
    print(f"start {run.key}", flush=True)
    with tempfile.TemporaryDirectory() as held:
        line = measures(processes, chosen, run, Path(held))
    if run.method != "privot":
        line["inference"] = inference(chosen)
    append(chosen.out, {**line, "delta": chosen.delta, "commit": chosen.commit, "machine": platform.machine()})
    state_of(chosen, run).unlink(missing_ok=True)


def run_all(chosen: argparse.Namespace) -> tuple[int, list[str]]:
    """Run what is missing until it is there or time is over: how many runs are left, and what failed."""
    processes, start, runs, failed = Processes(), time.monotonic(), pending(chosen), []
    timer = threading.Timer(chosen.until, processes.end) if chosen.until else None
    if timer:
        timer.daemon = True
        timer.start()
    # a call that is ended from outside ends its runs, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
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
    print(f"{len(runs) - left} runs done, {left} left, {time.monotonic() - start:.0f} s", flush=True)
    return left, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 5.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, one thread each")
    parser.add_argument("--until", type=float, default=None, help="seconds by the clock after which this call ends")
    parser.add_argument("--limit", type=int, default=7200, help="seconds of processor time that a peer may take")
    parser.add_argument(
        "--state", type=Path, default=None, help="folder for AIM's rounds; beside the results by default"
    )
    parser.add_argument("--as-it-comes", action="store_true", help="peers with dpmm's own inference, for its seconds")
    parser.add_argument("--commit", default=commit(), help="noted in every line; git's unless given")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    if min(chosen.jobs, chosen.until or 1) <= 0:
        parser.error("--jobs and --until must be positive")
    chosen.state = chosen.state or chosen.out.with_suffix(".state")
    _, failed = run_all(chosen)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
