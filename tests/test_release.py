"""A release keeps what it holds, reads back what it wrote, and trusts no file."""

from __future__ import annotations

import copy
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.accounting import Gaussian, account
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.release import Release

GUARANTEE = account(Gaussian(2.0, 1.0, Adjacency.REPLACE_ONE), 1e-6)
VALUE = np.random.default_rng(1).normal(size=(4, 3))
PUBLIC = {"seed": (1 << 128) - 1, "frame": "orthogonal", "sigma": 0.1, "batch": None}


@pytest.mark.parametrize("value", [VALUE, {"sums": VALUE, "counts": np.arange(3)}])
def test_reads_back_what_it_wrote(tmp_path: Path, value: np.ndarray | dict[str, np.ndarray]) -> None:
    path = tmp_path / "a.release"
    Release(value, GUARANTEE, PUBLIC).save(path)
    again = Release.load(path)
    assert dict(again.public) == PUBLIC
    assert again.guarantee.epsilon() == GUARANTEE.epsilon()
    assert again.guarantee.at_delta == 1e-6
    assert again.guarantee.adjacency is Adjacency.REPLACE_ONE
    if isinstance(value, dict):
        assert set(again.value) == set(value)
        for name, array in value.items():
            np.testing.assert_array_equal(again.value[name], array)
    else:
        np.testing.assert_array_equal(again.value, value)
    assert [p.name for p in tmp_path.iterdir()] == ["a.release"]


def test_the_content_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        # nothing may be held back in a buffer when the system is asked to write
        (part,) = tmp_path.iterdir()
        with zipfile.ZipFile(part) as archive:
            assert archive.testzip() is None
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        sync(handle)

    def named(old: str, new: Path) -> None:
        seen.append("name")
        replace(old, new)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr("os.replace", named)
    Release(VALUE, GUARANTEE, PUBLIC).save(tmp_path / "a.npz")
    assert seen == ["content", "name", "folder"]


def test_a_digest_survives_the_file_and_tells_releases_apart(tmp_path: Path) -> None:
    release = Release({"sums": VALUE, "counts": np.arange(3)}, GUARANTEE, PUBLIC)
    release.save(tmp_path / "a.npz")
    assert Release.load(tmp_path / "a.npz").digest() == release.digest()
    moved = VALUE.copy()
    moved[0, 0] = np.nextafter(moved[0, 0], 9)
    dearer = account(Gaussian(1.9, 1.0, Adjacency.REPLACE_ONE), 1e-6)
    others = [
        Release({"sums": moved, "counts": np.arange(3)}, GUARANTEE, PUBLIC),
        Release({"sums": VALUE, "count": np.arange(3)}, GUARANTEE, PUBLIC),
        Release({"sums": VALUE.reshape(3, 4), "counts": np.arange(3)}, GUARANTEE, PUBLIC),
        Release({"sums": VALUE, "counts": np.arange(3)}, dearer, PUBLIC),
        Release({"sums": VALUE, "counts": np.arange(3)}, GUARANTEE, {**PUBLIC, "sigma": 0.2}),
        Release(VALUE, GUARANTEE, PUBLIC),
    ]
    assert len({release.digest(), *(other.digest() for other in others)}) == 7


def test_cannot_be_changed() -> None:
    value = VALUE.copy()
    release = Release(value, GUARANTEE, PUBLIC)
    value[:] = 0
    np.testing.assert_array_equal(release.value, VALUE)
    with pytest.raises(ValueError, match="read-only"):
        release.value[0, 0] = 1.0
    with pytest.raises(TypeError):
        release.public["seed"] = 1
    with pytest.raises(AttributeError):
        release.guarantee = None


def test_refuses_what_it_cannot_keep() -> None:
    with pytest.raises(UsageError):
        Release(VALUE, None, PUBLIC)
    with pytest.raises(UsageError):
        Release(VALUE, GUARANTEE, {"a": object()})
    with pytest.raises(UsageError):
        Release(VALUE, GUARANTEE, {"a": float("nan")})
    with pytest.raises(UsageError):
        Release(np.array(["a"]), GUARANTEE, {})


def rewritten(path: Path, change: dict[str, object]) -> None:
    """Put other facts into the file at `path`."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    facts = json.loads(members["release.json"])
    facts.update(change)
    members["release.json"] = json.dumps(facts).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_forged_guarantee_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    Release(VALUE, GUARANTEE, PUBLIC).save(path)
    forged = GUARANTEE.to_dict()
    forged["epsilon"] = 0.01
    for point in forged["curve"]:
        point["epsilon"] = 0.01
    rewritten(path, {"guarantee": forged})
    with pytest.raises(DataError):
        Release.load(path)


def test_damaged_files_are_refused_whatever_byte_is_hit(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    Release(VALUE, GUARANTEE, PUBLIC).save(path)
    whole = path.read_bytes()
    for content in (b"", b"PK", whole[: len(whole) // 2], whole[:-1], b"\x00" * 100):
        path.write_bytes(content)
        with pytest.raises(DataError):
            Release.load(path)
    for change in ({"schema": 9}, {"guarantee": {}}, {"guarantee": None}, {"public": 3}):
        path.write_bytes(whole)
        rewritten(path, change)
        with pytest.raises(DataError):
            Release.load(path)
    generator = np.random.default_rng(2)
    survived = 0
    for _ in range(60):
        at = int(generator.integers(len(whole)))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        try:
            again = Release.load(path)
        except DataError:
            continue
        # bytes that mean nothing (times, flags) may change; what is read may not
        survived += 1
        np.testing.assert_array_equal(again.value, VALUE)
        assert dict(again.public) == PUBLIC
    assert survived < 30
    with pytest.raises(DataError):
        Release.load(tmp_path / "missing.npz")


def test_pickled_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, value=np.array([{}], dtype=object))
    with pytest.raises(DataError):
        Release.load(path)


def test_repr_names_shape_cost_and_standing_and_no_value() -> None:
    terms = f"ε = {GUARANTEE.epsilon():.6g} at δ = 1e-06, replace-one, proven"
    assert repr(Release(VALUE, GUARANTEE, {})) == f"Release((4, 3), {terms})"
    assert repr(Release({"sums": VALUE}, GUARANTEE, {})) == f"Release(sums (4, 3), {terms})"
    assert repr(GUARANTEE) == f"Guarantee({terms})"


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_release_is_saved_not_pickled(how: Any) -> None:
    release = Release(np.ones(3), account(Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE), 1e-5), {})
    with pytest.raises(UsageError, match="write it with save"):
        how(release)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e200])
def test_a_file_with_numbers_that_no_release_has_is_refused(odd: float, tmp_path: Path) -> None:
    value = np.array(VALUE, dtype=np.float64)
    value.flat[0] = odd
    Release(value, GUARANTEE, PUBLIC).save(tmp_path / "a.npz")
    with pytest.raises(DataError, match="finite numbers"):
        Release.load(tmp_path / "a.npz")


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_numbers_of_single_precision_are_held_to_the_same_rule(odd: float, tmp_path: Path) -> None:
    value = np.ones((2, 3), dtype=np.float32)
    Release(value, GUARANTEE, PUBLIC).save(tmp_path / "a.npz")
    assert np.array_equal(Release.load(tmp_path / "a.npz").value, value)
    Release(value * np.float32(odd), GUARANTEE, PUBLIC).save(tmp_path / "a.npz")
    with pytest.raises(DataError, match="finite numbers"):
        Release.load(tmp_path / "a.npz")
