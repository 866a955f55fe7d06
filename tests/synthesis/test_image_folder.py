"""Folders of synthetic images: every pixel, safe names, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privot.data.loading import load
from privot.errors import DataError, UsageError
from privot.synthesis.output.image_folder import write_image_folder


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 4)])
def test_pixels_and_labels_come_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (12, int(np.prod(shape))))
    y = np.sort(rng.integers(0, 3, 12))
    heard: list[tuple[int, int]] = []
    write_image_folder(tmp_path / "out", x, y, shape, 0.0, 255.0, None, lambda *done: heard.append(done))
    back = load(tmp_path / "out", classes=3, shape=shape if shape[-1] != 1 else shape[:2])
    np.testing.assert_array_equal(back.x, x)
    np.testing.assert_array_equal(back.y, y)
    assert heard == [(k, 12) for k in range(1, 13)]


def test_a_range_becomes_black_to_white(tmp_path: Path) -> None:
    x = np.array([[-1.0, 0.0, 1.0, 7.0]])
    write_image_folder(tmp_path / "out", x, None, (2, 2), -1.0, 1.0)
    assert load(tmp_path / "out", classes=0, shape=(2, 2)).x.tolist() == [[0, 128, 255, 255]]
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["all"]


@pytest.mark.parametrize(
    "name", ["../up", "/etc", "a/b", "a\\b", ".hidden", "..", "", " a", "a\x00b", "a\nb", "x" * 300]
)
def test_a_name_that_leaves_the_folder_or_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no folder can have"):
        write_image_folder(tmp_path / "out", np.zeros((2, 4)), [0, 1], (2, 2), 0.0, 1.0, ["fine", name])
    assert list(tmp_path.iterdir()) == []


def test_names_that_some_systems_take_for_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="share one folder"):
        write_image_folder(tmp_path / "out", np.zeros((2, 4)), [0, 1], (2, 2), 0.0, 1.0, ["Cat", "cat"])
    with pytest.raises(DataError, match="share one folder"):
        write_image_folder(tmp_path / "out", np.zeros((2, 4)), [0, 1], (2, 2), 0.0, 1.0, ["cat"])


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(done: int, many: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_image_folder(tmp_path / "out", np.zeros((9, 4)), None, (2, 2), 0.0, 1.0, None, fail)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "taken").touch()
    with pytest.raises(UsageError, match="exists already"):
        write_image_folder(tmp_path / "taken", np.zeros((9, 4)), None, (2, 2), 0.0, 1.0)
    with pytest.raises(UsageError, match="known shape"):
        write_image_folder(tmp_path / "out", np.zeros((9, 4)), None, (2, 1, 2), 0.0, 1.0)
