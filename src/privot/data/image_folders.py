"""Reads a folder of images: each sub-folder holds one stated class; it scales and converts nothing.

What an image becomes depends on that image, its sub-folder's name and the stated facts alone: a class keeps its number
when its sub-folder is empty or missing. What an image file is called may say whose it is, so a refusal counts files
instead of naming them; nor is a sub-folder named that is no stated class.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privot.data.image_units import unit_of
from privot.data.stated_facts import MODES, StatedFacts
from privot.errors import DataError, UsageError
from privot.opening.limits import Meter
from privot.opening.plain_files import open_file, stays_inside

ENDINGS = (".png", ".jpg", ".jpeg")
_MAX_PIXELS = 2**24
"""Of one image; a file of some kilobytes can unpack to far more."""


class _File(NamedTuple):
    """An image with the number of its class, its sub-folder, and what errors call it."""

    number: int
    place: Path
    file: Path
    which: str


def read_images(
    folder: Path, stated: StatedFacts, units: Mapping[str, str] | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64] | None, list[str] | None]:
    """Rows of pixels from 0 to 255 (height, width, colour), the class of each image unless labels are left out, and
    whose each is where `units` say so (`image_units`), by its path relative to the folder.

    Images are PNG or JPEG of the stated shape (grey, RGB or RGBA). Without a stated shape all must agree. An unknown
    sub-folder is refused, a missing one is an empty class. Hidden files are ignored. With `units`, an image that they
    do not name is refused, and so is a link: what one unit has must not be the file of another. What `units` say of
    files that are not there is not used.
    """
    places = [place for place in _shown(folder) if place.is_dir()]
    if not places:
        raise DataError(f"{folder.name!r} is a folder without sub-folders: put the images of each class into one.")
    if any(_is_image(place) for place in _shown(folder)):
        raise DataError(f"{folder.name!r} has images outside its sub-folders: put each into that of its class.")
    if stated.classes is None:
        raise UsageError(
            f"{folder.name!r} is a folder of images, whose class names are public and stated: give the names of all "
            "classes, or say that labels are left out."
        )
    classes = _numbered(folder, places, stated)
    files = [
        _File(number, place, file, f"File {count} by name in {where}")
        for number, place, where in classes
        for count, file in enumerate(_shown(place, where), 1)
    ]
    if not files:
        raise DataError(f"The sub-folders of {folder.name!r} hold no images: put PNG or JPEG files there.")
    owners = None if units is None else _owners(files, units)
    form, rows = _form(stated.shape), np.empty((0, 0), dtype=np.uint8)
    for row, (_, _, file, which) in enumerate(files):
        if not file.is_file() or not _is_image(file):
            raise DataError(f"{which} is no image: keep PNG and JPEG files there, and nothing else.")
        if not stays_inside(file, folder):
            raise DataError(f"{which} is a link that leaves the folder: put the image itself there.")
        found, pixels = _read(file, which, form, "stated are" if stated.shape else "the first image is")
        if row == 0:
            form = found
            # a pixel of one byte takes eight once it is used
            Meter(folder.name).claim(8 * len(files) * pixels.size)
            rows = np.empty((len(files), pixels.size), dtype=np.uint8)
        rows[row] = pixels
    return rows, np.array([file.number for file in files], dtype=np.int64) if stated.labels else None, owners


def _owners(files: list[_File], units: Mapping[str, str]) -> list[str]:
    """Whose each image is; refuses one that nobody has, and one file under two names."""
    known: set[tuple[int, int]] = set()
    out = []
    for _, place, file, which in files:
        out.append(unit_of(units, f"{place.name}/{file.name}", which))
        try:
            facts = file.stat()
        except OSError:
            # a link to nothing, which is no image
            continue
        if file.is_symlink() or place.is_symlink() or (facts.st_dev, facts.st_ino) in known:
            raise DataError(f"{which} is a link, so it may be an image of two units: put the image itself there.")
        known.add((facts.st_dev, facts.st_ino))
    return out


def _numbered(folder: Path, places: list[Path], stated: StatedFacts) -> list[tuple[int, Path, str]]:
    """The sub-folders in the stated order of their classes, each with its class and what errors call it."""
    if not stated.labels:
        # their names are not stated: they may be those of people
        return [(0, place, f"sub-folder {count}") for count, place in enumerate(places, 1)]
    number_of = {name: number for number, name in enumerate(stated.names or ())}
    for count, place in enumerate(places, 1):
        if place.name not in number_of:
            only = " (a number N stands for the names 0 to N − 1)" if isinstance(stated.classes, int) else ""
            raise DataError(
                f"Sub-folder {count} by name of {folder.name!r} is none of the {stated.count} stated classes{only}: "
                "state the names of all classes, or remove it."
            )
    return sorted(((number_of[place.name], place, repr(place.name)) for place in places), key=lambda found: found[0])


def _form(shape: tuple[int, ...] | None) -> tuple[Any, ...] | None:
    """((width, height), mode) of images of this shape."""
    if shape is None:
        return None
    channels = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or channels not in MODES:
        raise UsageError("The shape of an image in a folder is (height, width), with 3 or 4 channels after it or none.")
    return (shape[1], shape[0]), MODES[channels]


def _shown(folder: Path, where: str = "") -> list[Path]:
    """What lies in `folder` and is not hidden, by name; errors call it `where`, or by its name."""
    try:
        return sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.name)
    except OSError:
        raise DataError(f"What lies in {where or repr(folder.name)} cannot be read: check its permissions.") from None


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def decode_image(content: bytes, which: str, stated: StatedFacts) -> NDArray[np.uint8]:
    """All pixels of an image that was read already, of the stated shape; errors call it `which`."""
    return _read(content, which, _form(stated.shape), "stated are")[1]


def _read(
    file: Path | bytes, which: str, form: tuple[Any, ...] | None, whose: str
) -> tuple[tuple[Any, ...], NDArray[np.uint8]]:
    """((width, height), mode) and all pixels of a file or its content; one of another form is never unpacked."""
    from PIL import Image, UnidentifiedImageError

    complaint = f"{which} cannot be read as an image: it is damaged, or of another kind than its name says."
    try:
        with warnings.catch_warnings():
            # Pillow warns where it doubts; the bounds below decide
            warnings.simplefilter("ignore")
            with (
                io.BytesIO(file) if isinstance(file, bytes) else open_file(file) as opened,
                Image.open(opened, formats=("PNG", "JPEG")) as image,
            ):
                found = (image.size, image.mode)
                if image.size[0] * image.size[1] > _MAX_PIXELS:
                    complaint = f"{which} has more than {_MAX_PIXELS} pixels: make the images smaller."
                elif image.mode not in MODES.values():
                    complaint = f"{which} has the mode {image.mode}: save all images as 8-bit grey, RGB or RGBA."
                elif form is not None and found != form:
                    complaint = f"{which} is {_said(found)}, {whose} {_said(form)}: give all images one size and mode."
                else:
                    return found, np.asarray(image, dtype=np.uint8).reshape(-1)
    except Image.DecompressionBombError:
        complaint = f"{which} has more than {_MAX_PIXELS} pixels: make the images smaller."
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, MemoryError):
        pass
    raise DataError(complaint)


def _said(form: tuple[Any, ...]) -> str:
    (width, height), mode = form
    return f"{width} × {height} {mode}"
