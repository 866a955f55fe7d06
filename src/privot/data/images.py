"""Reads a folder of images by class: each sub-folder is a class, in sorted order; it scales and converts nothing.

What an image file is called may say whose it is, so a refusal counts files instead of naming them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.opening import Meter, open_file, stays_inside

_ENDINGS = (".png", ".jpg", ".jpeg")
_MODES = {"L": 1, "RGB": 3, "RGBA": 4}
_MOST_PIXELS = 2**24
"""Of one image; a file of some kilobytes can unpack to far more."""


def read_images(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], tuple[str, ...]]:
    """Rows of pixels from 0 to 255 (height, width, colour), the class of each, and the names of the classes.

    Images are PNG or JPEG, all of one size and mode (grey, RGB or RGBA). Hidden files are ignored.
    """
    classes = [place for place in _shown(folder) if place.is_dir()]
    if not classes:
        raise DataError(f"{folder.name!r} is a folder without sub-folders: put the images of each class into one.")
    if any(_is_image(place) for place in _shown(folder)):
        raise DataError(f"{folder.name!r} has images outside its sub-folders: put each into that of its class.")
    files = [(number, place, file) for number, place in enumerate(classes) for file in enumerate(_shown(place), 1)]
    if not files:
        raise DataError(f"The sub-folders of {folder.name!r} hold no images: put PNG or JPEG files there.")
    form, rows = None, np.empty((0, 0), dtype=np.uint8)
    for row, (_, place, (count, file)) in enumerate(files):
        which = f"File {count} by name in {place.name!r}"
        if not file.is_file() or not _is_image(file):
            raise DataError(f"{which} is no image: keep PNG and JPEG files there, and nothing else.")
        if not stays_inside(file, folder):
            raise DataError(f"{which} is a link that leaves the folder: put the image itself there.")
        found, pixels = _read(file, which, form)
        if form is None:
            form = found
            # a pixel of one byte takes eight once it is used
            Meter(folder.name).claim(8 * len(files) * pixels.size)
            rows = np.empty((len(files), pixels.size), dtype=np.uint8)
        rows[row] = pixels
    labels = np.array([number for number, _, _ in files], dtype=np.int64)
    return rows, labels, tuple(place.name for place in classes)


def _shown(folder: Path) -> list[Path]:
    """What lies in `folder` and is not hidden, by name."""
    try:
        return sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.name)
    except OSError:
        raise DataError(f"The folder {folder.name!r} cannot be read: see who may.") from None


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in _ENDINGS


def _read(file: Path, which: str, form: tuple[Any, ...] | None) -> tuple[tuple[Any, ...], NDArray[np.uint8]]:
    """((width, height), mode) and all pixels; what does not have the form of the first is never unpacked."""
    from PIL import Image, UnidentifiedImageError

    complaint = f"{which} cannot be read as an image: it is damaged, or of another kind than its name says."
    try:
        with warnings.catch_warnings():
            # Pillow warns where it doubts; the bounds below decide
            warnings.simplefilter("ignore")
            with open_file(file) as opened, Image.open(opened, formats=("PNG", "JPEG")) as image:
                found = (image.size, image.mode)
                if image.size[0] * image.size[1] > _MOST_PIXELS:
                    complaint = f"{which} has more than {_MOST_PIXELS} pixels: make the images smaller."
                elif image.mode not in _MODES:
                    complaint = f"{which} has the mode {image.mode}: save all images as 8-bit grey, RGB or RGBA."
                elif form is not None and found != form:
                    complaint = f"{which} is {_said(found)}, the first image {_said(form)}: give all one size and mode."
                else:
                    return found, np.asarray(image, dtype=np.uint8).reshape(-1)
    except Image.DecompressionBombError:
        complaint = f"{which} has more than {_MOST_PIXELS} pixels: make the images smaller."
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, MemoryError):
        pass
    raise DataError(complaint)


def _said(form: tuple[Any, ...]) -> str:
    (width, height), mode = form
    return f"{width} × {height} {mode}"
