"""Full disks, wrong files and missing rights: one clear sentence, and nothing lost or silently released."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ledger_samples import ADD, DELTA, gaussian

from privot.errors import CorruptLedgerError, DataError, PrivotError, UsageError
from privot.ledger import Ledger


def in_another_process(script: str, *arguments: str) -> list[str]:
    """What `script` prints, run where its limits and rights are its own."""
    found = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": found},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def one_sentence(error: BaseException) -> None:
    assert isinstance(error, PrivotError)
    assert str(error).endswith(".")
    assert "\n" not in str(error)


@pytest.mark.parametrize("image", [b"", b"hello, this is no database at all\n" * 50, b"\0" * 5000])
def test_not_a_ledger(path: Path, image: bytes) -> None:
    path.write_bytes(image)
    with pytest.raises(CorruptLedgerError, match="not a privot ledger") as caught:
        Ledger.open(path)
    one_sentence(caught.value)
    assert caught.value.exit_code == 3
    assert path.read_bytes() == image


def test_somebody_elses_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ledger (id INTEGER PRIMARY KEY, amount REAL)")
    connection.close()
    image = path.read_bytes()
    with pytest.raises(CorruptLedgerError, match="not a privot ledger"):
        Ledger.open(path)
    assert path.read_bytes() == image


def test_half_a_ledger(filled: Path) -> None:
    image = filled.read_bytes()
    for length in (4096, 5000, len(image) - 4096):
        filled.write_bytes(image[:length])
        with pytest.raises(CorruptLedgerError) as caught:
            Ledger.open(filled)
        one_sentence(caught.value)


def test_folders_and_missing_files(tmp_path: Path) -> None:
    for path, says in ((tmp_path, "folder"), (tmp_path / "none.ledger", "There is no ledger")):
        with pytest.raises(DataError, match=says) as caught:
            Ledger.open(path)
        one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="No such file"):
        Ledger.create(tmp_path / "missing" / "a.ledger")
    for name in ("", "a\0b"):
        with pytest.raises(UsageError):
            Ledger.open(name)


@pytest.mark.parametrize("ending", ["", ".key", ".anchor", "-wal"])
def test_create_touches_no_existing_file(path: Path, ending: str) -> None:
    other = Path(f"{path}{ending}")
    other.write_text("precious")
    with pytest.raises(UsageError) as caught:
        Ledger.create(path)
    one_sentence(caught.value)
    assert [file.read_text() for file in path.parent.iterdir()] == ["precious"]
    other.unlink()
    other.mkdir()
    with pytest.raises(UsageError):
        Ledger.create(path)


def test_create_that_fails_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    for failing in (1, 2, 3):  # the key, the anchor, the folder
        calls = -failing
        with pytest.raises(DataError, match="No space left") as caught:
            Ledger.create(path)
        one_sentence(caught.value)
        assert list(path.parent.iterdir()) == []


def test_a_closed_ledger(ledger: Ledger, data: str) -> None:
    ledger.close()
    ledger.close()
    with pytest.raises(UsageError, match="closed"):
        ledger.charge(data, gaussian(20.0), "x")


def test_through_a_link(filled: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere"
    link.symlink_to(filled)
    with Ledger.open(link) as ledger:
        assert ledger.path == filled
        assert ledger.verify() == 8


def test_a_name_with_signs(tmp_path: Path) -> None:
    path = tmp_path / "a b%20?c#d'é.ledger"
    Ledger.create(path).close()
    with Ledger.open(path) as ledger:
        assert ledger.verify() == 1
    assert {file.name for file in tmp_path.iterdir()} == {path.name + e for e in ("", ".key", ".anchor")}


def test_sqlite_runs_out_of_pages(ledger: Ledger, data: str, path: Path) -> None:
    ledger._store._run("PRAGMA max_page_count = 3")
    acknowledged = []

    def go_on() -> None:
        for i in range(100):
            acknowledged.append(ledger.charge(data, gaussian(500.0), f"step {i}"))

    with pytest.raises(DataError, match="full") as caught:
        go_on()
    one_sentence(caught.value)
    assert caught.value.exit_code == 3
    assert acknowledged
    assert ledger.entries() == acknowledged
    ledger._store._run("PRAGMA max_page_count = 1000")
    ledger.charge(data, gaussian(500.0), "room again")
    assert ledger.verify() == 3 + len(acknowledged)


FULL_DISK = """
import resource, sys
from ledger_samples import gaussian
from privot.errors import DataError
from privot.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
data = ledger.datasets()[0].fingerprint
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
for i in range(100):
    try:
        entry = ledger.charge(data, gaussian(500.0), f"step {i}")
    except DataError as error:
        print("error:", error)
        break
    print(entry.id, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, 60_000, 131_073])
