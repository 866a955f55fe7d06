"""Synthetic images as a folder of PNG files, one sub-folder per class by its name, as the readers take them back."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privot.common.files import is_taken, sync
from privot.errors import DataError, UsageError

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""The mode of an image with this many values per pixel."""
_MAX_NAME = 200


def write_image_folder(
    path: Path,
    x: Any,
    y: Any,
    shape: Sequence[int] | None,
    low: Any,
    high: Any,
    class_names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a new folder of images; it is there whole or not at all.

    Parameters
    ----------
    path
        A name that nothing has yet.
    x, y
        Rows of pixels of shape (images, values), and their labels; without labels all images lie in one sub-folder,
        `all`.
    shape
        (height, width) or (height, width, channels), with 1, 3 or 4 channels.
    low, high
        The public range of values: `low` becomes black (0), `high` white (255), and what is between is rounded to 256
        steps. Values from 0 to 255 stay as they are, up to rounding.
    class_names
        Names of the classes 0, 1, …, which become names of sub-folders; their numbers unless given.
    progress
        Called with (images written, images in all).

    Raises
    ------
    UsageError
        If the records are no images, or the name is taken.
    DataError
        If a class name cannot be the name of a folder: a model from elsewhere may hold any.
    """
    from PIL import Image

    channels = check_image_folder(path, shape)
    assert shape is not None
    labels = np.zeros(len(x), dtype=np.int64) if y is None else np.asarray(y, dtype=np.int64)
    names = ["all"] if y is None else _names(class_names, int(labels.max(initial=0)) + 1)
    pixels = _as_bytes(np.asarray(x, dtype=np.float64), np.asarray(low), np.asarray(high))
    size = (int(shape[0]), int(shape[1]), *((channels,) if channels > 1 else ()))
    place = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}", suffix=".part"))
    try:
        for name in names:
            (place / name).mkdir()
        digits = len(str(max(len(x) - 1, 0)))
        for number, (row, label) in enumerate(zip(pixels, labels, strict=True)):
            Image.fromarray(row.reshape(size)).save(place / names[label] / f"{number:0{digits}d}.png")
            if progress is not None:
                progress(number + 1, len(x))
        os.chmod(place, 0o755)  # noqa: S103 - synthetic images are made to be handed on
        os.rename(place, path)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    sync(path.parent)


def check_image_folder(path: Path, shape: Sequence[int] | None) -> int:
    """Refuse, before anything is drawn, what cannot be written as such a folder; the channels of an image."""
    channels = int(shape[2]) if shape is not None and len(shape) == 3 else 1
    if shape is None or len(shape) not in (2, 3) or channels not in MODES:
        raise UsageError(
            "A folder of PNG files needs images of a known shape, grey, RGB or RGBA: name a .npz, .npy or .csv file."
        )
    if is_taken(path):
        raise UsageError(f"{path} exists already: name a new folder.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}: create it first.")
    return channels


def _as_bytes(x: Any, low: Any, high: Any) -> Any:
    """Values between black and white as whole numbers from 0 to 255."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (x - low) / (high - low)
    return np.rint(255.0 * np.clip(np.nan_to_num(share), 0.0, 1.0)).astype(np.uint8)


def _names(class_names: Sequence[str] | None, count: int) -> list[str]:
    """A name per class that is safe as the name of a sub-folder."""
    names = [str(k) for k in range(count)] if class_names is None else [str(name) for name in class_names]
    for name in names:
        ok = (
            name == name.strip()
            and not name.startswith(".")
            and name.isprintable()
            and not set(name) & set('/\\:*?"<>|')
        )
        if not name or not ok or len(name.encode("utf-8", "replace")) > _MAX_NAME:
            raise DataError("A class of this model has a name that no folder can have: name a .npz file instead.")
    if len({name.casefold() for name in names}) != len(names) or len(names) < count:
        raise DataError("Two classes of this model would share one folder: name a .npz file instead.")
    return names
