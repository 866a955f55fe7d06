"""Progress is shown on standard error: a bar on a terminal, a few plain lines in a log, nothing with --json."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from privot.cli import run
from privot.cli.printing import progress
from privot.cli.printing.progress import working

pytestmark = pytest.mark.slow

WORDS = "audit projection --sigma 1 --adjacency replace-one --dim 4 --runs 60 --trials 60000".split()


def on_a_terminal(*words: str) -> tuple[str, str]:
    """(standard output, what a terminal got on standard error)."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "privot", *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:  # how Linux says that the other end was closed
            pass
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    return out.decode(), seen.decode()


def test_an_audit_shows_its_progress_on_a_terminal_only(tmp_path: Path) -> None:
    out, seen = on_a_terminal(*WORDS)
    assert "audit  projection" in seen
    assert "audit  projection" not in out
    assert on_a_terminal(*WORDS, "--json")[1] == ""


def test_quick_work_leaves_no_line_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with working("audit") as tell:
        tell("projection", 0, 3)
    assert capsys.readouterr() == ("", "")


def test_long_work_leaves_plain_lines_with_the_time_left_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with working("training", still=True) as tell:
        for step in range(1, 101):
            clock[0] += 1.0
            tell(f"loss {step}", step, 100)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert "\x1b" not in err
    # after 3, 6, 12, 24, 48 and 96 seconds
    assert len(lines) == 6
    assert lines[0] == "training: loss 3, 3 of 100, 3 s so far, about 97 s left"
    assert lines[3] == "training: loss 24, 24 of 100, 24 s so far, about 76 s left"


def test_work_that_tells_nothing_is_heard_of_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.1)
    with working("reading records"):
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(re.fullmatch(r"reading records: \d+ s so far", line) for line in lines)
    with working("reading records", quiet=True):
        time.sleep(0.3)
    assert capsys.readouterr() == ("", "")


def test_the_watcher_ends_with_the_work_even_where_it_fails() -> None:
    before = threading.active_count()
    during = []

    def fail() -> None:
        with working("reading records"):
            during.append(threading.active_count())
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert during == [before + 1]
    assert threading.active_count() == before


def heard(words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int, int]]:
    """All that a command told its bars."""
    found: list[tuple[str, str, int, int]] = []

    @contextmanager
    def listening(what: str, quiet: bool = False, still: bool = False) -> Iterator[progress.Tell]:
        found.append((what, "", -1, -1))
        yield lambda words, done, many: found.append((what, words, done, many))

    monkeypatch.setattr(progress, "working", listening)
    assert run(words) == 0
    return found


@pytest.mark.usefixtures("short_trainings")
def test_table_synthesis_evaluation_and_sampling_tell_of_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'yes' if a + b > 1 else 'no'}" for a, b in dice.random((200, 2))]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,ill", *rows]) + "\n")
    data, schema, out = (str(tmp_path / name) for name in ("data.csv", "schema.json", "out"))
    stages = heard(["schema", "propose", "--sample", data, "--public", "--label", "ill", "--out", schema], monkeypatch)
    assert [s[0] for s in stages] == ["reading the sample"]
    terms = "--epsilon 5 --delta 1e-5 --adjacency add-remove --samples 100 --seed 1".split()
    stages = heard(["synth", data, "--schema", schema, *terms, "--out", out], monkeypatch)
    assert [s[0] for s in stages if s[2] == -1] == ["reading records", "training, ε spent 5", "drawing samples"]
    fitted = [(done, many) for what, _, done, many in stages if what.startswith("training") and many > 0]
    assert fitted[-1][0] == fitted[-1][1]
    assert len(fitted) >= 3
    # nothing that is told is the number of private records
    assert all("200" not in str(told) for told in stages)
    stages = heard(["evaluate", out, "--test", data, "--private", data], monkeypatch)
    steps = [(done, many) for _, _, done, many in stages if many > 0]
    assert [done for done, _ in steps] == list(range(len(steps)))
    assert {many for _, many in steps} == {len(steps)}
    assert [s[0] for s in heard(["sample", out, "-n", "50", "--out", str(tmp_path / "more.csv")], monkeypatch)] == [
        "drawing samples"
    ]


def test_comparisons_and_audits_tell_of_their_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", dice.random((60, 2)))
    sides = [str(tmp_path / f"{name}.npy") for name in "ab"]
    stages = heard(["compare", *sides, "--method", "exact"], monkeypatch)
    steps = [(done, many) for _, _, done, many in stages if many > 0]
    assert steps == [(k, 40) for k in range(1, 41)]
    stages = heard("audit embedding --sigma 1 --adjacency add-remove --runs 60 --trials 6000".split(), monkeypatch)
    assert [(done, many) for _, _, done, many in stages if many > 1] == [(0, 4), (1, 4), (2, 4), (3, 4)]
