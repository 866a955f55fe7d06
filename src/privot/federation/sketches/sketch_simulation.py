"""Simulates sketches again: how privacy noise and sampling change what is computed from them.

The law of the noise is public, so this is a parametric simulation of released numbers; it touches no record. A labelled
sketch has two of its blocks per class, and everything here is done per class; without labels there is one class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privot.federation.sketches.class_labels import Classes, label_term
from privot.federation.sketches.estimating import MIN_SPREAD, Reading, Shared, estimate, simplex
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.wire.messages import Array
from privot.mechanisms.sketching.private_sketch import noise_deviation

HISTOGRAMS = ("shells", "cells", "residuals")
BY_CLASS = ("features", "shells")
MIN_SHARE, MIN_DEVIATIONS = 0.005, 6.0
"""Classes below this share, or below this many noise deviations, are left out: their means would be noise."""
FAR = 0.1
"""Prior mean of the share of a knot at k times the third knot, times k; for labels, which multiply the noise."""
Means = dict[str, Array]


@dataclass(frozen=True, eq=False)
class View:
    """Means, read as those of all records and, with labels, of the classes."""

    reading: Reading
    classes: Classes | None


def estimates(a: View, b: View, *, signed: bool = False) -> tuple[float, ...]:
    """(W_2², SW_2²) and, with labels, OTDD²; `signed` as in `estimate`."""
    whole, sliced = estimate(a.reading, b.reading, signed=signed)
    if a.classes is None or b.classes is None:
        return whole, sliced
    means = max(0.0, a.reading.means_apart(b.reading))
    return whole, sliced, (whole if signed else max(0.0, whole)) + label_term(a.classes, b.classes, means)


class Side:
    """One sketch as means, block by block and class by class, with methods to simulate it again."""

    def __init__(self, sketch: Sketch, shared: Shared) -> None:
        self.shared, self.records = shared, sketch.records
        self.labelled = bool(sketch.public["classes"])
        self.parts = max(1, sketch.public["classes"])
        self.means: Means = {n: block / self.records for n, block in sketch.value.items()}
        self.deviation = {n: noise_deviation(sketch.public, n) / self.records for n in sketch.value}

    def whole(self, name: str, block: Array) -> Array:
        """A block summed over all classes; leading axes stay."""
        return np.asarray(block.reshape(*block.shape[:-1], self.parts, -1).sum(-2)) if name in BY_CLASS else block

    def _likely(self, name: str, block: Array, deviation: float) -> Array:
        """The most likely histogram, given noise of this deviation.

        Without labels the prior is uniform. Labels multiply the noise in the outermost knots, which weigh most, so
        with labels the share x of a knot k has the prior density ∝ exp(−x k/(FAR k_2)).
        """
        if not self.labelled or name == "cells":
            return simplex(block)
        knots = self.shared.knots
        return simplex(block - np.resize(knots, block.shape) * (deviation**2 / (FAR * knots[min(2, len(knots) - 1)])))

    def histogram(self, name: str, block: Array, deviation: float) -> Array:
        """A noisy block as a histogram per class; summed over classes it is the most likely one of the summed block."""
        whole = self._likely(name, self.whole(name, block), deviation * math.sqrt(self.parts_of(name)))
        if self.parts_of(name) == 1:
            return whole
        table = self._likely(name, block, deviation).reshape(self.parts, -1)
        share, column = table.sum(1, keepdims=True), table.sum(0)
        filled = np.where(column > 0.0, table / np.where(column > 0.0, column, 1.0), share)
        return np.asarray((filled * whole).ravel())

    def parts_of(self, name: str) -> int:
        """The number of classes that a block is split into."""
        return self.parts if name in BY_CLASS else 1

    def view(self, means: Means | None = None, noisy: bool = True) -> View:
        """The view of given means, with or without noise."""
        given = self.means if means is None else means
        noise_on = 1.0 if noisy else 0.0
        hist = {
            n: self.histogram(n, given[n], noise_on * self.deviation[n]) if n in given else None for n in HISTOGRAMS
        }
        shells, noise = hist["shells"], noise_on * self.deviation["features"]
        assert shells is not None
        sums = given["features"].reshape(self.parts, -1)
        kept = self.kept(shells, noisy)
        share = shells.reshape(self.parts, -1).sum(1)[kept]
        # only classes that stand out: the others would add only noise
        scale = 1.0 / float(share.sum())
        features, variance = sums[kept].sum(0) * scale, (noise * scale) ** 2 * len(kept)
        whole = self.whole("shells", shells)
        reading = Reading(self.shared, features, variance, whole, hist["cells"], hist["residuals"], self.records)
        if not self.labelled:
            return View(reading, None)
        size = self.shared.radius * scale
        return View(reading, Classes.of(kept, share * scale, sums[kept] * size, noise * size, reading.spread))

    def kept(self, shells: Array, noisy: bool = True) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Classes that stand out from the noise; if they hold less than half of all records, all that have a share."""
        if not self.labelled:
            return np.zeros(1, dtype=np.int64)
        share = shells.reshape(self.parts, -1).sum(1)
        clear = share >= max(MIN_SHARE, MIN_DEVIATIONS * self.deviation["shells"] * noisy)
        return np.flatnonzero(clear if share[clear].sum() >= 0.5 else share >= min(MIN_SHARE, share.max()))

    def noised(self, means: Means, generator: np.random.Generator) -> Means:
        """Given means with fresh noise of this sketch's size."""
        return {name: m + self.deviation[name] * generator.standard_normal(m.shape) for name, m in means.items()}

    def shrunk(self, features: Array, variance: float, generator: np.random.Generator | None = None) -> Array:
        """Features shrunk by the noise, which has this variance per coordinate: their sum, and classes around it."""
        table = features.reshape(self.parts, -1)
        whole, width = table.sum(0), table.shape[1]
        rest = (table - whole / self.parts).ravel()
        rest = _shrunk(rest, variance, len(rest) - width, generator)
        whole = _shrunk(whole, variance * self.parts, width, generator)
        return np.asarray((rest.reshape(table.shape) + whole / self.parts).ravel())


