"""What a command paid for is there after every failure and every kill, and is never paid twice."""

from __future__ import annotations

import errno
import json
import math
import os
import shlex
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warm
from privot.cli import run
from privot.ledger import Ledger
from privot.release import Release

TERMS = "--epsilon 0.5 --delta 1e-6"
COMMANDS = {
    "mean": f"release mean a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "dp-swd": f"compare a.csv b.csv --method dp-swd {TERMS} --adjacency replace-one --clip 9",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).integers(0, 10, size=(2, 60, 2))
    for name, numbers in zip("ab", rows, strict=True):
        (tmp_path / f"{name}.csv").write_text("u,v\n" + "".join(f"{u},{v}\n" for u, v in numbers))
    return tmp_path


def charges(folder: Path) -> list[int]:
    found = []
    for path in sorted(folder.glob("*.ledger")):
        with Ledger.open(path) as book:
            book.verify()
            found.append(len(book.entries()))
    return found


def kept(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.glob("*.ledger.*/*") if path.name != ".lock")


@pytest.mark.kills
def test_a_kill_loses_no_paid_release_and_charges_once(tmp_path: Path) -> None:
    """One kill of each kind; every kind ten times by `PRIVOT_KILLS=10`."""
    times = int(os.environ.get("PRIVOT_KILLS", "0"))
    words = [str(times), "all"] if times else ["1", "few"]
    killer = Path(__file__).with_name("release_killer.py")
    made = warm.run([str(killer), str(tmp_path), *words], timeout=math.inf)
    assert made.returncode == 0, made.stderr
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    assert len(lines) == (6 * 6 * 3 * times or 8)
    for life in lines:
        sides, end = life["sides"], life["moment"] == "when it was delivered"
        if life["signal"] == "SIGKILL":
            assert life["code"] == -signal.SIGKILL, life
        else:
            # the first signal waits until what is paid for is on disk
            assert (life["code"], life["charged_then"]) == (130, sides), life
            told = "charged once to " if end else "is paid for and kept beside the ledger"
            assert told in life["err"], life
            assert life["err"].count("\n") == 1, life
        # shown whole or not at all
        assert bool(life["out"]) is (end and life["name"] != "sketch"), life
        assert (life["code_again"], life["charged"], life["left"]) == (0, [1] * sides, []), life
        assert ("in an earlier attempt" in life["out_again"]) is (life["charged_then"] > 0), life
        if life["out"]:
            # the value that was shown is shown again
            assert life["out"].splitlines()[0] == life["out_again"].splitlines()[0], life


def forget(folder: Path) -> None:
    """Begin anew, with a new ledger."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix != ".csv":
            path.unlink()


def printed(words: str, capsys: Any, code: int = 0) -> Any:
    assert run([*shlex.split(words), "--json"]) == code
    said = capsys.readouterr()
    return json.loads(said.out) if code == 0 else said.err


@pytest.fixture
def here(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(data)
    return data


@pytest.mark.parametrize("out", ["/proc/m.npz", "x" * 300, "no/such/m.npz", "."], ids=["proc", "long", "folder", "."])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_paid(here: Path, out: str, capsys: Any) -> None:
    assert run([*shlex.split(COMMANDS["mean"]), "--out", out]) in (2, 3)
    assert not (here / "a.csv.ledger").exists()


@pytest.mark.parametrize("name", ["mean", "dp-swd"])
def test_what_cannot_be_printed_is_kept_and_printed_again_without_paying(
    here: Path, name: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = [1, 1] if name == "dp-swd" else [1]
    end, start = os.pipe()
    os.close(end)
    for place in ("/dev/full", start, None):
        stream = None if place is None else open(place, "w")  # noqa: SIM115
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert run(shlex.split(COMMANDS[name])) == 3
        with suppress(OSError):
            stream and stream.close()
        said = capsys.readouterr().err
        assert said.startswith("privot: Standard output cannot be written (")
        assert said.endswith(
            "paid for and kept beside the ledger, so run the command again, which costs nothing more.\n"
        )
        assert charges(here) == paid
    first = printed(COMMANDS[name], capsys)
    assert (first["paid_before"], charges(here), kept(here)) == (True, paid, [])
    # delivered: the next one is another release, which the budget no longer covers
    printed(COMMANDS[name], capsys, 4)
    assert kept(here) == []


def test_a_full_disk_loses_no_release(here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save = Release.save

    def full(self: Release, path: Path) -> None:
        if path.suffix != ".paid":
            raise OSError(errno.ENOSPC, "No space left on device", "/tmp/.a part")
        save(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", full)
        said = printed(COMMANDS["mean"] + " --out m.npz", capsys, 3)
    assert said == (
        "privot: m.npz cannot be written (No space left on device): the release is paid for and kept beside the "
        "ledger, so run the command again, with another --out if needed, which costs nothing more.\n"
    )
    found = printed(COMMANDS["mean"] + " --out n.npz", capsys)
    assert (found["paid_before"], charges(here)) == (True, [1])
    assert Release.load(here / "n.npz").value["estimate"] == found["estimate"]  # type: ignore[call-overload]


WRITTEN = {
    "mean": COMMANDS["mean"],
    "count": f"release count a.csv --column u --between 2,5 {TERMS} --adjacency add-remove",
    "histogram": f"release histogram a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "quantile": f"release quantile a.csv --column u --range 0,9 {TERMS} --adjacency add-remove",
    "sketch": f"sketch a.csv {TERMS} --adjacency add-remove --range 0,9",
    "answer": "answer request.json target.npz --epsilon 5 --delta 1e-5",
    "synth": "synth a.csv --epsilon 5 --delta 1e-5 --adjacency add-remove --device cpu --seed 1 --range 0,9 "
    "--set steps=2 --samples 9",
    "adapt": "adapt source.npz target.npz --epsilon 5 --delta 1e-5 --device cpu --seed 1 --range 0,1 --set fit=1 "
    "--set finish=2",
}
"""Every command that pays and writes `--out`."""


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_and_cannot_be_printed_is_said_to_be_there(
    here: Path, name: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = np.random.default_rng(0).random((40, 2)), np.arange(40) % 2
    np.savez(here / "source.npz", x=x, y=y)
    np.savez(here / "target.npz", x=x)
    if name == "answer":
        asking = f"{WRITTEN['adapt'].replace(' target.npz', '')} --set records=40 --ask request.json --out asked"
        assert run(shlex.split(asking)) == 0
        capsys.readouterr()
    words = [*shlex.split(WRITTEN[name]), "--out", "made"]
    # the explanation of a request comes before it is paid for
    words += ["--json"] if name == "answer" else []
    with monkeypatch.context() as patch, suppress(OSError), open("/dev/full", "w") as stream:
        patch.setattr(sys, "stdout", stream)
        assert run(words) == 3
    ledger = f"{words[2]}.ledger" if name in ("adapt", "answer") else "a.csv.ledger"
    told = f"charged once to {here / ledger}, and what was paid for is in made."
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"privot: Standard output cannot be used (No space left on device): {told}"
    # answers are kept for whoever asks again
    assert (charges(here), kept(here)) == ([1], [".release"] if name == "answer" else [])
    assert (here / "made").exists()
    # nothing is left to deliver, and nothing is paid again
    if name in ("synth", "adapt"):
        assert run([*words, "--resume", "--json"]) == 0
        assert charges(here) == [1]


def test_an_interrupt_while_it_is_printed_says_where_the_value_is(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("privot.cli.printing.guarantee_words.in_words", interrupt)
    assert run([*shlex.split(WRITTEN["sketch"]), "--out", "s.sketch"]) == 130
    told = f"charged once to {here / 'a.csv.ledger'}, and what was paid for is in s.sketch."
    assert capsys.readouterr().err == f"privot: Interrupted: {told}\n"


def test_a_name_that_is_no_text_is_written_and_printed(data: Path) -> None:
    name = os.fsdecode(b"m\xff.npz")
    found = warm.run(["-m", "privot", *shlex.split(COMMANDS["mean"]), "--out", name, "--json"], cwd=data)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["out"] == name
    assert (data / name).exists()


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


def test_what_other_versions_paid_for_is_not_paid_a_second_time(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: Any, **__: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("privot.vault.vault.run_paid", kill)
        with pytest.raises(Killed):
            run(shlex.split(COMMANDS["mean"]))
    assert (charges(here), kept(here)) == ([1], [".secret"])
    with monkeypatch.context() as patch:
        patch.setattr("privot.vault.release_steps.arithmetic_mark", lambda *_: "another processor")
        assert "paid for elsewhere" in printed(COMMANDS["mean"], capsys, 4)
    assert (charges(here), kept(here)) == ([1], [".secret"])
    assert printed(COMMANDS["mean"], capsys)["paid_before"]
    assert (charges(here), kept(here)) == ([1], [])


def test_a_private_file_holds_what_makes_the_noise_and_only_until_the_value_is_there(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the charge the secret is on disk and closed to others; what nobody paid for leaves none behind."""
    seen: list[int] = []
    real = Ledger.charge

    def charge(self: Ledger, *given: Any) -> Any:
        (secret,) = (here / "a.csv.ledger.releases").glob("*.secret")
        seen.extend([secret.stat().st_mode & 0o777, secret.parent.stat().st_mode & 0o777])
        return real(self, *given)

    monkeypatch.setattr(Ledger, "charge", charge)
    assert run(shlex.split(COMMANDS["mean"])) == 0
    assert run(shlex.split(COMMANDS["mean"])) == 4
    assert seen == [0o600, 0o700] * 2
    assert (charges(here), kept(here)) == ([1], [])
