"""How a step chooses its records: one object that both draws the sample and tells the accountant what it drew.

Sampler and accountant cannot disagree, because they are the same object: a mechanism asks it for indices and an
event carries it to the accountant. A shuffled epoch loader is neither of these and has no class here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import check_count, is_number
from privot.errors import DataError, UsageError, brief


class IndexSource(Protocol):
    """Where random indices come from; the barrier's noise source is one."""

    def sample_without_replacement(self, records: int, batch: int) -> NDArray[np.int64]:
        """`batch` distinct indices below `records`, every *ordered* choice equally likely."""
        ...

    def poisson_sample(self, records: int, rate: float) -> NDArray[np.int64]:
        """Each index below `records` on its own with probability `rate`."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Every record takes part independently with probability `rate`; for add/remove neighbours."""

    rate: float

    def __post_init__(self) -> None:
        if not is_number(self.rate) or not 0.0 < self.rate <= 1.0:
            raise UsageError(f"The sampling rate must lie in (0, 1], got {brief(self.rate)}.")

    @property
    def share(self) -> float:
        """The probability q that a given record takes part."""
        return float(self.rate)

    def draw(self, source: IndexSource, records: int) -> NDArray[np.int64]:
        """The indices of one sample; may be empty."""
        return source.poisson_sample(records, self.rate)

    def describe(self) -> str:
        """In words, for a guarantee."""
        return f"Poisson sampling at rate {self.rate:g}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"sampling": "poisson", **asdict(self)}


@dataclass(frozen=True)
class FixedSize:
    """`batch` of `records` records, uniformly, without replacement, *in random order*; for replace-one neighbours.

    The order matters: the amplification theorem couples a sample that holds the changed record with one that holds
    another record *in the same row*. Rows sorted by index would shift against each other, so `draw` returns a
    uniformly random ordered sample.
    """

    batch: int
    records: int

    def __post_init__(self) -> None:
        check_count("The batch", self.batch)
        check_count("The number of records", self.records)
        if self.batch > self.records:
            raise UsageError(f"A batch of {self.batch} cannot be drawn from {self.records} records.")

    @property
    def share(self) -> float:
        """The probability q that a given record takes part."""
        # rounded up: a share one float too small would understate ε
        return min(1.0, math.nextafter(self.batch / self.records, 1.0))

    def draw(self, source: IndexSource, records: int) -> NDArray[np.int64]:
        """The indices of one sample, in random order."""
        if records != self.records:
            raise DataError(f"The sampling was made for {self.records} records, but the data has {records}.")
        return source.sample_without_replacement(self.records, self.batch)

    def describe(self) -> str:
        """In words, for a guarantee."""
        return f"fixed-size sampling without replacement, {self.batch} of {self.records}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"sampling": "fixed-size", **asdict(self)}


Sampling = Poisson | FixedSize


def sampling_from_dict(raw: Mapping[str, Any]) -> Sampling:
    """Read what `to_dict` wrote."""
    values = dict(raw)
    kinds: dict[str, type[Poisson] | type[FixedSize]] = {"poisson": Poisson, "fixed-size": FixedSize}
    name = values.pop("sampling", None)
    if name not in kinds:
        raise DataError(f"Unknown sampling {brief(name)}.")
    return kinds[name](**values)
