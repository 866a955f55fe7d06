"""What a job paid for is there after every kill, nothing is paid a second time, and what is said goes on with it."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import warm
from privot.cli import _say, run
from privot.cli.printing.interrupts import charged
from privot.common.interruption import Written, written
from privot.common.visible import command_line, visible

KILLER = Path(__file__).with_name("job_killer.py")


NAMES = [
    *(
        os.fsdecode(name)
        for name in (b"m\xff", b"\x1b[31mred", b"a\nb\t'c'", "a\u202egnp.exe\u2066".encode(), b"\\x41!$HOME`id`")
    ),
    *("made", "some folder", "two  spaces ", "it's", "naïve 😀", "\u00a0\u2003", "-x", "~", "*", "", "a\r", "e" * 200),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_that_is_shown_names_in_a_shell_what_it_named(name: str) -> None:
    line = command_line(["printf", r"%s\0", name, "end"])
    # as a terminal shows it, where a sentence is made of words
    shown = " ".join(visible(line).split())
    assert shown.isprintable()
    told = subprocess.run(["bash", "-c", shown], capture_output=True, check=True).stdout
    assert told == os.fsencode(name) + b"\0end\0"


@pytest.mark.parametrize("name", [*NAMES[:5], "some folder"])
def test_the_command_that_goes_on_with_a_job_names_its_folder(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=np.random.default_rng(0).random((40, 2)))

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("privot.synthesis.output.output_folder.write_folder", fail)
        words = "synth a.npz --epsilon 5 --delta 1e-5 --adjacency add-remove --device cpu --range 0,1 --set steps=2"
        assert run([*words.split(), "--out", name]) == 1
    hint = capsys.readouterr().err.removesuffix(".\n").split("goes on with: ")[1]
    assert hint.isprintable()
    told = subprocess.run(
        ["bash", "-c", hint.replace("privot ", r"printf '%s\0' ", 1)], capture_output=True, check=True
    )
    arguments = [os.fsdecode(word) for word in told.stdout.split(b"\0")[:-1]]
    assert arguments == ["synth", "--resume", "--out", name]
    assert run([*arguments, "--json"]) == 0
    assert (Path(name) / "report.html").exists()


def test_a_command_too_long_to_be_shown_whole_is_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is cut short would name another folder."""
    monkeypatch.chdir(tmp_path)
    written.append(Written("a.ledger", "charge", 1, ""))
    try:
        for folder in ("a" * 200, "\x1b" * 100):
            Path(folder).mkdir()
            (Path(folder) / "job.json").touch()
        short, long = (charged(["synth", "--out", folder]) for folder in ("a" * 200, "\x1b" * 100))
    finally:
        written.clear()
    assert short.endswith("goes on with: privot synth --resume --out " + "a" * 200)
    assert long.endswith("goes on with: the same command and --resume")
    _say("b " * 400 + short)
    line = capsys.readouterr().err.removesuffix("\n")
    assert len(line) <= 900
    assert line.endswith(" privot synth --resume --out " + "a" * 200)


@pytest.mark.kills
@pytest.mark.slow
def test_a_killed_job_goes_on_with_one_charge_for_every_release(tmp_path: Path) -> None:
    """One kill of each job; every kill ten times by `PRIVOT_KILLS=10`."""
    times = os.environ.get("PRIVOT_KILLS", "0")
    words = ["--times", times, "--jobs", str(os.cpu_count())] if int(times) else ["--few"]
    made = warm.run([str(KILLER), "--sweep", str(tmp_path / "kills"), *words], timeout=math.inf)
    assert made.returncode == 0, made.stdout + made.stderr
    # three jobs of five moments, one of three, and the demonstration of two
    assert made.stdout.startswith(f"{(3 * 5 + 3 + 2) * 3 * int(times) or 4} kills (")


WRONG: list[tuple[dict[str, object], str]] = [
    ({"code": 0}, "it ended in 0, so the moment was not reached"),
    ({"err": "privot: Interrupted: this run paid nothing."}, "1 charges, and it says"),
    ({"err": "privot: Interrupted: charged 2 times; the release is saved."}, "1 charges, and it says"),
    ({"code_again": 4, "err_again": "is lost, so allow a second charge"}, "it does not go on"),
    ({"signal": "SIGKILL", "code": -9, "code_again": 4, "err_again": "is lost"}, "it does not go on"),
    ({"again": ["synth", "--resume", "--out", "made", "--pay-again"]}, "it would be paid a second time"),
    ({"charged": 2}, "2 charges where 1 are due"),
    ({"charged_then": 0}, "the moment was not reached: 0 charges"),
    ({"signal": "SIGKILL", "code": -9, "kept_then": True}, "the moment was passed: 1 charges"),
    ({"missing": ["model.safetensors"]}, "it is done, and there is no model.safetensors"),
]
FOUND: dict[str, object] = {
    "name": "adapt",
    "moment": "before the noise",
    "kept_then": False,
    "signal": "SIGTERM",
    "code": 130,
    "charged_then": 1,
    "code_again": 0,
    "err_again": "",
    "err": "privot: Interrupted: charged once; the release is saved.",
    "charged": 1,
    "again": ["adapt", "--resume", "--out", "made"],
    "missing": [],
}


@pytest.fixture(scope="module")
def judged() -> list[str]:
    """What is said of a kill about which nothing is wrong, and of each that is; the killer loads much, and once."""
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import job_killer; "
        "print(json.dumps([job_killer.wrong(found) for found in json.loads(sys.argv[2])]))"
    )
    found = json.dumps([FOUND, *(FOUND | changed for changed, _ in WRONG)])
    made = warm.run(["-c", code, str(KILLER.parent), found])
    assert made.returncode == 0, made.stderr
    told: list[str] = json.loads(made.stdout)
    return told


def test_nothing_is_said_of_a_kill_about_which_nothing_is_wrong(judged: list[str]) -> None:
    assert judged[0] == ""
    assert len(judged) == 1 + len(WRONG)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_wrong_about_a_kill_is_seen(number: int, judged: list[str]) -> None:
    assert judged[1 + number].startswith(WRONG[number][1])
