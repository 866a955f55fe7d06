"""Compares two sketches: distances, intervals, and whether they can be told apart at all; it sees no record."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privot.errors import DataError, UsageError
from privot.federation.estimating import Reading, Shared, estimate, simplex
from privot.federation.messages import Array
from privot.federation.sketching import Sketch, same_design
from privot.guarantee import Guarantee
from privot.mechanisms.sketch import noise_deviation

LEVEL = 0.05
HISTOGRAMS = ("shells", "cells", "residuals")
BY_CLASS = ("features", "shells")


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
class Comparison:
    """What two sketches say: W_2 and sliced W_2 between their records, and the p-value of "no difference"."""

    w2: Distance
    sliced: Distance
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


def compare_sketches(a: Sketch, b: Sketch, *, draws: int = 400) -> Comparison:
    """Estimate W_2 and sliced W_2 between the records behind two sketches: post-processing, free of charge.

    Intervals and null levels come from `draws` simulations of the noise, whose law is public, from the sketches
    themselves; 0 leaves them out. Under the null both parties draw from one distribution: histograms are multinomial,
    feature means Gaussian with the trace the shells give, spread over as many directions as public data shows, or
    over one where there is none (the heaviest tail a Gaussian quadratic form of given trace has at this level:
    Székely & Bakirov 2003, "Extremal probabilities for Gaussian quadratic forms"). Two tests, of features and of
    histograms, share the 5 %.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0 or 0 < draws < 100:
        raise UsageError("The number of draws must be 0, or at least 100.")
    check_alike(a, b)
    shared = Shared.of(a.public)
    sides = [_Side(sketch, shared) for sketch in (a, b)]
    whole, sliced = estimate(sides[0].read(), sides[1].read())
    guarantees = (a.guarantee, b.guarantee)
    if draws == 0:
        return Comparison(_plain(whole), _plain(sliced), None, guarantees)
    generator = _generator(a, b)
    null = _Null(sides, _rank(a, b), generator)
    drawn = null.draw(draws)
    p_value = null.p_value(drawn)
    alike = np.array(
        [
            estimate(*(s.read({n: m[k] for n, m in means.items()}) for s, means in zip(sides, drawn, strict=True)))
            for k in range(draws)
        ]
    )
    noise_free, simulated = _around(sides, generator, draws)
    distances = [
        Distance(
            math.sqrt(max(value, 0.0)),
            _interval(value, noise_free[k], simulated[:, k]),
            math.sqrt(max(0.0, float(np.quantile(alike[:, k], 1.0 - LEVEL)))),
        )
        for k, value in enumerate((whole, sliced))
    ]
    return Comparison(distances[0], distances[1], p_value, guarantees)


class _Side:
    """One sketch as means, able to be drawn again."""

    def __init__(self, sketch: Sketch, shared: Shared) -> None:
        self.shared, self.records = shared, sketch.records
        # over all classes: the noise of as many blocks adds up
        parts = {n: max(1, sketch.public["classes"]) if n in BY_CLASS else 1 for n in sketch.value}
        self.means: dict[str, Array] = {
            n: block.reshape(parts[n], -1).sum(0) / self.records for n, block in sketch.value.items()
        }
        self.deviation = {
            n: noise_deviation(sketch.public, n) / self.records * math.sqrt(parts[n]) for n in sketch.value
        }

    def read(self, means: dict[str, Array] | None = None, noisy: bool = True) -> Reading:
        """Means, noisy or not, as a reading."""
        given = self.means if means is None else means
        hist = {name: simplex(given[name]) if name in given else None for name in HISTOGRAMS}
        shells = hist["shells"]
        assert shells is not None
        noise = self.deviation["features"] ** 2 if noisy else 0.0
        return Reading(self.shared, given["features"], noise, shells, hist["cells"], hist["residuals"], self.records)

    def noised(self, means: dict[str, Array], generator: np.random.Generator) -> dict[str, Array]:
        """Fresh noise of this sketch's size on given means."""
        return {name: m + self.deviation[name] * generator.standard_normal(m.shape) for name, m in means.items()}


def _plain(square: float) -> Distance:
    return Distance(math.sqrt(max(square, 0.0)), None, None)


def _shrunk(vector: Array, noise: float) -> Array:
    """`vector` shortened by the squared length that noise of this total variance adds on average."""
    square = float(vector @ vector)
    return vector * math.sqrt(max(0.0, square - noise) / square) if square > 0.0 else vector


def _interval(value: float, noise_free: float, simulated: Array) -> tuple[float, float]:
    """What noise does to the estimate around a noise-free stand-in, turned round (the basic bootstrap)."""
    low, high = np.quantile(simulated - noise_free, [0.025, 0.975])
    return math.sqrt(max(0.0, value - high)), math.sqrt(max(0.0, value - low))


