"""`privot doctor`, the files of the project, and completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from privot import __version__
from privot.cli import run
from privot.cli.running import installation
from privot.common.extras import OPTIONAL

ROOT = Path(__file__).parents[2]


def test_the_doctor_says_what_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["works"] is True
    assert found["versions"][0] == {"name": "privot", "found": __version__, "works": True, "advice": ""}
    assert {line["name"] for line in found["extras"]} == {prose for prose, _ in OPTIONAL.values()}
    assert found["noise"][0]["found"] == "proven"
    assert found["files"][0]["found"] == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert run(["doctor"]) == 0
    assert "Everything that is needed works." in capsys.readouterr().out


def test_the_doctor_names_what_is_missing_and_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = installation.find_spec
    monkeypatch.setattr(installation, "find_spec", lambda name: None if name in ("torch", "ot") else known(name))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(installation.tempfile, "NamedTemporaryFile", refuse)
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["works"] is False
    advice = {line["name"]: line["advice"] for line in found["extras"] if not line["works"]}
    # pandas and Polars are not what the tests need
    found_missing = {name: words for name, words in advice.items() if name not in ("pandas", "Polars")}
    assert found_missing == {"PyTorch": 'pip install "privot[torch]"', "POT": 'pip install "privot[exact]"'}
    assert "Permission denied" in found["files"][0]["found"]
    assert run(["doctor"]) == 0
    assert "does not work" in capsys.readouterr().out


@pytest.mark.parametrize("error", [OSError(5, "no entropy"), NotImplementedError("no source")])
def test_the_doctor_says_that_the_system_has_no_entropy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(_: int) -> bytes:
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "urandom", refuse)
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["works"] is False
    assert not found["noise"][0]["works"]
    assert found["noise"][0]["found"] == "makes no noise"


def test_the_doctor_says_that_pytorch_cannot_be_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = installation.find_spec
    monkeypatch.setattr(installation, "find_spec", lambda name: name if name == "torch" else known(name))
    monkeypatch.setitem(sys.modules, "torch", None)  # it is there, and its import raises ImportError
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (line,) = found["device"]
    assert (line["found"], line["works"]) == ("PyTorch cannot be loaded (ModuleNotFoundError)", False)
    assert "--force-reinstall" in line["advice"]
    assert found["works"] is True  # what needs no tensors works


def test_versions_are_the_same_everywhere() -> None:
    stated = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert stated is not None
    assert cited is not None
    assert stated[1] == cited[1] == __version__


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [("privot led", "ledger"), ("privot ledger ra", "raise"), ("privot release mean --col", "--column")],
)
def test_the_shell_completes_commands_and_options(words: str, expected: str) -> None:
    count = len(words.split()) - 1
    asked = {"_PRIVOT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run(
        [sys.executable, "-m", "privot"], env={**os.environ, **asked}, capture_output=True, text=True, timeout=120
    )
    assert any(line.endswith(expected) for line in done.stdout.split()), done.stdout + done.stderr


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_of_the_documents_print_a_script(shell: str) -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text()
    assert f"_PRIVOT_COMPLETE=source_{shell} privot" in page
    done = subprocess.run(
        [sys.executable, "-m", "privot"],
        env={**os.environ, "_PRIVOT_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert "_PRIVOT_COMPLETE" in done.stdout
