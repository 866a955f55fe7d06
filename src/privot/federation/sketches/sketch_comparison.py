"""Compares two sketches: distances, intervals, and a test of "no difference". It touches no vault and no record."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from privot.common.declared import declared
from privot.common.html_facts import html_facts
from privot.common.privacy_unit import unit_words
from privot.errors import DataError, UsageError
from privot.federation.sketches.estimating import Reading, Shared
from privot.federation.sketches.signed_sketch import Sketch, same_design
from privot.federation.sketches.sketch_simulation import Null, Side, around, estimates
from privot.federation.wire.messages import Array
from privot.guarantee import Guarantee

LEVEL = 0.05
_METHOD: Literal["weibull"] = "weibull"
"""The k-th of m draws is the quantile k/(m + 1): the probability that another draw lies below it, for any m."""


@dataclass(frozen=True)
class Distance:
    """An estimated distance, its 95 % interval over the privacy noise, and its null level.

    The null level is the value that 95 % of pairs of samples from one distribution stay below at this budget.
    """

    value: float
    interval: tuple[float, float] | None
    null_level: float | None

    def stated(self) -> str:
        """The distance with its interval and its null level, as far as they were simulated."""
        text = f"{self.value:.4g}"
        if self.interval is not None:
            text += f", 95 % over the noise: {self.interval[0]:.4g} to {self.interval[1]:.4g}"
        return text if self.null_level is None else f"{text}; below {self.null_level:.4g} for equal data (95 %)"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "null_level": self.null_level,
        }


@dataclass(frozen=True)
class SketchComparison:
    """The result of `compare_sketches`: distances between the records behind two sketches, and a p-value.

    Attributes
    ----------
    w2, sliced
        W_2 and sliced W_2, each with interval and null level.
    otdd
        The label-aware distance OTDD; None for sketches without labels.
    p_value
        Of the hypothesis that both parties draw from one distribution; None without simulations. With labels the test
        looks for a difference in records, in labels, or in both.
    guarantees
        The guarantees of the two sketches, which the comparison leaves unchanged.
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
        """Whether the p-value is above 5 %, so that the sketches show no difference; None without simulations."""
        return None if self.p_value is None else self.p_value > LEVEL

    def _repr_html_(self) -> str:
        found = [("W₂", self.w2), ("sliced W₂", self.sliced), ("OTDD", self.otdd)]
        privacy = [(f"privacy of {name}", g.stated()) for name, g in zip("AB", self.guarantees, strict=True)]
        units = dict.fromkeys(unit_words(g.unit) for g in self.guarantees)
        return html_facts(
            "Comparison of two sketches",
            [
                *((name, None if distance is None else distance.stated()) for name, distance in found),
                ("p-value", None if self.p_value is None else f"{self.p_value:.3g} (no difference between the two)"),
                *privacy,
                ("unit", f"{'; '.join(units)}; the comparison costs nothing more"),
            ],
        )


