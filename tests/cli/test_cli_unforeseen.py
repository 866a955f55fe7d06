"""Unexpected errors end in one sentence that quotes no record, with a documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from privot.cli import run

SECRET = "patient 4711"


def failing_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `privot report` meet `error`."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("privot.jobs.released_files.read_json", fail)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        ZeroDivisionError(SECRET),
        OverflowError(SECRET),
        RecursionError(SECRET),
        KeyError(SECRET),
        AssertionError(SECRET),
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
        StopIteration(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unexpected_error_prints_its_type_and_never_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, error: Exception
) -> None:
    failing_with(monkeypatch, error)
    assert run(["report", "folder"]) == 1
    said = capsys.readouterr()
    wanted = f"privot: internal error ({type(error).__name__}): run again with --debug and report it.\n"
    assert (said.out, said.err) == ("", wanted)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(SECRET),
        torch.OutOfMemoryError(SECRET),
        RuntimeError(f"[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried {SECRET}"),
    ],
    ids=["python", "cuda", "torch"],
)
def test_running_out_of_memory_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, error: Exception
) -> None:
    failing_with(monkeypatch, error)
    assert run(["report", "folder"]) == 1
    said = capsys.readouterr().err
    assert said == "privot: The machine ran out of memory: use smaller sizes, or a machine with more of it.\n"


def test_debug_shows_the_traceback_of_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(monkeypatch, RuntimeError(SECRET))
    with pytest.raises(RuntimeError):
        run(["report", "folder"], debug=True)


def test_the_help_and_the_reference_list_every_exit_code(capsys: Any) -> None:
    assert run(["--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    page = (Path(__file__).parents[2] / "docs/reference/exit-codes.md").read_text()
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 130):
        assert f" {code} " in said
        assert f"| {code} |" in page


def test_warnings_of_libraries_are_printed_with_debug_only() -> None:
    code = (
        "import sys, warnings, privot.cli as cli\n"
        "cli.run = lambda arguments, debug: warnings.warn('numpy says', RuntimeWarning) or 0\n"
        "sys.argv = ['privot', *sys.argv[1:]]; cli.main()"
    )
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    debugged = subprocess.run([sys.executable, "-c", code, "--debug"], capture_output=True, text=True)
    assert "numpy says" in debugged.stderr


@pytest.mark.parametrize("endless", ["a" * 5000, "a b " * 2000], ids=["one word", "many words"])
def test_a_refusal_quotes_little_of_an_endless_argument(endless: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "digits", "digits", "--method", endless]) == 2
    line = capsys.readouterr().err
    assert line.startswith("privot: Unknown method 'a")
    assert line.count("\n") == 1
    assert len(line) <= 1000


def test_a_reader_that_goes_away_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    end, start = os.pipe()
    os.close(end)
    words = "account laplace --epsilon 1 --adjacency add-remove".split()
    with open(start, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert run(words) == 0
        monkeypatch.undo()
    assert capsys.readouterr().err == ""
