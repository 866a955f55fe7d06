"""Records that are numbers: vectors, and images as rows of their pixels; what is stated of them before one is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from privot.common.arguments import check_file_name
from privot.data.loading import load
from privot.data.stated_facts import StatedFacts
from privot.errors import DataError, UsageError
from privot.kinds.kind import Kind, Read, Span
from privot.kinds.record_places import Files


@dataclass(frozen=True)
class Vectors(Kind):
    """Rows of numbers.

    Parameters
    ----------
    classes
        The number of classes, or their names in the order of their numbers; 0 leaves labels out. It may be left out
        only where there are no labels.
    clip
        The bound on the norm of a row: public and stated, never estimated.
    low, high
        The public range of values, where a job needs one. One number, or one per column.
    columns
        The names of the columns, in order. A file with a header names its own.
    width
        The number of columns, which only partitioned arrays need.

    Examples
    --------
    >>> Vectors(classes=3, clip=2.0).count
    3
    """

    name: ClassVar[str] = "vectors"

    classes: int | Sequence[str] | None = None
    clip: float | None = None
    low: Span = 0.0
    high: Span = 1.0
    columns: tuple[Any, ...] = ()
    width: int | None = None

    def __post_init__(self) -> None:
        stated = self.stated
        object.__setattr__(self, "classes", stated.classes)
        for end in ("low", "high"):
            # plain numbers, which are compared and written as they are
            object.__setattr__(self, end, _plain(np.asarray(getattr(self, end), dtype=np.float64).tolist()))

    @property
    def row_shape(self) -> tuple[int, ...] | None:
        """The shape of one record as arrays hold it, where it is stated."""
        return self.shape if self.width is None else (self.width,)

    @property
    def plain(self) -> bool:
        """Whether nothing is stated but what a vault's facts say too."""
        return (self.low, self.high, self.class_names) == (0.0, 1.0, None)

    @property
    def stated(self) -> StatedFacts:
        """What a reader of files is told."""
        return StatedFacts(self.classes, self.shape)  # type: ignore[arg-type]

    @property
    def count(self) -> int | None:
        """The number of classes; None where labels are left out."""
        return self.stated.count

    @property
    def class_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The names of the classes, where they are stated."""
        return self.classes if isinstance(self.classes, tuple) else None

    def at(self, data: Any) -> Self:
        """The same kind as it is read at `data`: the classes of a folder have names, which are their numbers' else."""
        folder = str(data) != "digits" and isinstance(data, str | Path) and Path(data).is_dir()
        return replace(self, classes=self.stated.names) if folder and self.classes else self

    def unlabelled(self) -> Self:
        """The same records without their labels."""
        return replace(self, classes=None)

    def read(self, files: Files, unit: str | None = None) -> Read:
        """Rows and labels of a file, or of a folder of images by class."""
        path = files.data
        check_file_name(path, "the name of a file or folder (a DataFrame needs a schema, an array is Vault(x, …))")
        name, told = Path(path).name, self.stated
        if str(path) != "digits" and Path(path).is_dir():
            # a folder says neither before its first record, and no record may say it
            if told.classes is None:
                raise UsageError(
                    f"{name!r} is a folder of images, and the names of its classes are public: state them as classes, "
                    "or 0 to leave labels out."
                )
            if told.shape is None:
                raise UsageError(f"{name!r} is a folder of images, and their shape is public: state it as shape.")
        held = load(path, files.part, classes=told.classes, shape=told.shape, unit=unit, unit_file=files.unit_file)
        if held.y is not None and told.classes is None:
            raise UsageError(
                f"{name!r} holds labels, and the number of classes is public: state it as classes, or 0 to leave "
                "labels out."
            )
        kind = self.at(path)
        if held.y is None and kind.classes:
            kind = replace(kind, classes=None)
        return Read(held.x, held.y, replace(kind, columns=kind.columns or held.columns or ()), held.units)

    def described(self, classes: int | None, clip: float) -> Self:
        """The same kind with the number of classes and the clip of what a vault holds."""
        if classes is not None and self.count not in (None, classes):
            raise UsageError(f"Labels of {classes} classes are not those of a kind with {self.count}: state them once.")
        named = self.classes if self.class_names is not None and classes is not None else classes
        return replace(self, classes=named, clip=clip)

    def to_params(self) -> dict[str, Any]:
        """What the files of a job say of the kind."""
        return {
            "shape": None if self.shape is None else list(self.shape),
            "low": _listed(self.low),
            "high": _listed(self.high),
            "codec": None,
            "class_names": None if self.class_names is None else list(self.class_names),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The kind that a schema file, or `to_params`, describes; the names of its classes stand for the classes."""
        named, held = fields.get("class_names"), {n: fields[n] for n in ("low", "high", "clip") if n in fields}
        if named is not None and not (isinstance(named, list) and all(isinstance(text, str) for text in named)):
            raise DataError("The class names of a synthesis must be a list of texts.")
        if (shape := fields.get("shape")) is not None:
            if not isinstance(shape, list) or not all(type(side) is int for side in shape):
                raise DataError("The shape of a synthesis must be a list of whole numbers.")
            held["shape"] = tuple(shape)
        return cls(classes=fields.get("classes") if named is None else tuple(named), **held)


@dataclass(frozen=True)
class Images(Vectors):
    """Images, as rows of their pixels.

    Parameters
    ----------
    shape
        The public shape of one image, (height, width), (height, width, channels) or (channels, height, width); its
        product is the number of columns.
    classes, clip, low, high
        As for `Vectors`; the range is that of a pixel. Of a folder `classes` are the names of its sub-folders.

    Examples
    --------
    >>> Images((28, 28), classes=10, clip=1.0, high=255.0).dim
    784
    """

    name: ClassVar[str] = "images"

    shape: tuple[int, ...] = ()

    def __init__(
        self,
        shape: Sequence[int],
        classes: int | Sequence[str] | None = None,
        clip: float | None = None,
        low: Span = 0.0,
        high: Span = 1.0,
        columns: tuple[Any, ...] = (),
        width: None = None,
    ) -> None:
        sides = tuple(int(side) for side in shape)
        if not sides:
            raise UsageError("The shape of an image is (height, width) or (height, width, channels).")
        object.__setattr__(self, "shape", sides)
        super().__init__(classes, clip, low, high, columns)

    @property
    def dim(self) -> int:
        """The number of pixels, each channel counted."""
        return math.prod(self.shape)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
