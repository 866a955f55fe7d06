"""The tree can be read: no folder of the product is crowded, and a file's base name tells it from every other file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import ROOT

PRODUCT = ROOT / "src" / "privot"
LARGEST = 16


def members(folder: Path) -> list[Path]:
    """The source files and folders in a folder, `__init__` apart."""
    return [
        path
        for path in folder.iterdir()
        if (path.suffix in {".py", ".js", ".c"} and path.stem != "__init__")
        or (path.is_dir() and path.name != "__pycache__")
    ]


def crowded(root: Path) -> dict[str, int]:
    """Folders below `root` with more than `LARGEST` members."""
    folders = [path for path in root.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    sizes = {str(path.relative_to(root)): len(members(path)) for path in folders}
    return {name: size for name, size in sizes.items() if size > LARGEST}


def repeated(root: Path) -> list[str]:
    """Base names of several modules or folders; a folder's main module may carry the folder's name."""

    def names(folder: Path) -> Iterator[str]:
        for path in members(folder):
            if path.is_dir():
                yield path.name
                yield from names(path)
            elif path.suffix == ".py" and path.stem != folder.name:
                yield path.stem

    return sorted(name for name, times in Counter(names(root)).items() if times > 1)


def test_no_folder_is_crowded() -> None:
    assert crowded(PRODUCT) == {}


def test_base_names_are_unique() -> None:
    assert repeated(PRODUCT) == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a/b.py", "c/d.py", "e/e.py", "a/__init__.py", "c/__init__.py"], []),
        (["a/b.py", "c/b.py"], ["b"]),
        (["a/b.py", "b/c.py"], ["b"]),
        (["a/b.js", "a/b.py"], []),
    ],
)
def test_repeated_names_are_found(files: list[str], found: list[str], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert repeated(tmp_path) == found


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    for number in range(LARGEST):
        (tmp_path / "full" / f"file_{number}.py").touch()
    assert crowded(tmp_path) == {}
    (tmp_path / "full" / "one_more").mkdir()
    assert crowded(tmp_path) == {"full": LARGEST + 1}
