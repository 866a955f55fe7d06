"""File modes: only the owner can read secrets and histories of requests, whatever the umask, old files included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from federation_folders import ORDER, coordinator, job, party

from privot.cli import run
from privot.common.files import private_file, private_folder
from privot.federation.coordination.coordinator import Coordinator
from privot.federation.coordination.local_channel import LocalChannel
from privot.federation.parties.desk import Desk
from privot.federation.wire.signing import read_key

PUBLIC = {"ca.pem", "server.pem", "signing.key.pub", "node.key.pub", "north.key.pub", "x.sketch"}
"""Files that are made to be sent: readable by all, writable by the owner."""


@pytest.fixture(autouse=True)
def lax() -> Iterator[None]:
    """The most permissive umask there is."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def check_closed(*folders: Path) -> None:
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            expected = 0o700 if path.is_dir() else 0o644 if path.name in PUBLIC else 0o600
            assert mode(path) == expected, f"{path}: {mode(path):o}"


def test_a_federation_leaves_no_private_file_readable(tmp_path: Path) -> None:
    asker = coordinator(tmp_path / "hub")
    members = []
    for k in range(2):
        home = tmp_path / str(k)
        members.append(party(home, k, asker))
        # what a steward writes with a lax umask is closed when the party starts
        for name in ("records.npz", "open.npz"):
            (home / name).rename(tmp_path / f"{k}-{name}")
        text = (home / "policy.toml").read_text().replace('"records.npz"', f'"../{k}-records.npz"')
        (home / "policy.toml").unlink()
        (home / "policy.toml").write_text(text.replace('"open.npz"', f'"../{k}-open.npz"'))
        assert mode(home / "policy.toml") == 0o666
    desks = [Desk(tmp_path / str(k)) for k in range(2)]
    channel = LocalChannel({m.signer: d.handle for m, d in zip(members, desks, strict=True)})
    for protocol in ("sketch", "triangle"):
        at = Coordinator(tmp_path / protocol, read_key(tmp_path / "hub" / "signing.key"), channel)
        try:
            assert at.run(job(members, protocol, order=ORDER))["complete"]
        finally:
            at.close()
    for desk in desks:
        desk.close()
    for name in ("party.log", "asked.jsonl", "policy.toml"):
        assert (tmp_path / "0" / name).exists()
    check_closed(*(tmp_path / name for name in ("hub", "0", "1", "sketch", "triangle")))


def test_readable_files_of_an_earlier_version_are_made_private(tmp_path: Path) -> None:
    asker = coordinator(tmp_path / "hub")
    party(tmp_path / "0", 0, asker)
    home = tmp_path / "0"
    Desk(home).close()
    for name in ("party.log", "asked.jsonl", "policy.toml"):
        (home / name).chmod(0o666)
    (home / "sketches").chmod(0o777)
    home.chmod(0o777)
    Desk(home).close()
    assert [mode(home / name) for name in ("party.log", "asked.jsonl", "policy.toml")] == [0o600] * 3
    assert [mode(home), mode(home / "sketches")] == [0o700] * 2


def test_enrol_and_setup_leave_no_private_file_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["federate", "enrol", "north"]) == 0
    assert run(["federate", "setup", "hub", "--host", "127.0.0.1"]) == 0
    check_closed(tmp_path / "north", tmp_path / "hub")


@pytest.mark.parametrize("words", [["enrol", "shared"], ["setup", "shared", "--host", "127.0.0.1"]])
def test_keys_are_not_made_in_a_folder_of_others_which_keeps_its_mode(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "notes.txt").touch()
    assert run(["federate", *words]) == 2
    assert "is open to others" in capsys.readouterr().err
    assert (mode(shared), [path.name for path in shared.iterdir()]) == (0o755, ["notes.txt"])
    # one's own, or an empty one, is taken
    shared.chmod(0o700)
    assert run(["federate", *words]) == 0


def test_a_ledger_and_a_sketch_with_its_key_leave_no_private_file_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    made = private_folder(tmp_path / "made")
    np.savez(made / "x.npz", x=np.random.default_rng(0).uniform(size=(50, 3)))
    (made / "x.npz").chmod(0o600)
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "replace-one", "--range", "0,1"]
    assert run(["sketch", "made/x.npz", *terms, "--out", "made/x.sketch", "--key", "made/north.key"]) == 0
    assert (made / "x.npz.ledger").exists()
    check_closed(made)


def test_private_helpers_keep_what_is_there_and_the_owners_own_bits(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("kept")
    file.chmod(0o444)
    assert private_file(file).read_text() == "kept"
    assert mode(file) == 0o400
    assert mode(private_file(tmp_path / "b")) == 0o600
    folder = private_folder(tmp_path / "c" / "d")
    assert mode(folder) == 0o700
