"""What a rule of training may know (`Problem`) and what it answers (`Rules`); neither holds a record or a release.

Public are: the columns, the image shape and range, the number of classes, σ (from ε and δ), the device, and the
number of records where replace-one makes it public or the user says it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from privot.common.image_axes import image_axes
from privot.errors import DataError
from privot.synthesis.neural.generators.generator import Segment

ASSUMED_RECORDS = 10_000
"""Assumed where the number of records is private and not stated; it affects sizes only."""
STRONG_SIGNAL = 1_000.0
"""The signal above which a release is more informative than any prior knowledge."""


@dataclass(frozen=True)
class Problem:
    """The public facts a rule may use."""

    dim: int
    classes: int
    sigma: float
    records: int | None
    shape: tuple[int, ...] | None = None
    device: str = "cpu"
    segments: tuple[Segment, ...] | None = None
    common: bool = False
    """Whether a mean of all records is released beside those of the classes."""
    codes: int | None = None
    """The numbers that a public encoder makes of an image; None where none is given."""
    label_codes: int | None = None
    """The same of the encoder that samples are labelled by, where that is another one."""
    leaves: bool = False
    """Whether samples are pictures of leaves with labels that were tuned on records (`has_leaves`)."""

    @property
    def records_a_class(self) -> float:
        """Public, stated or assumed."""
        return (self.records or ASSUMED_RECORDS) / self.classes


@dataclass(frozen=True)
class Rules:
    """Everything training needs besides the release, as plain JSON types."""

    generator: dict[str, Any]
    steps: int
    batch: int
    """Samples per class and step, of every generator that is trained."""
    learning_rate: float
    options: dict[str, Any] = field(default_factory=dict)
    """Options of a single method."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Rules:
        """Read what `to_dict` wrote."""
        try:
            read = cls(
                dict(fields["generator"]),
                int(fields["steps"]),
                int(fields["batch"]),
                float(fields["learning_rate"]),
                dict(fields.get("options", {})),
            )
            if min(read.steps, read.batch) < 1 or not 0.0 < read.learning_rate < math.inf:
                raise ValueError("out of range")
            return read
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"These are not the rules of a training ({type(error).__name__}).") from None


def signal(problem: Problem) -> float:
    """n_c/5σ, the records of a class relative to the noise."""
    return problem.records_a_class / (5.0 * problem.sigma)


def is_image(problem: Problem) -> bool:
    """Whether records are images of at least 16 × 16 pixels."""
    return problem.shape is not None and min(image_axes(problem.shape)[:2]) >= 16
