"""Compares two sketches: distances, intervals, and whether they can be told apart at all; it sees no record."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from privot.errors import DataError, UsageError
from privot.federation.sketches.estimating import Reading, Shared
from privot.federation.sketches.signed_sketch import Sketch, same_design
from privot.federation.sketches.sketch_simulation import Null, Side, around, estimates
from privot.federation.wire.messages import Array
from privot.guarantee import Guarantee

LEVEL = 0.05
_METHOD: Literal["weibull"] = "weibull"
"""The k-th of m draws stands at k/(m + 1): the chance that another draw lies below it, however few there are."""


@dataclass(frozen=True)
class Distance:
    """An estimate, its 95 % interval over the privacy noise, and its null level.

    The null level is what 95 % of pairs of samples of one and the same distribution stay below at this budget.
    """

    value: float
    interval: tuple[float, float] | None
    null_level: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "null_level": self.null_level,
        }


@dataclass(frozen=True)
class SketchComparison:
    """What two sketches say: W_2 and sliced W_2 between their records, and the p-value of "no difference".

    With labels there is OTDD too, and the difference that is tested for is one of records, of labels, or of both.
    """

    w2: Distance
    sliced: Distance
    otdd: Distance | None
    p_value: float | None
    guarantees: tuple[Guarantee, Guarantee]

    @property
    def value(self) -> float:
        """The estimate of W_2."""
        return self.w2.value

    @property
    def indistinguishable(self) -> bool | None:
        """Whether two samples of one distribution would look like this in more than 5 % of cases."""
        return None if self.p_value is None else self.p_value > LEVEL


def compare_sketches(a: Sketch, b: Sketch, *, draws: int = 400) -> SketchComparison:
    """Estimate W_2, sliced W_2 and, with labels, OTDD between the records behind two sketches: free of charge.

    Intervals and null levels come from `draws` simulations of the noise, whose law is public, from the sketches
    themselves; 0 leaves them out. Under the null both parties draw from one distribution: histograms are multinomial,
    feature means Gaussian with the trace the shells give, spread over as many directions as public data shows, or
    over one where there is none (the heaviest tail a Gaussian quadratic form of given trace has at this level:
    Székely & Bakirov 2003, "Extremal probabilities for Gaussian quadratic forms"). Two tests, of features and of
    histograms, share the 5 %; with labels four do, the same two class by class as well. Those go by the names of the
    classes: a class that bears another name is a difference, though none to OTDD.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0 or 0 < draws < 100:
        raise UsageError("The number of draws must be 0, or at least 100.")
    check_alike(a, b)
    shared = Shared.of(a.public, b.public)
    sides = [Side(sketch, shared) for sketch in (a, b)]
    views = sides[0].view(), sides[1].view()
    roots = [_root(square, most) for square, most in zip(estimates(*views), shared.most, strict=False)]
    if draws == 0:
        return _comparison(a, b, [Distance(value, None, None) for value in roots], None)
    generator = _generator(a, b)
    null = Null(sides, _rank(a, b), generator)
    drawn = null.draw(draws)
    alike = np.array(
        [
            estimates(*(s.view({n: m[k] for n, m in means.items()}) for s, means in zip(sides, drawn, strict=True)))
            for k in range(draws)
        ]
    )
    moved = around(sides, generator, draws)
    signed = estimates(*views, signed=True)
    distances = [
        Distance(
            value,
            _interval(value, signed[k], moved[:, k], shared.most[k]),
            _root(float(np.quantile(alike[:, k], 1.0 - LEVEL, method=_METHOD)), shared.most[k]),
        )
        for k, value in enumerate(roots)
    ]
    return _comparison(a, b, distances, null.p_value(drawn))


def _comparison(a: Sketch, b: Sketch, distances: list[Distance], p_value: float | None) -> SketchComparison:
    otdd = distances[2] if len(distances) > 2 else None
    return SketchComparison(distances[0], distances[1], otdd, p_value, (a.guarantee, b.guarantee))


def label_distance(a: Sketch, b: Sketch) -> float:
    """OTDD between the records behind two labelled sketches, estimated: post-processing, free of charge."""
    found = compare_sketches(a, b, draws=0).otdd
    if found is None:
        raise DataError("These sketches were made without labels: OTDD needs labelled ones.")
    return found.value


def _root(square: float, most: float) -> float:
    """A distance from its estimated square, cut to what is publicly possible."""
    return min(math.sqrt(max(square, 0.0)), most)


def _interval(value: float, square: float, moved: Array, most: float) -> tuple[float, float]:
    """How far noise moves the estimate from noise-free stand-ins, turned round (the basic bootstrap).

    Turned round it can leave out the estimate itself, which is cut at 0 and biased there: it is then extended to it,
    which costs width and never coverage.
    """
    low, high = np.quantile(moved, [LEVEL / 2.0, 1.0 - LEVEL / 2.0], method=_METHOD)
    return min(value, _root(square - high, most)), max(value, _root(square - low, most))


def tell_apart(a: Sketch, b: Sketch, draws: int = 1000) -> float:
    """The p-value of "both parties draw from one distribution" alone: in milliseconds, for many pairs."""
    check_alike(a, b)
    shared = Shared.of(a.public, b.public)
    null = Null([Side(s, shared) for s in (a, b)], _rank(a, b), _generator(a, b))
    return null.p_value(null.draw(draws))


def _rank(a: Sketch, b: Sketch) -> float:
    return min(float(a.public["rank"]), float(b.public["rank"]))


def _generator(a: Sketch, b: Sketch) -> np.random.Generator:
    """Seeded by the sketches: the same question has the same answer."""
    return np.random.default_rng(np.frombuffer(hashlib.sha256(a.to_bytes() + b.to_bytes()).digest(), dtype="<u4"))


def reading_of(sketch: Sketch, shared: Shared) -> Reading:
    """One sketch as means, over all its classes."""
    return Side(sketch, shared).view().reading


def check_alike(a: Sketch, b: Sketch) -> None:
    """Refuse two sketches that say nothing about each other."""
    for key, what in (("design", "around other prototypes, radii, seeds or classes"), ("dim", "in other dimensions")):
        if a.public[key] != b.public[key]:
            raise DataError(f"The sketches were made {what}: only sketches of one design can be compared.")
    if not same_design(a.public, b.public):
        raise DataError("The sketches name one design and state two: one of them was not made as it says.")
    if {n: len(v) for n, v in a.value.items()} != {n: len(v) for n, v in b.value.items()}:
        raise DataError("The sketches have blocks of different shapes: only sketches of one design can be compared.")
    if a.digest() == b.digest():
        # their noise is the same noise, and everything here takes the noises of two sketches for independent
        raise DataError("Both sketches are one and the same release, which says nothing about a distance.")
