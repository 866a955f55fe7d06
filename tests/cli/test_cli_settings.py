"""Settings: rare options, typed as `--set NAME=VALUE`, listed below the others and recalled as they were typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privot.cli import _command, run
from privot.cli.app import COMMANDS
from privot.cli.parsing.recalled_options import KEY, recalled
from privot.cli.parsing.settings import settings_of
from privot.jobs.job import Job

TERMS = "--epsilon 1 --delta 1e-5 --adjacency add-remove".split()


def command(name: str) -> Any:
    return _command(tuple(COMMANDS), False).commands[name]  # type: ignore[attr-defined]


def parsed(name: str, *words: str) -> Any:
    """What a command is given for each parameter."""
    return command(name).make_context(name, list(words)).params


def test_a_setting_is_read_as_the_option_that_it_is() -> None:
    found = parsed("synth", "a.csv", "--out", "o", *TERMS, "--set", "workers=3", "--set=encoder_range=-1,1")
    assert (found["workers"], found["encoder_range"], found["set_"]) == (3, "-1,1", ())
    # other names are of the method
    assert parsed("synth", "a.csv", "--out", "o", *TERMS, "--set", "batch=9", "--set", "steps=4")["set_"] == (
        "batch=9",
    )
    for word, value in {"yes": True, "True": True, "1": True, "no": False, "false": False, "0": False}.items():
        assert parsed("compare", "a", "b", "--set", f"secret={word}")["secret"] is value
    # what follows the two dashes is data
    assert parsed("compare", "--", "--set", "secret=yes")["first"] == "--set"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "a", "b", "--set", "nothing=1"], "There is no setting 'nothing': there are rounds, t, defence,"),
        (["compare", "a", "b", "--set", "rounds"], "--set must be NAME=VALUE, got 'rounds'."),
        (["compare", "a", "b", "--set"], "--set must be NAME=VALUE, got ''."),
        (["compare", "a", "b", "--set", "secret=maybe"], "--set secret must be yes or no, got 'maybe'."),
        (["compare", "a", "b", "--set", "rounds=x"], "Invalid value for '--set rounds': 'x' is not a valid int"),
        (["compare", "a", "b", "--set", "rounds=-1"], "--set rounds must be a whole number from 0 to 1000000000"),
        (["compare", "a", "b", "--rounds", "3"], "--rounds is a setting of this command: type --set rounds=VALUE."),
        (["compare", "a", "b", "--rounds=3"], "--rounds is a setting of this command: type --set rounds=3."),
        (["synth", "a.npz", "--out", "o", "--epsilon", "inf", "--open", "--set", "workers=2"], "--set workers has no"),
    ],
)
def test_a_wrong_setting_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_help_lists_settings_below_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("synth", "compare"):
        assert run([name, "--help"]) == 0
        options, _, settings = capsys.readouterr().out.partition("Settings, typed as --set NAME=VALUE:\n")
        assert options.count("--set NAME=VALUE") == 1
        assert [line.split()[0] for line in settings.splitlines() if line[2:3].strip()] == list(
            settings_of(command(name))
        )
        assert not [name for name in settings_of(command(name)) if f"\n  --{name.replace('_', '-')} " in options]


@pytest.mark.parametrize("name", ["synth", "adapt", "compare", "audit"])
def test_a_command_has_at_most_25_options(name: str) -> None:
    assert sum(p.param_type_name == "option" and not p.hidden for p in command(name).params) <= 25


def test_jobs_of_before_are_recalled_in_the_words_of_today(tmp_path: Path) -> None:
    kept = [["", "patients.csv"], ["--epsilon", "1"], ["--schema", "patients.json"], ["--child", "visits.csv"],
            ["--child-schema", "visits.json"], ["--parent-key", "patient_id"], ["--per-parent", "3"],
            ["--orphans", "drop"], ["--spreadsheet-safe"], ["--checkpoint", "5"], ["--public", "a.npz"],
            ["--set", "batch=9"]]  # fmt: skip
    Job.start(tmp_path / "made", {KEY: kept})
    commands = _command(tuple(COMMANDS), False).commands  # type: ignore[attr-defined]
    typed = ["synth", "--resume", "--out", str(tmp_path / "made"), "--set", "checkpoint=1"]
    words, _ = recalled(typed, commands)
    assert words == [
        *typed, "--epsilon", "1", "--schema", "patients.json", "--schema", "visits.json", "--unit", "patient_id",
        "--per-unit", "3", "--set", "orphans=drop", "--set", "spreadsheet_safe=yes", "--set", "batch=9",
        "--", "patients.csv", "visits.csv",
    ]  # fmt: skip
    found = parsed("synth", *words[1:])
    assert (found["data"], found["checkpoint"]) == (("patients.csv", "visits.csv"), 1.0)
    assert (found["orphans"], found["spreadsheet_safe"], found["set_"]) == ("drop", True, ("batch=9",))
    assert found["public"] is None
