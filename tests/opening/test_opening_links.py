"""Nothing in a folder may be a link that leaves it: a report would publish what the link points to."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import numpy as np
import pytest

from privot.cli import run
from privot.data.loading import load
from privot.errors import DataError
from privot.opening import read_bytes
from privot.opening.plain_files import stays_inside
from privot.synthesis.output.html_report import write_report

SECRET = b"\x89PNG\r\n\x1a\n the secret of somebody else"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    np.savez(folder / "data.npz", x=np.random.default_rng(1).random((200, 2)), y=np.arange(200) % 2)
    terms = (
        "--epsilon 5 --delta 1e-5 --adjacency add-remove --classes 2 --range 0,1 --set steps=5 --samples 10 --seed 1"
    )
    assert run(["synth", str(folder / "data.npz"), *terms.split(), "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.mark.slow
def test_a_report_does_not_publish_what_a_link_points_to(copy: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "secret.png").write_bytes(SECRET)
    os.symlink(tmp_path / "secret.png", copy / "grid.png")
    (copy / "report.html").unlink()
    assert run(["report", str(copy)]) == 3
    said = capsys.readouterr().err
    assert "is a link that leaves the folder" in said
    assert said.count("\n") == 1
    assert not (copy / "report.html").exists()


def test_a_report_publishes_no_file_that_is_not_a_picture(copy: Path) -> None:
    (copy / "grid.png").write_bytes(b"root:x:0:0")
    with pytest.raises(DataError, match="not a PNG image"):
        write_report(copy)


def test_a_report_shows_its_own_picture_and_a_link_to_one_of_its_own(copy: Path) -> None:
    (copy / "own.png").write_bytes(SECRET)
    os.symlink("own.png", copy / "grid.png")
    assert base64.b64encode(SECRET).decode() in write_report(copy).read_text()


@pytest.mark.parametrize("name", ["config.json", "guarantee.json", "generator.safetensors"])
def test_no_file_of_a_folder_is_read_through_a_link_that_leaves_it(name: str, copy: Path, tmp_path: Path) -> None:
    (copy / name).rename(tmp_path / name)
    os.symlink(tmp_path / name, copy / name)
    assert run(["sample", str(copy), "-n", "3", "--out", str(tmp_path / "s.npz")]) == 3


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    os.symlink(tmp_path / "a.npy", tmp_path / "b.npy")
    np.testing.assert_array_equal(load(tmp_path / "b.npy").x, np.eye(3))


def test_images_may_be_links_inside_their_folder_and_none_that_leaves_it(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "set" / "one").mkdir(parents=True)
    Image.fromarray(np.zeros((3, 3), dtype=np.uint8)).save(tmp_path / "set" / "one" / "a.png")
    os.symlink("a.png", tmp_path / "set" / "one" / "b.png")
    assert load(tmp_path / "set", classes=("one",)).x.shape == (2, 9)
    Image.fromarray(np.ones((3, 3), dtype=np.uint8)).save(tmp_path / "other.png")
    os.symlink(tmp_path / "other.png", tmp_path / "set" / "one" / "c.png")
    with pytest.raises(DataError, match="link that leaves the folder"):
        load(tmp_path / "set", classes=("one",))


def test_a_folder_inside_that_is_a_link_counts_as_leaving(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(b"1")
    os.symlink(tmp_path / "out", tmp_path / "in" / "sub")
    assert not stays_inside(tmp_path / "in" / "sub" / "a", tmp_path / "in")
    with pytest.raises(DataError, match="leaves the folder"):
        read_bytes(tmp_path / "in" / "sub" / "a", inside=tmp_path / "in")
    # a folder that is itself reached by a link is where the user says it is
    os.symlink(tmp_path / "out", tmp_path / "named")
    assert read_bytes(tmp_path / "named" / "a", inside=tmp_path / "named") == b"1"
