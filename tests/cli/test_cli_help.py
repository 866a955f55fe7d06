"""`--help` of every command describes each argument and gives examples that can be copied and parsed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from privot.cli import run
from privot.cli.app import COMMANDS, build_app


def commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from commands(below, *path, name)
    elif not command.hidden:
        yield path


WHOLE: Any = get_command(build_app())
ALL = sorted(commands(WHOLE))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_describes_every_argument_and_gives_examples_that_parse(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert run([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "\\[" not in shown
    assert shown.count("rguments:") == (1 if "\nArguments:" in shown else 0)
    lines = shown.splitlines()
    if "Arguments:" in lines:
        first = lines.index("Arguments:") + 1
        listed = lines[first : lines.index("", first)]
        assert all(len(line.split()) > 2 for line in listed[:1])
        assert not any(line.strip().endswith("  [required]") and len(line.split()) == 2 for line in listed)
    begin = "privot " + " ".join(path)
    examples = [shlex.split(line) for line in lines if line.strip().startswith(begin + " ") or line.strip() == begin]
    assert examples, "no example on a line of its own"
    command: Any = WHOLE
    for name in path:
        command = command.commands[name]
    for example in examples:
        # parsed, not run: every option exists and everything that is needed is given
        with command.make_context("privot", example[1 + len(path) :]):
            pass


@pytest.mark.parametrize("path", [[], ["ledger"], ["federate"]], ids=" ".join)
def test_a_group_without_a_command_shows_its_help_and_ends_with_0(path: list[str], capsys: pytest.CaptureFixture[str]):
    assert run([*path, "--help"]) == 0
    asked = capsys.readouterr()
    assert run(path) == 0
    assert capsys.readouterr() == asked


def test_examples_stay_whole_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setitem(os.environ, "COLUMNS", "40")
    run(["synth", "--help"])
    text = "privot synth digits --epsilon 10 --delta 1e-5 --adjacency replace-one --out digits-synth"
    assert text in [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_every_command_is_listed_by_the_same_sentence_whether_its_module_is_loaded_or_not() -> None:
    listed: Any = get_command(build_app([]))
    assert list(listed.commands) == list(WHOLE.commands)
    assert list(get_command(build_app([], more=False)).commands) == list(COMMANDS)  # type: ignore[attr-defined]
    for name, command in WHOLE.commands.items():
        assert command.get_short_help_str(100) == listed.commands[name].get_short_help_str(100)
        assert len(command.get_short_help_str(100)) <= 72, name


def test_a_command_loads_its_own_module_only() -> None:
    code = (
        "import sys; from privot.cli import run; assert run(['report', '--help']) == 0; "
        "print(sorted(m for m in sys.modules if m.startswith('privot.cli.commands.')))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "['privot.cli.commands.report_command']"


def test_no_option_has_two_help_texts_unless_its_meaning_differs() -> None:
    differ = {"--seed", "--epsilon", "--delta", "--out", "--classes", "--sigma", "--records", "--data", "--device"}
    differ |= {"--steps", "--clip", "--test", "--name", "--host", "--method", "--slices", "--batch", "--dim", "--frame"}
    differ |= {"--sizes", "--validation", "--most", "--adjacency", "--range", "--workers", "--ledger", "--port"}
    differ |= {"--public", "--open", "--rows", "--peers", "--schema", "--unit", "--per-unit", "--threads"}
    texts: dict[str, set[str]] = {}
    for path in ALL:
        command = WHOLE
        for name in path:
            command = command.commands[name]
        for parameter in command.params:
            if parameter.param_type_name == "option":
                texts.setdefault(parameter.opts[0], set()).add(parameter.help)
    assert {option for option, said in texts.items() if len(said) > 1} <= differ