def _around(sides: list[_Side], generator: np.random.Generator, draws: int) -> tuple[tuple[float, float], Array]:
    """The estimate on noise-free stand-ins for both sketches, and on `draws` noisy versions of those."""
    first, second = sides
    k = len(first.means["features"])
    variance = k * (first.deviation["features"] ** 2 + second.deviation["features"] ** 2)
    middle = _shrunk((first.means["features"] + second.means["features"]) / 2.0, variance / 4.0)
    half = _shrunk(first.means["features"] - second.means["features"], variance) / 2.0
    stand_ins = []
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        means = {name: simplex(m) for name, m in side.means.items() if name != "features"}
        stand_ins.append({"features": middle + sign * half, **means})
    noise_free = estimate(*(s.read(m, noisy=False) for s, m in zip(sides, stand_ins, strict=True)))
    rows = []
    for _ in range(draws):
        rows.append(estimate(*(s.read(s.noised(m, generator)) for s, m in zip(sides, stand_ins, strict=True))))
    return noise_free, np.array(rows)


class _Null:
    """Both parties draw from one distribution, the pooled one: what their sketches would then look like."""

    def __init__(self, sides: list[_Side], rank: float, generator: np.random.Generator) -> None:
        first, second = self.sides = sides
        self.generator = generator
        total = first.records + second.records
        share = first.records / total, second.records / total
        pooled = {n: share[0] * first.means[n] + share[1] * second.means[n] for n in first.means}
        k = len(pooled["features"])
        noise = k * sum((w * s.deviation["features"]) ** 2 for w, s in zip(share, sides, strict=True))
        self.pooled = {n: _shrunk(m, noise) if n == "features" else simplex(m) for n, m in pooled.items()}
        spread = first.read(self.pooled, noisy=False).spread / first.shared.radius**2
        self.directions = max(1, min(k, int(rank)))
        frame, _ = np.linalg.qr(generator.standard_normal((k, self.directions)))
        self.frame = frame * math.sqrt(spread / self.directions)
        self.scale = {
            n: sum(s.deviation[n] ** 2 + self.pooled[n] * (1.0 - self.pooled[n]) / s.records for s in sides)
            for n in pooled
            if n != "features"
        }

    def draw(self, draws: int) -> list[dict[str, Array]]:
        """Noisy means of both sides, each block of shape (draws, coordinates)."""
        out = []
        for side in self.sides:
            count = max(1, round(side.records))
            means: dict[str, Array] = {
                n: self.generator.multinomial(count, self.pooled[n] / self.pooled[n].sum(), draws) / count
                for n in self.scale
            }
            moved = self.generator.standard_normal((draws, self.directions)) @ self.frame.T
            means["features"] = self.pooled["features"] + moved / math.sqrt(side.records)
            out.append(side.noised(means, self.generator))
        return out

    def statistics(self, means: list[dict[str, Array]]) -> Array:
        """Of features and of histograms, (2, …): squared gaps, those of histograms over their variance."""
        gap = {n: means[0][n] - means[1][n] for n in self.pooled}
        histograms = sum((gap[n] ** 2 / self.scale[n]).sum(-1) for n in self.scale)
        return np.array([(gap["features"] ** 2).sum(-1), histograms])

    def p_value(self, drawn: list[dict[str, Array]]) -> float:
        """How often both parties' being one would look at least this different; two tests, so twice the smaller."""
        seen = self.statistics([s.means for s in self.sides])
        beyond = (self.statistics(drawn) >= seen[:, None]).mean(1)
        count = len(drawn[0]["features"])
        return float(min(1.0, 2.0 * (1.0 + count * beyond.min()) / (1.0 + count)))


def tell_apart(a: Sketch, b: Sketch, draws: int = 1000) -> float:
    """The p-value of "both parties draw from one distribution" alone: in milliseconds, for many pairs."""
    check_alike(a, b)
    shared = Shared.of(a.public)
    null = _Null([_Side(s, shared) for s in (a, b)], _rank(a, b), _generator(a, b))
    return null.p_value(null.draw(draws))


def _rank(a: Sketch, b: Sketch) -> float:
    return min(float(a.public["rank"]), float(b.public["rank"]))


def _generator(a: Sketch, b: Sketch) -> np.random.Generator:
    """Seeded by the sketches: the same question has the same answer."""
    return np.random.default_rng(np.frombuffer(hashlib.sha256(a.to_bytes() + b.to_bytes()).digest(), dtype="<u4"))


def reading_of(sketch: Sketch, shared: Shared) -> Reading:
    """One sketch as means, over all its classes."""
    return _Side(sketch, shared).read()


def check_alike(a: Sketch, b: Sketch) -> None:
    """Refuse two sketches that say nothing about each other."""
    for key, what in (("design", "around other prototypes, radii, seeds or classes"), ("dim", "in other dimensions")):
        if a.public[key] != b.public[key]:
            raise DataError(f"The sketches were made {what}: only sketches of one design can be compared.")
    if not same_design(a.public, b.public):
        raise DataError("The sketches name one design and state two: one of them was not made as it says.")
    if {n: len(v) for n, v in a.value.items()} != {n: len(v) for n, v in b.value.items()}:
        raise DataError("The sketches have blocks of different shapes: only sketches of one design can be compared.")
