"""What is stated about a file before it is read: class names and image shape; it never looks at a record.

A reader turns each record into a row by that record and these facts alone, so that records cannot change how others
are read (docs/concepts/readers.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privot.errors import UsageError

MAX_CLASSES = 100_000
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""The mode of an image with this many values per pixel."""


@dataclass(frozen=True)
class StatedFacts:
    """Public facts about a file.

    `classes`: None reads labels as they are; 0 (or no names) leaves labels out; N says that labels are 0 … N − 1; names
    say which sub-folder of a folder of images is class 0, 1, …. `shape` is the shape of one image, (height, width) or
    (height, width, channels).

    >>> StatedFacts(("rare", "common")).count
    2
    >>> StatedFacts(3).names
    ('0', '1', '2')
    """

    classes: int | tuple[str, ...] | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", _checked_classes(self.classes))
        object.__setattr__(self, "shape", _checked_shape(self.shape))

    @property
    def labels(self) -> bool:
        """Whether labels are read."""
        return self.classes != 0

    @property
    def count(self) -> int | None:
        """The number of classes; None where labels are left out or nothing is stated."""
        return (len(self.classes) if isinstance(self.classes, tuple) else self.classes) or None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the classes, which are the numbers 0 … N − 1 where only N is stated."""
        if isinstance(self.classes, tuple):
            return self.classes
        return tuple(map(str, range(self.classes))) if self.classes else None


def _checked_classes(classes: object) -> int | tuple[str, ...] | None:
    """0 for no labels, a number of classes, or their names; refuses anything else."""
    if classes is None:
        return None
    if isinstance(classes, int) and not isinstance(classes, bool):
        if not 0 <= classes <= MAX_CLASSES:
            raise UsageError(f"The number of classes must be from 0 to {MAX_CLASSES}, got {classes}.")
        return classes
    if isinstance(classes, str) or not isinstance(classes, Sequence) or not all(isinstance(n, str) for n in classes):
        raise UsageError("The classes are stated as a number, or as a list of names.")
    names = tuple(classes)
    if len(names) > MAX_CLASSES:
        raise UsageError(f"There can be at most {MAX_CLASSES} classes, got {len(names)} names.")
    if not all(name and name == name.strip() and not name.startswith(".") and "/" not in name for name in names):
        raise UsageError("A class name is the name of a sub-folder: not empty, not hidden, no space at either end.")
    if len(set(names)) != len(names):
        raise UsageError("Two classes have the same name: state every class once.")
    return names or 0


def _checked_shape(shape: object) -> tuple[int, ...] | None:
    if shape is None:
        return None
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise UsageError("The shape of an image is (height, width) or (height, width, channels).")
    sizes = tuple(shape)
    if not sizes or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in sizes):
        raise UsageError("The shape of an image consists of whole numbers of at least 1.")
    return sizes
