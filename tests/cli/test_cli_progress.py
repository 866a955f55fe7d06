"""Progress is shown on standard error if that is a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from privot.cli.printing.progress import audit_bar

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


def test_no_progress_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with audit_bar() as tell:
        tell("projection", 0, 3)
    assert capsys.readouterr() == ("", "")
