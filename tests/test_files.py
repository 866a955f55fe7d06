"""Files are whole or not there: modes, failures half-way, and a name that only one can have."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from privot.common.files import PART, write_whole, writing


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_has_the_mode_that_was_asked_for_and_leaves_nothing_beside_it(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    write_whole(path, b"one", mode=mode)
    write_whole(path, b"two", mode=mode)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


def test_only_its_owner_reads_a_file_unless_said_otherwise(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"secret")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_failure_half_way_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")

    def stop_half_way() -> None:
        with writing(path) as file:
            file.write(b"ne")
            assert len(list(tmp_path.glob(f"*{PART}"))) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_half_way()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_a_fresh_name_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:

        def none(*_: Any) -> None:
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", none)
    path = tmp_path / "a"
    write_whole(path, b"first", fresh=True)
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", fresh=True)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
