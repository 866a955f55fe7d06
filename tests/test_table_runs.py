"""Runs of privot and its peers on tables: whole lines, a deadline, going on, and what the summary makes of them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks/tables"
PEERS = os.environ.get("PRIVOT_PEERS")
"""An interpreter with dpmm, where there is one."""

FAKE_COMPARE = """
import json, sys, pathlib
words = sys.argv
if words[1] != "cells":
    value = {name: words[words.index(name) + 1] for name in ("--out", "--name", "--epsilon", "--first")}
    line = {"table": pathlib.Path(words[2]).name, "epsilon": float(value["--epsilon"]), "method": value["--name"],
            "seed": int(value["--first"]), "seconds": 1.0, "pairs": 0.1, "filler": "x" * 20000}
    pathlib.Path(value["--out"]).write_text(json.dumps(line) + "\\n")
"""
FAKE_PEER = """
import os, pathlib, sys, time
place = pathlib.Path(__file__).parent
(place / "pids").open("a").write(f"{os.getpid()}\\n")
time.sleep(float((place / "wait").read_text()))
if (place / "xcpu").exists():
    import signal
    os.kill(os.getpid(), signal.SIGXCPU)
"""


def loaded(name: str) -> ModuleType:
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


runs, summary = loaded("table_runs"), loaded("table_summary")


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Two tables, and commands that only wait and write a long line."""
    for name, rows in (("small", 10), ("large", 1000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.csv").write_text("a\n" * rows)
    (tmp_path / "compare.py").write_text(FAKE_COMPARE)
    (tmp_path / "peer.py").write_text(FAKE_PEER)
    (tmp_path / "wait").write_text("0")
    monkeypatch.setattr(runs, "COMPARE", tmp_path / "compare.py")
    monkeypatch.setattr(runs, "PEER", tmp_path / "peer.py")
    return argparse.Namespace(
        folders=[tmp_path / "small", tmp_path / "large"], peers=sys.executable, methods=["privot", "mst-32", "aim-all"],
        epsilon=[1.0], delta=1e-6, seeds=[0, 1], jobs=1, until=None, limit=9, state=tmp_path / "state", commit="abc",
        out=tmp_path / "results.jsonl", as_it_comes=False,
    )  # fmt: skip


def lines_of(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in chosen.out.read_text().splitlines()]


def test_the_longest_runs_are_started_first_and_those_done_are_not_started(chosen: argparse.Namespace) -> None:
    runs.append(chosen.out, {"table": "large", "epsilon": 1.0, "method": "aim-all", "seed": 0})
    order = [(run.method, run.seed, run.folder.name) for run in runs.pending(chosen)]
    assert order[:3] == [("aim-all", 0, "small"), ("aim-all", 1, "large"), ("aim-all", 1, "small")]
    assert order[3] == ("mst-32", 0, "large")
    assert order[-1] == ("privot", 1, "small")
    assert len(order) == 11


def test_half_a_line_is_not_read_and_is_cut_off_by_the_next_one(chosen: argparse.Namespace) -> None:
    first, second = ({"table": "small", "epsilon": 1.0, "method": "privot", "seed": seed} for seed in (0, 1))
    runs.append(chosen.out, first)
    with chosen.out.open("a") as file:
        file.write(json.dumps(second)[:20])
    assert runs.done(chosen.out) == {("small", 1.0, "privot", 0)}
    assert summary.read_lines(chosen.out) == [first]
    runs.append(chosen.out, second)
    assert lines_of(chosen) == [first, second]


def test_several_runs_at_once_write_whole_lines(chosen: argparse.Namespace) -> None:
    chosen.jobs, chosen.seeds = 4, [0, 1, 2]
    assert runs.run_all(chosen) == (0, [])
    assert len(lines_of(chosen)) == 18
    assert {line["commit"] for line in lines_of(chosen)} == {"abc"}
    assert runs.run_all(chosen) == (0, [])
    assert len(lines_of(chosen)) == 18


def test_a_deadline_ends_runs_without_a_line_and_the_next_call_goes_on(
    chosen: argparse.Namespace, tmp_path: Path
) -> None:
    (tmp_path / "wait").write_text("600")
    chosen.jobs, chosen.until, chosen.seeds, chosen.methods = 3, 4.0, [0], ["privot", "aim-all"]
    start = time.monotonic()
    left, failed = runs.run_all(chosen)
    assert time.monotonic() - start < 60.0
    assert (left, failed) == (2, [])
    assert {line["method"] for line in lines_of(chosen)} == {"privot"}
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    (tmp_path / "wait").write_text("0")
    chosen.until = None
    assert runs.run_all(chosen) == (0, [])
    assert sorted(line["method"] for line in lines_of(chosen)) == ["aim-all", "aim-all", "privot", "privot"]


def test_a_peer_beyond_its_processor_time_is_noted_and_a_failure_is_not(
    chosen: argparse.Namespace, tmp_path: Path
) -> None:
    (tmp_path / "xcpu").write_text("")
    chosen.methods, chosen.seeds, chosen.folders = ["mst-32"], [0], chosen.folders[:1]
    assert runs.run_all(chosen) == (0, [])
    assert lines_of(chosen)[0]["stopped"] is True
    assert lines_of(chosen)[0]["seconds"] == 9
    (tmp_path / "peer.py").write_text("raise SystemExit(3)")
    chosen.seeds = [1]
    left, failed = runs.run_all(chosen)
    assert left == 1
    assert "exit code 3" in failed[0]
    assert len(lines_of(chosen)) == 1


def test_a_verdict_needs_more_than_one_standard_error_of_the_difference() -> None:
    def lines(method: str, values: list[float], measure: str) -> list[dict[str, Any]]:
        return [{"table": "t", "epsilon": 1.0, "method": method, measure: v, "seconds": 1.0} for v in values]

    # both have a standard error of 0.01, so that the difference has one of 0.0141
    spread = [-0.02 / 2 * 3**0.5, 0.0, 0.02 / 2 * 3**0.5]
    for measure, sign in (("boosting", 1.0), ("pairs", -1.0)):
        for gap, word in ((0.0143, "ahead"), (0.0139, "level"), (-0.0139, "level"), (-0.0143, "behind")):
            ours = lines("privot", [0.5 + sign * gap + s for s in spread], measure)
            theirs = lines("mst-32", [0.5 + s for s in spread], measure)
            found = summary.figures([*ours, *theirs])["t", 1.0]
            assert found["privot"][measure].error == pytest.approx(0.01)
            assert summary.verdict(found["privot"][measure], found["mst-32"][measure], sign > 0) == word
    one = summary.figures([*lines("privot", [0.5], "pairs"), *lines("mst-32", [0.1], "pairs")])["t", 1.0]
    assert summary.verdict(one["privot"]["pairs"], one["mst-32"]["pairs"], False) == "–"
    shown = "\n".join(summary.table_lines(("t", 1.0), one))
    assert "| privot beside mst-32 |" in shown


@pytest.mark.skipif(PEERS is None, reason="PRIVOT_PEERS names no interpreter with dpmm")
def test_aim_that_was_ended_goes_on_to_the_same_sample(tmp_path: Path) -> None:
    """With noise that depends only on its scale and size, a whole fit and one in two processes draw the same rows."""
    dice = np.random.default_rng(0)
    cells = np.minimum(dice.integers(0, 3, (2000, 1)) + dice.integers(0, 2, (2000, 6)), 3)
    np.savez(tmp_path / "cells.npz", cells=cells, sizes=np.full(6, 4))
    script = """
import os, sys
import numpy as np
import dpmm.models.aim as aim
from dpmm.models.base.mbi import FactoredInference
script, stop = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, os.path.dirname(script))
aim.gaussian_noise = lambda sigma, size=None: np.random.default_rng((int(sigma * 1e6), int(np.prod(size)))).normal(
    0, sigma, size)
plain, count = FactoredInference.estimate, [0]
def estimate(self, *words, **more):
    count[0] += 1
    if stop and count[0] > stop:
        os._exit(9)
    return plain(self, *words, **more)
FactoredInference.estimate = estimate
sys.argv = [script, *sys.argv[3:]]
with open(script) as file:
    text = file.read().replace("SECONDS_BETWEEN_SAVES = 15.0", "SECONDS_BETWEEN_SAVES = 0.0")
exec(compile(text, script, "exec"), {"__name__": "__main__"})
print(count[0])
"""

    def fit(stop: int, out: str, *more: str) -> tuple[int, str]:
        command = [str(PEERS), "-c", script, str(runs.PEER), str(stop), str(tmp_path / "cells.npz")]
        command += [str(tmp_path / out), "--method", "aim", "--epsilon", "3", "--delta", "1e-6", "--limit", "300"]
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        ended = subprocess.run([*command, "--iterations", "20", *more], env=env, capture_output=True, text=True)
        return ended.returncode, ended.stdout.strip()

    state = ["--state", str(tmp_path / "state.npz")]
    whole, estimates = fit(0, "whole.npz")
    assert whole == 0
    assert int(estimates) > 12
    assert fit(6, "part.npz", *state)[0] == 9
    # six rounds are not estimated again
    assert fit(0, "part.npz", *state) == (0, str(int(estimates) - 6))
    drawn = [np.load(tmp_path / name)["cells"] for name in ("whole.npz", "part.npz")]
    np.testing.assert_array_equal(drawn[0], drawn[1])