def _shrunk(vector: Array, variance: float, count: int, generator: np.random.Generator | None) -> Array:
    """`vector` shrunk by the squared length that noise in `count` coordinates adds on average.

    With a generator, the length is drawn from its sampling distribution: ‖v + e‖² − ‖v‖² has the variance
    4s²‖v‖² + 2ks⁴.
    """
    square = float(vector @ vector)
    left = square - count * variance
    if generator is not None:
        left += math.sqrt(4.0 * variance * max(left, 0.0) + 2.0 * count * variance**2) * generator.standard_normal()
    return vector * math.sqrt(max(0.0, left) / square) if square > 0.0 else vector


def noise_free(side: Side) -> Means:
    """Plausible noise-free histograms behind a sketch, of the classes that stand out from the noise."""
    means = {n: side.histogram(n, m, side.deviation[n]) for n, m in side.means.items() if n != "features"}
    table = means["shells"].reshape(side.parts, -1)
    there = np.zeros_like(table)
    there[side.kept(means["shells"])] = 1.0
    return {**means, "shells": (table * there / (table * there).sum()).ravel()}


class _StandIns:
    """Plausible noise-free sketches behind two noisy ones."""

    def __init__(self, sides: list[Side]) -> None:
        self.sides = sides
        self.histograms: list[Means] = [noise_free(side) for side in sides]

    def make(self, generator: np.random.Generator | None) -> list[Means]:
        """One pair: the most likely one or, with a generator, one drawn from the uncertainty that noise leaves."""
        first, second = self.sides
        variance = first.deviation["features"] ** 2 + second.deviation["features"] ** 2
        a, b = first.means["features"], second.means["features"]
        middle = first.shrunk((a + b) / 2.0, variance / 4.0, generator)
        half = first.shrunk(a - b, variance, generator) / 2.0
        out = []
        for features, means in zip((middle + half, middle - half), self.histograms, strict=True):
            there = means["shells"].reshape(first.parts, -1).sum(1, keepdims=True) > 0.0
            out.append({"features": (features.reshape(first.parts, -1) * there).ravel(), **means})
        return out


def around(sides: list[Side], generator: np.random.Generator, draws: int) -> Array:
    """How far noise moves the estimates: `draws` noisy sketches minus noise-free stand-ins, (draws, estimates).

    Without labels one pair of stand-ins is enough. The label term is shrunk by as much as noise hides, and is wrong by
    as much as was hidden: so with labels each draw has its own stand-ins. Lengths cannot be negative, which puts the
    classes of stand-ins further apart than the estimate does; so only the fluctuation of the label term is used.

    Estimates are signed: if they were cut at 0, noise could move those on coinciding stand-ins only upwards, and the
    bootstrap interval would lie on the wrong side.
    """
    stand_ins, labelled = _StandIns(sides), sides[0].labelled
    drawn = stand_ins.make(None)
    clean = estimates(*(s.view(m, noisy=False) for s, m in zip(sides, drawn, strict=True)), signed=True)
    rows = []
    for _ in range(draws):
        if labelled:
            drawn = stand_ins.make(generator)
            clean = estimates(*(s.view(m, noisy=False) for s, m in zip(sides, drawn, strict=True)), signed=True)
        noisy = estimates(*(s.view(s.noised(m, generator)) for s, m in zip(sides, drawn, strict=True)), signed=True)
        rows.append([one - other for one, other in zip(noisy, clean, strict=True)])
    moved = np.array(rows)
    if labelled:
        added = moved[:, 2] - moved[:, 0]
        moved[:, 2] = moved[:, 0] + added - np.median(added)
    return moved


