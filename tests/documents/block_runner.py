"""Runs the code blocks of a document as they are printed, one after the other, in one folder or in several.

Python runs in this process, each block with names of its own, as a reader would paste it. Lines that are nothing but
`privot …` run in this process too; everything else is handed to bash, with `privot` and `python` on its path.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from markdown_links import Block
from short_privot import short_training

from privot.cli import run

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PATIENCE = 500
"""Seconds that one block of bash may take."""
INSTALLED = re.compile(r"pip install '?(?:privot|\.)(?:\[([\w,]+)\])?'?")
MADE = re.compile(r"make ([a-z-]+)")
SET_UP = re.compile(rf"{INSTALLED.pattern}|{MADE.pattern}|privot demo\b")


def run_block(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one block in `folder`; whatever fails raises an AssertionError or the block's own exception."""
    monkeypatch.chdir(folder)
    if block.language == "python":
        with short_training():
            exec(compile(block.text, "document", "exec"), {"__name__": "document"})
        return
    assert block.language in ("sh", "bash"), f"no way to run {block.language}"
    lines = commands(block.text)
    if all(SET_UP.match(line) for line in lines):
        for line in lines:
            check_set_up(line)
    elif all(line.startswith("privot ") for line in lines):
        for line in lines:
            words = shlex.split(line, comments=True)[1:]
            with short_training():
                assert run(words) == 0, line
    else:
        run_bash(block.text, folder)


def commands(text: str) -> list[str]:
    """The commands of a block, one per entry: lines joined where they end in a backslash, without empty ones."""
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def check_set_up(line: str) -> None:
    """What installs or builds is not run here, nor the demo: the tests of packages and of the demo do.

    The names of extras and of targets have to exist.
    """
    if found := INSTALLED.match(line):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = [name for name in (found[1] or "").split(",") if name]
        assert set(extras) <= set(project["optional-dependencies"]), line
    elif found := MADE.match(line):
        assert re.search(rf"^{found[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line


def run_bash(text: str, folder: Path) -> None:
    """Run `text` by bash, where `privot` is the one of these tests."""
    programs = folder / ".programs"
    if not programs.exists():
        programs.mkdir()
        privot = programs / "privot"
        privot.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "short_privot.py"}" "$@"\n')
        privot.chmod(0o755)
        (programs / "python").symlink_to(sys.executable)
    found = os.environ | {"PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    found["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), found.get("PYTHONPATH", "")])
    said = folder / ".said"
    # into a file and in a session of its own: what a block leaves running holds no pipe open, and is ended
    with said.open("wb") as file:
        words = ["bash", "-euo", "pipefail", "-c", text]
        started = subprocess.Popen(words, cwd=folder, env=found, stdout=file, stderr=file, start_new_session=True)
        try:
            code: int | str = started.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = f"still running after {PATIENCE} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
    assert code == 0, f"{code}: {text}\n{said.read_text()[-3000:]}"
