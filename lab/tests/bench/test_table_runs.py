"""Runs of privot and its peers on tables: whole lines, a deadline, going on, and what the summary makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.cli import run as run_privot
from privot.errors import DataError, UsageError
from privot.tables import Column, Schema
from privot_lab.bench.tables import table_runs as runs
from privot_lab.bench.tables import table_step
from privot_lab.bench.tables import table_summary as summary
from privot_lab.bench.tables.table_runs import TableRuns

PEERS = os.environ.get("PRIVOT_PEERS")
"""An interpreter with dpmm, where there is one."""

FAKE_COMPARE = """
import json, sys, pathlib
words = sys.argv
if words[1] != "cells":
    line = {"seconds": 1.0, "pairs": 0.1, "filler": "x" * 20000}
    pathlib.Path(words[words.index("--out") + 1]).write_text(json.dumps(line) + "\\n")
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


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableRuns:
    """Two tables, and commands that only wait and write a long line."""
    for name, rows in (("small", 10), ("large", 1000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.csv").write_text("a\n" * rows)
    (tmp_path / "compare.py").write_text(FAKE_COMPARE)
    (tmp_path / "peer.py").write_text(FAKE_PEER)
    (tmp_path / "wait").write_text("0")
    monkeypatch.setattr(runs, "STEP", [sys.executable, str(tmp_path / "compare.py")])
    monkeypatch.setattr(runs, "commit", lambda: "abc")
    monkeypatch.setattr(runs, "PEER", tmp_path / "peer.py")
    return TableRuns(
        (tmp_path / "small", tmp_path / "large"), tmp_path / "results.jsonl", (1.0,),
        methods=("privot", "mst-32", "aim-all"), seeds=(0, 1), limit=9,
    )  # fmt: skip


def lines_of(chosen: TableRuns) -> list[dict[str, Any]]:
    return [json.loads(line) for line in chosen.out.read_text().splitlines()]


def test_the_longest_runs_are_started_first_and_those_done_are_not_started(chosen: TableRuns) -> None:
    runs.append(chosen.out, {"table": "large", "epsilon": 1.0, "method": "aim-all", "seed": 0})
    order = [(run.method, run.seed, run.folder.name) for run in runs.pending(chosen)]
    assert order[:3] == [("aim-all", 0, "small"), ("aim-all", 1, "large"), ("aim-all", 1, "small")]
    assert order[3] == ("mst-32", 0, "large")
    assert order[-1] == ("privot", 1, "small")
    assert len(order) == 11


def test_a_package_that_cannot_be_imported_is_named(chosen: TableRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PEER", Path(runs.__file__).with_name("table_peer.py"))
    (chosen.out.parent / "pandas.py").write_text("import of_no_such_name")
    monkeypatch.setenv("PYTHONPATH", str(chosen.out.parent))
    left, failed = runs.run_all(replace(chosen, methods=("mst-32",), seeds=(0,)))
    assert left == 2
    assert all("cannot import 'of_no_such_name'" in said for said in failed)
    assert len(failed) == 2


def test_half_a_line_is_not_read_and_is_cut_off_by_the_next_one(chosen: TableRuns) -> None:
    first, second = ({"table": "small", "epsilon": 1.0, "method": "privot", "seed": seed} for seed in (0, 1))
    runs.append(chosen.out, first)
    with chosen.out.open("a") as file:
        file.write(json.dumps(second)[:20])
    assert runs.done(chosen.out) == {("small", 1.0, "privot", 0)}
    assert summary.read_lines(chosen.out) == [first]
    runs.append(chosen.out, second)
    assert lines_of(chosen) == [first, second]


def test_several_runs_at_once_write_whole_lines(chosen: TableRuns) -> None:
    chosen = replace(chosen, jobs=4, seeds=(0, 1, 2))
    assert runs.run_all(chosen) == (0, [])
    assert len(lines_of(chosen)) == 18
    assert {line["commit"] for line in lines_of(chosen)} == {"abc"}
    assert runs.run_all(chosen) == (0, [])
    assert len(lines_of(chosen)) == 18


def test_a_deadline_ends_runs_without_a_line_and_the_next_call_goes_on(chosen: TableRuns, tmp_path: Path) -> None:
    (tmp_path / "wait").write_text("600")
    chosen = replace(chosen, jobs=3, until=4.0, seeds=(0,), methods=("privot", "aim-all"))
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
    chosen = replace(chosen, until=None)
    assert runs.run_all(chosen) == (0, [])
    assert sorted(line["method"] for line in lines_of(chosen)) == ["aim-all", "aim-all", "privot", "privot"]


def test_a_peer_beyond_its_processor_time_is_noted_and_a_failure_is_not(chosen: TableRuns, tmp_path: Path) -> None:
    (tmp_path / "xcpu").write_text("")
    chosen = replace(chosen, methods=("mst-32",), seeds=(0,), folders=chosen.folders[:1])
    assert runs.run_all(chosen) == (0, [])
    assert lines_of(chosen)[0]["stopped"] is True
    assert lines_of(chosen)[0]["seconds"] == 9
    (tmp_path / "peer.py").write_text("raise SystemExit(3)")
    left, failed = runs.run_all(replace(chosen, seeds=(1,)))
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


def results() -> list[dict[str, Any]]:
    """Three seeds of privot, and peers of which each is the best in something."""
    out = []
    for method, boosting, pairs, seeds in (
        ("privot", 0.90, 0.02, 3), ("aim-32", 0.88, 0.01, 3), ("mst-32", 0.95, 0.03, 3), ("mst-all", 0.70, 0.05, 1)
    ):  # fmt: skip
        for seed in range(seeds):
            off = 0.001 * (seed - 1)
            line = {"table": "t", "epsilon": 1, "method": method, "seed": seed, "seconds": 2.0}
            out.append({**line, "boosting": boosting + off, "pairs": pairs + off, "one-way": pairs + off})
    return [*out, {"table": "t", "epsilon": 1, "method": "aim-all", "seed": 0, "stopped": True, "seconds": 9}]


def test_the_summary_takes_the_best_peer_of_every_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["measure"]: row for row in summary.to_json(results())}
    assert (found["boosting"]["peer"], found["boosting"]["verdict"]) == ("mst-32", "behind")
    assert (found["pairs"]["peer"], found["pairs"]["verdict"]) == ("aim-32", "behind")
    assert found["pairs"]["privot"]["mean"] == pytest.approx(0.02)
    assert "peer" not in found["triples"]
    without = [line for line in results() if line["method"] in ("privot", "mst-all")]
    assert {row["verdict"] for row in summary.to_json(without) if "peer" in row} == {"ahead*"}
    # a run that was done again counts once
    again = {**results()[0], "boosting": 0.96}
    assert summary.figures([*results(), again])["t", 1.0]["privot"]["boosting"].mean == pytest.approx(0.9203, abs=1e-4)
    file, page = tmp_path / "runs.jsonl", tmp_path / "page.md"
    file.write_text("".join(json.dumps(line) + "\n" for line in results()))
    page.write_text(f"before\n\n{summary.START}\nold\n{summary.END}\nafter\n")
    assert run_privot(["bench", "table-summary", str(file), "--into", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "**behind**: .9000 ± .0006 / .9500 ± .0006 MST-32" in text
    assert "| AIM, 64 cells | 0 (1 ended) |" in text
    assert "- AIM, 64 cells, seeds: t ε = 1 (0)\n- MST, 64 cells, seeds: t ε = 1 (1)\n" in text
    assert run_privot(["bench", "table-summary", str(file), "--into", str(file)]) == 3
    assert "once each" in capsys.readouterr().err


def test_what_cannot_be_run_is_refused(chosen: TableRuns, capsys: pytest.CaptureFixture[str]) -> None:
    for changes in ({"methods": ("gan",)}, {"jobs": 0}, {"until": 0.0}, {"seeds": (-1,)}):
        with pytest.raises(UsageError):
            replace(chosen, **changes)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="not a folder"):
        replace(chosen, folders=(Path("nowhere"),))
    words = ["bench", "table-runs", str(chosen.folders[0]), "--results", str(chosen.out)]
    assert run_privot(words) == 2
    assert "add --public" in capsys.readouterr().err
    assert run_privot([*words, "--public", "--seeds", "one"]) == 2


def test_one_step_measures_a_release_and_cells_that_a_peer_hands_back(tmp_path: Path) -> None:
    schema = Schema((Column("a", "integer", 0, 99), Column("label", "boolean")), label="label")
    schema.save(tmp_path / "schema.json")
    values = np.random.default_rng(0).integers(0, 100, 600)
    lines = [f"{v},{str(bool(v > 50)).lower()}" for v in values]
    for part, some in (("train", lines[:400]), ("test", lines[400:])):
        (tmp_path / f"{part}.csv").write_text("a,label\n" + "\n".join(some) + "\n")
    cells, line = tmp_path / "cells.npz", tmp_path / "line.json"
    table_step.main(["cells", str(tmp_path), "--file", str(cells), "--most", "1000"])
    with np.load(cells) as file:
        np.savez(tmp_path / "sample.npz", cells=file["cells"], seconds=1.5)
    named = ["--file", str(tmp_path / "sample.npz"), "--most", "1000", "--out", str(line)]
    table_step.main(["peer", str(tmp_path), *named])
    found = json.loads(line.read_text())
    assert found["seconds"] == 1.5
    # the very records
    assert max(found[name] for name in ("one-way", "pairs", "even one-way", "even pairs")) < 1e-12
    table_step.main(["ours", str(tmp_path), "--epsilon", "5", "--out", str(line)])
    assert 0.0 < json.loads(line.read_text())["even one-way"] < 0.3
    with pytest.raises(DataError, match=r"schema\.json"):
        table_step.main(["ours", str(tmp_path / "none"), "--out", str(line)])


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
