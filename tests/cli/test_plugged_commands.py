"""Commands of other distributions are found by entry point, imported when they are used, and break only themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from privot import cli
from privot.cli import plugged, run

HELLO = """
import typer

def hello(name: str) -> None:
    \"\"\"Greet.\"\"\"
    typer.echo(f"hello {name}")
"""
LINES = {
    "hello": "hello = a_stranger:hello",
    "broken": "broken = a_stranger.nowhere:app",
    "a number": "broken = a_stranger:seven",
    "synth": "synth = a_stranger:hello",
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """The command line is built anew: it is kept for as long as what is installed stays the same."""
    cli._command.cache_clear()
    yield
    cli._command.cache_clear()


def install(folder: Path, *lines: str) -> None:
    """A package of one file, whose distribution has these entry points."""
    (folder / "a_stranger.py").write_text(HELLO + "\nseven = 7\n")
    held = folder / "a_stranger-1.0.dist-info"
    held.mkdir()
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: a-stranger\nVersion: 1.0\n")
    (held / "entry_points.txt").write_text("\n".join([f"[{plugged.GROUP}]", *lines]) + "\n")


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    install(tmp_path, LINES[request.param])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_stranger", raising=False)
    return tmp_path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other distribution is installed."""
    monkeypatch.setattr(plugged, "entry_points", lambda **_: [])


@pytest.mark.parametrize("stranger", ["hello"], indirect=True)
def test_a_command_from_outside_is_one_file_and_one_line(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "A command of a-stranger." in capsys.readouterr().out
    assert "a_stranger" not in sys.modules
    assert run(["hello", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"


@pytest.mark.parametrize("stranger", ["broken", "a number"], indirect=True)
def test_a_command_that_cannot_be_loaded_breaks_only_itself(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert run(["ledger", "--help"]) == 0
    capsys.readouterr()
    assert run(["broken", "--json"]) == 2
    said = capsys.readouterr().err
    assert "'broken' of a-stranger cannot be loaded: " in said or "'a_stranger:seven' is neither a function" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("stranger", ["synth"], indirect=True)
def test_no_other_distribution_replaces_a_command_of_privot(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "a-stranger" not in capsys.readouterr().out
    assert run(["synth", "--help"]) == 0
    assert "--epsilon" in capsys.readouterr().out
    assert "a_stranger" not in sys.modules


def test_a_command_of_privot_looks_for_no_other_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(**_: object) -> None:
        raise AssertionError("looked for")

    monkeypatch.setattr(plugged, "entry_points", look)
    assert run(["ledger", "--help"]) == 0


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "words", [["bench", "noise"], ["study", "run", "all", "--quick"], ["--max-events", "3", "bench", "--json"]]
)
def test_a_command_of_the_laboratory_says_what_to_install(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    said = capsys.readouterr().err
    assert "is a command of privot-lab, which is not installed: pip install ./lab" in said
    assert said.count("\n") == 1


@pytest.mark.usefixtures("alone")
def test_what_is_not_installed_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "bench" not in capsys.readouterr().out


def test_the_claims_say_where_they_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["account", "claims", "--points", "3"]) == 2
    assert "privot study claims" in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_of_the_laboratory_is_imported_with_privot() -> None:
    code = "import sys, privot, privot.cli.app, privot.synthesis, privot.adaptation; print('privot_lab' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