class Null:
    """The null hypothesis: simulated sketches of two parties that draw from one distribution, the pooled one.

    Joint histograms of class and knot are multinomial. A class's sum of features has the pooled mean of the class for
    each of its records, and Gaussian fluctuations with the trace that shells leave within classes.
    """

    def __init__(self, sides: list[Side], rank: float, generator: np.random.Generator) -> None:
        first, second = self.sides = sides
        self.generator = generator
        total = first.records + second.records
        share = first.records / total, second.records / total
        pooled = {n: share[0] * first.means[n] + share[1] * second.means[n] for n in first.means}
        noise = {n: sum((w * s.deviation[n]) ** 2 for w, s in zip(share, sides, strict=True)) for n in pooled}
        self.pooled = {
            n: first.shrunk(m, noise[n]) if n == "features" else first.histogram(n, m, math.sqrt(noise[n]))
            for n, m in pooled.items()
        }
        self.centres, spread = self._within()
        width = self.centres.shape[1]
        self.directions = max(1, min(width, int(rank)))
        frame, _ = np.linalg.qr(generator.standard_normal((width, self.directions)))
        self.frame = frame * math.sqrt(spread / self.directions)
        self.levels: list[Callable[[str, Array], Array]] = [first.whole]
        if first.parts > 1:
            self.levels.append(lambda _, block: block)
        self.scale = [{n: self._variance(n, level) for n in pooled if n != "features"} for level in self.levels]

    def _within(self) -> tuple[Array, float]:
        """The mean of each class, cut to the unit ball that features lie in, and the trace within classes."""
        first = self.sides[0]
        sums = self.pooled["features"].reshape(first.parts, -1)
        share = self.pooled["shells"].reshape(first.parts, -1).sum(1)
        whole = sums.sum(0)
        known = share >= MIN_SHARE
        centres = np.where(known[:, None], sums / np.where(known, share, 1.0)[:, None], whole)
        centres = centres / np.maximum(1.0, np.linalg.norm(centres, axis=1, keepdims=True))
        spread = first.view(self.pooled, noisy=False).reading.spread / first.shared.radius**2
        between = float(share @ ((centres - whole) ** 2).sum(1))
        return centres, max(spread - between, MIN_SPREAD * spread)

    def _variance(self, name: str, level: Callable[[str, Array], Array]) -> Array:
        """The variance of the gap between two histograms, per coordinate."""
        pooled = level(name, self.pooled[name])
        added = self.sides[0].parts_of(name) if len(pooled) < len(self.pooled[name]) else 1
        return np.asarray(sum(added * s.deviation[name] ** 2 + pooled * (1.0 - pooled) / s.records for s in self.sides))

    def draw(self, draws: int) -> list[Means]:
        """Noisy means of both sides, each block of shape (draws, coordinates)."""
        out = []
        for side in self.sides:
            count = max(1, round(side.records))
            means: Means = {
                n: self.generator.multinomial(count, self.pooled[n] / self.pooled[n].sum(), draws) / count
                for n in self.pooled
                if n != "features"
            }
            share = means["shells"].reshape(draws, side.parts, -1).sum(-1)[..., None]
            moved = self.generator.standard_normal((draws, side.parts, self.directions)) @ self.frame.T
            features = share * self.centres + moved * np.sqrt(share / side.records)
            means["features"] = features.reshape(draws, -1)
            out.append(side.noised(means, self.generator))
        return out

    def statistics(self, means: list[Means]) -> Array:
        """The test statistics, overall and per class: squared gaps of features, and of histograms over variances."""
        rows = []
        for level, scale in zip(self.levels, self.scale, strict=True):
            gap = {n: level(n, means[0][n]) - level(n, means[1][n]) for n in self.pooled}
            rows += [(gap["features"] ** 2).sum(-1), sum((gap[n] ** 2 / scale[n]).sum(-1) for n in scale)]
        return np.array(rows)

    def p_value(self, drawn: list[Means]) -> float:
        """The probability of gaps this large under the null: the smallest p-value times the number of tests."""
        seen = self.statistics([s.means for s in self.sides])
        beyond = (self.statistics(drawn) >= seen[:, None]).mean(1)
        count = len(drawn[0]["features"])
        return float(min(1.0, len(seen) * (1.0 + count * beyond.min()) / (1.0 + count)))