@declared(a="privot.federation.sketches.signed_sketch:Sketch", b="privot.federation.sketches.signed_sketch:Sketch")
def compare_sketches(a: Sketch, b: Sketch, *, draws: int = 400) -> SketchComparison:
    """Estimate W_2, sliced W_2 and, with labels, OTDD between the records behind two sketches.

    Intervals and null levels come from simulations of the noise, whose law is public, around the sketches. Under the
    null hypothesis both parties draw from one distribution: histograms are multinomial, and feature means are Gaussian
    with the trace that the shells give, spread over as many directions as public data shows, or over one where there is
    no public data (the heaviest tail that a Gaussian quadratic form of given trace has at this level: Székely & Bakirov
    2003, "Extremal probabilities for Gaussian quadratic forms"). Two tests, of features and of histograms, share the
    5 %; with labels there are four, the same two also class by class. These compare classes of one name: the same
    records under another class name count as a difference here, but not in OTDD.

    Parameters
    ----------
    a, b
        Two sketches of one design, from two releases.
    draws
        Number of simulations: 0 (no interval, no null level, no p-value) or at least 100.

    Returns
    -------
    SketchComparison
        `w2`, `sliced` and `otdd`, each with `value`, `interval` and `null_level`; `p_value`, `guarantees`. `value` is
        the estimate of W_2.

    Raises
    ------
    UsageError
        If `draws` is neither 0 nor at least 100.
    DataError
        If the sketches have different designs, or are copies of one release.

    Formal guarantees
    -----------------
      * post-processing of two releases: no further privacy cost, however often it is called;
      * distances are estimates; the intervals cover the privacy noise and not the sampling of the records.

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Vault
    >>> from privot.federation import sketch
    >>> rows = np.random.default_rng(0).normal(size=(2, 300, 4))
    >>> made = [sketch(Vault(x, clip=3.0, adjacency="replace-one", budget=(5.0, 1e-5)), epsilon=5.0, delta=1e-5)
    ...         for x in rows]
    >>> found = compare_sketches(*made, draws=100)
    >>> found.w2.interval[0] <= found.value <= found.w2.interval[1]
    True
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
    """Estimate OTDD between the records behind two labelled sketches; post-processing, at no privacy cost.

    Raises `DataError` if the sketches were made without labels, or cannot be compared.
    """
    found = compare_sketches(a, b, draws=0).otdd
    if found is None:
        raise DataError(
            "The sketches were made without labels, and OTDD needs labels: make them from a design with classes."
        )
    return found.value


def _root(square: float, most: float) -> float:
    """A distance from its estimated square, cut to the largest distance that public facts allow."""
    return min(math.sqrt(max(square, 0.0)), most)


def _interval(value: float, square: float, moved: Array, most: float) -> tuple[float, float]:
    """The basic bootstrap: quantiles of how far noise moves the estimate on noise-free stand-ins, subtracted from it.

    The estimate is cut at 0 and biased there, so that the interval may miss it. The interval is then extended to the
    estimate, which adds width and never loses coverage.
    """
    low, high = np.quantile(moved, [LEVEL / 2.0, 1.0 - LEVEL / 2.0], method=_METHOD)
    return min(value, _root(square - high, most)), max(value, _root(square - low, most))


def tell_apart(a: Sketch, b: Sketch, draws: int = 1000) -> float:
    """Only the p-value of "both parties draw from one distribution": milliseconds per pair, for many pairs."""
    check_alike(a, b)
    shared = Shared.of(a.public, b.public)
    null = Null([Side(s, shared) for s in (a, b)], _rank(a, b), _generator(a, b))
    return null.p_value(null.draw(draws))


def _rank(a: Sketch, b: Sketch) -> float:
    return min(float(a.public["rank"]), float(b.public["rank"]))


def _generator(a: Sketch, b: Sketch) -> np.random.Generator:
    """A generator seeded by the two sketches: the same comparison gives the same numbers."""
    return np.random.default_rng(np.frombuffer(hashlib.sha256(a.to_bytes() + b.to_bytes()).digest(), dtype="<u4"))


def reading_of(sketch: Sketch, shared: Shared) -> Reading:
    """One sketch as means, over all its classes."""
    return Side(sketch, shared).view().reading


def check_alike(a: Sketch, b: Sketch) -> None:
    """Raise `DataError` unless the sketches have one design and come from two releases."""
    for key, what in (
        ("design", "with different prototypes, radii, seeds or classes"),
        ("dim", "in different dimensions"),
    ):
        if a.public[key] != b.public[key]:
            raise DataError(f"The sketches were made {what}: only sketches of one design can be compared.")
    if not same_design(a.public, b.public):
        raise DataError("The sketches name one design and state two: at least one of them is false.")
    if {n: len(v) for n, v in a.value.items()} != {n: len(v) for n, v in b.value.items()}:
        raise DataError("The sketches have blocks of different shapes: only sketches of one design can be compared.")
    if a.digest() == b.digest():
        # all estimates here assume that the noises of the two sketches are independent
        raise DataError("Both sketches are the same release: compare sketches of two releases.")
