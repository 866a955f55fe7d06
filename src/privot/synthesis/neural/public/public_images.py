"""Images that are public and hold no record of the vault: checked, named by a digest, never put into a vault."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError

MIN_IMAGES = 20
"""Fewer images say too little of what images look like."""


class PublicImages:
    """Images of any kind, public and of the records' shape and range, with or without labels.

    Parameters
    ----------
    x
        Images of shape (images, …), finite numbers in the unit of the records.
    y
        Their classes, whole numbers from 0 on. They count only where there are as many classes as the records have.

    Attributes
    ----------
    digest
        SHA-256 of the images and their labels, as numbers: the same for every file format.

    Raises
    ------
    DataError
        If there are fewer than 20 images, or they are not finite numbers, or labels do not fit them.

    Notes
    -----
    Formal guarantees: none of its own. Whatever is made with these images has the guarantee of the releases, *provided
    that no image here is a record of the vault, and that they were not chosen by looking at its records*: every
    guarantee of a job with public images lists that assumption (`assumption`). Nothing can check it.

    Examples
    --------
    >>> images = PublicImages(np.zeros((20, 8, 8)), np.arange(20) % 2)
    >>> len(images), images.classes
    (20, 2)
    """

    def __init__(self, x: Any, y: Any = None) -> None:
        images = _numbers(x, "images")
        if images.ndim < 2 or not images.size:
            raise DataError(f"Public images must be an array (images, height, width, …), got {images.ndim} axes.")
        if len(images) < MIN_IMAGES:
            raise DataError(f"There are {len(images)} public images: give at least {MIN_IMAGES}, or leave them out.")
        self.x = np.ascontiguousarray(images.reshape(len(images), -1), dtype=np.float32)
        self.x.setflags(write=False)
        self.y = None if y is None else _labels(y, len(images))
        self.digest = _digest(self.x, self.y)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        labels = "no labels" if self.y is None else f"{self.classes} classes"
        return f"PublicImages({len(self)} images, {labels}, sha256={self.digest[:16]}…)"

    @property
    def classes(self) -> int | None:
        """The number of classes: one more than the largest label; None without labels, or where one has no image."""
        if self.y is None:
            return None
        counts = np.bincount(self.y)
        return len(counts) if counts.all() else None

    @property
    def assumption(self) -> str:
        """What everything made with them rests on."""
        return f"the public images with SHA-256 {self.digest} hold none of these records"

    def to_dict(self) -> dict[str, Any]:
        """What a job says of them."""
        return {"digest": self.digest, "images": len(self), "classes": self.classes}

    def check(self, shape: Sequence[int], low: float | Sequence[float], high: float | Sequence[float]) -> None:
        """Refuse images that have another number of values than records of this public shape, or leave the range."""
        columns = math.prod(shape)
        if self.x.shape[1] != columns:
            sides = " × ".join(str(int(side)) for side in shape)
            raise DataError(
                f"A public image has {self.x.shape[1]} values, an image of the records {columns} ({sides}): resize "
                "the public images."
            )
        ends = [np.asarray(end, dtype=np.float64) for end in (low, high)]
        # single precision may round a value at the very end of the range beyond it
        slack = 1e-6 * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        if bool((self.x < ends[0] - slack).any() or (self.x > ends[1] + slack).any()):
            raise DataError("Some public images leave the range that is stated of the records: rescale them.")


def _numbers(values: Any, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except Exception:  # whatever an array-like throws
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiub":
        raise DataError(f"The public {what} are not an array of numbers: give whole or real numbers only.")
    if not np.isfinite(array).all():
        raise DataError(f"The public {what} hold values that are missing or infinite: drop or fill in those first.")
    return array


def _labels(y: Any, images: int) -> NDArray[np.int64]:
    labels = _numbers(y, "labels")
    if labels.shape != (images,):
        raise DataError(f"There must be one label per public image: {images} images, labels of shape {labels.shape}.")
    if not (np.all(labels == np.floor(labels)) and labels.min() >= 0 and labels.max() < 1_000_000):
        raise DataError("Some labels of public images are not whole numbers from 0 on: renumber or leave them out.")
    found = labels.astype(np.int64)
    found.setflags(write=False)
    return found


def _digest(x: NDArray[np.float32], y: NDArray[np.int64] | None) -> str:
    seal = hashlib.sha256(f"public images {x.shape} {y is not None}".encode())
    seal.update(x.astype("<f4").tobytes())
    if y is not None:
        seal.update(y.astype("<i8").tobytes())
    return seal.hexdigest()


def check_given(public: Any, shape: Any) -> None:
    """Refuse public images where they have no meaning, and what is no `PublicImages`."""
    if public is None:
        return
    if not shape:
        raise UsageError(
            "Public images are for the method embedding on images: state the shape of the records, or leave them out."
        )
    if not isinstance(public, PublicImages):
        raise UsageError(f"Expected PublicImages, got {type(public).__name__}: make them from arrays.")