def test_no_file_may_grow(ledger: Ledger, data: str, path: Path, room: int) -> None:
    """The system refuses to write beyond `room` bytes: the anchor fails first, or the log does."""
    ledger.close()
    out = in_another_process(FULL_DISK, str(path), str(room))
    assert out[-1].startswith("error: The ")
    assert "nothing was released" in out[-1]
    with Ledger.open(path) as again:
        found = {entry.id for entry in again.entries()}
        assert {int(line) for line in out[:-1]} <= found
        assert len(found) <= len(out)  # at most the one that was refused is counted as well
        again.charge(data, gaussian(500.0), "room again")
        assert again.verify() == 3 + len(found)


def test_a_full_disk_under_the_anchor(ledger: Ledger, data: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(DataError, match="nothing was released") as caught:
            ledger.charge(data, gaussian(20.0), "refused")
    one_sentence(caught.value)
    assert [entry.purpose for entry in ledger.entries()] == ["refused"]  # over-counted, never under
    assert ledger.verify() == 3


READ_ONLY = """
import os, sys
from ledger_samples import gaussian
from privot.errors import PrivotError
from privot.ledger import Ledger
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with Ledger.open(sys.argv[1]) as ledger:
        print("rows", ledger.verify())
        ledger.charge(ledger.datasets()[0].fingerprint, gaussian(500.0), "no")
        print("charged")
except PrivotError as error:
    print(type(error).__name__, error)
try:
    Ledger.create(sys.argv[1] + "2")
except PrivotError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.gate(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "file", "key", "says"),
    [
        (0o777, 0o444, 0o600, ["rows 8", "DataError .* may not be written"]),
        (0o555, 0o444, 0o600, ["DataError .* may not be written", "DataError No ledger can be made"]),
        (0o555, 0o644, 0o600, ["DataError .* may not be written", "DataError No ledger can be made"]),
        (0o777, 0o000, 0o600, ["DataError .* cannot be opened"]),
        (0o777, 0o644, 0o000, ["DataError The key .* cannot be read"]),
        (0o000, 0o644, 0o600, ["DataError .* cannot be opened", "DataError No ledger can be made"]),
    ],
)
def test_without_rights(filled: Path, folder: int, file: int, key: int, says: list[str]) -> None:
    """Root may do everything, so as root the attempt is made by nobody, in a folder of its own."""
    image = filled.read_bytes()
    with tempfile.TemporaryDirectory() as place:
        there = Path(place) / filled.name
        for source in filled.parent.iterdir():
            shutil.copy(source, place)
        there.chmod(file)
        Path(f"{there}.key").chmod(key)
        if os.geteuid() == 0:
            for name in (place, *Path(place).iterdir()):
                os.chown(name, 65534, 65534)
        os.chmod(place, folder)
        try:
            out = in_another_process(READ_ONLY, str(there))
        finally:
            os.chmod(place, 0o700)
            there.chmod(0o600)
        assert len(out) >= len(says)
        for line, pattern in zip(out, says, strict=False):
            assert re.match(pattern, line), line
        assert "charged" not in out
        assert there.read_bytes() == image


def test_limits_are_back(ledger: Ledger, data: str) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert ledger.set_budget(data, 1.0, DELTA, ADD, "clinic").id == 2


def test_a_ledger_that_could_not_be_made_leaves_no_file_behind(tmp_path: Path) -> None:
    """A disk that is full while it is made: once there is room the same name serves."""
    code = (
        "import resource, signal, sys\n"
        "from privot import Ledger\n"
        "from privot.errors import PrivotError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try: Ledger.create('a.ledger')\n"
        "except PrivotError as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert "could not be written" in found.stdout, found.stderr
    assert list(tmp_path.iterdir()) == []
