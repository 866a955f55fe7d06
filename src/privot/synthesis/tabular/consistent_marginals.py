"""Makes the noisy marginals of a release agree with each other; it sees a release and nothing else.

A release holds the same number many times: the number of records of class y in group a of column i follows from the
fine counts and from every pair that contains i. Averaging with weights 1/variance, and then spreading the remaining
difference evenly over the cells of each pair, is the least-squares solution for independent noise, up to the order in
which constraints are met (Hay, Rastogi, Miklau & Suciu 2010; Qardaji, Yang & Li 2014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.mechanisms.table_counts.cell_grouping import nearest_counts
from privot.release import Release

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimates:
    """The contents of a release of a table, in shares of its `records`.

    `fine[i]`: share in each fine cell of column i. `groups[i]`: the group of each fine cell. `by_label[i]`: (groups,
    classes), `spread[i]` the noise deviation of its cells, in records. `pairs[i, j]`, i < j: (groups of i, groups of j,
    classes or 1), with noise deviation `pair_spread[i, j]`, in records. Without labels there is one class.
    """

    records: float
    classes: int
    fine: list[Floats]
    groups: list[NDArray[np.int64]]
    by_label: list[Floats]
    spread: list[Floats]
    pairs: dict[tuple[int, int], Floats]
    pair_spread: dict[tuple[int, int], float]

    @property
    def columns(self) -> int:
        """How many columns there are, the label aside."""
        return len(self.fine)

    @property
    def label(self) -> Floats:
        """The share of each class."""
        out: Floats = self.by_label[0].sum(axis=0)
        return out

    def one(self, i: int) -> Floats:
        """The share of each group of column i."""
        out: Floats = self.by_label[i].sum(axis=1)
        return out

    def two(self, i: int, j: int) -> Floats:
        """The shares of groups of i (rows) and j (columns) together."""
        table: Floats = self.pairs[min(i, j), max(i, j)].sum(axis=2)
        return table if i < j else table.T

    def two_spread(self, i: int, j: int) -> float:
        """The noise deviation of a cell of `two`, in records."""
        pair = min(i, j), max(i, j)
        return self.pair_spread[pair] * float(self.pairs[pair].shape[2] ** 0.5)

    def dependence(self) -> Floats:
        """How far each pair of columns is from independence, noise subtracted: χ² in records, (columns, columns)."""
        out = np.zeros((self.columns, self.columns))
        for i, j in self.pairs:
            expected = self.records * np.outer(self.one(i), self.one(j))
            # rows and columns were made to agree, which removes their share of the noise
            spread = self.two_spread(i, j)
            left = spread**2 * (1.0 - 1.0 / expected.shape[0]) * (1.0 - 1.0 / expected.shape[1])
            excess = (self.records * self.two(i, j) - expected) ** 2 - left
            out[i, j] = out[j, i] = float((excess / np.maximum(expected, max(spread, 1.0))).sum())
        return out


def estimate(release: Release) -> Estimates:
    """Read a release of `GroupedMarginals` or `ScoredMarginals` and make its marginals agree."""
    return estimate_parts(release.value, release.public)


def estimate_parts(value: Any, public: Mapping[str, Any]) -> Estimates:
    """The same, from the value of a release."""
    try:
        classes = int(public["classes"] or 1)
        raw = _unpack(value["fine"], [[s[0], classes] for s in public["fine"]["shapes"]])
        sd = float(public["fine"]["scales"][0])
        groups = _split(np.asarray(value["groups"], dtype=np.int64), [len(table) for table in raw])
        sets = [tuple(s[:2]) for s in public["pairs"]["sets"]] if "pairs" in public else []
        shapes = [[*s[:2], s[2] if len(s) > 2 else 1] for s in public["pairs"]["shapes"]] if sets else []
        tables = _unpack(value["pairs"], shapes) if sets else []
        scales = [float(scale) for scale in public["pairs"]["scales"]] if sets else []
        spread = {(int(i), int(j)): scale for (i, j), scale in zip(sets, scales, strict=True)}
        pairs = {(int(i), int(j)): table for (i, j), table in zip(sets, tables, strict=True)}
    except (KeyError, TypeError, ValueError, IndexError):
        raise DataError("This is not a release of a table's marginals.") from None
    return _agree(raw, sd, groups, pairs, spread)


def _split(flat: NDArray[np.int64], lengths: list[int]) -> list[NDArray[np.int64]]:
    if flat.shape != (sum(lengths),):
        raise ValueError
    return list(np.split(flat, np.cumsum(lengths)[:-1]))


def _unpack(flat: Floats, shapes: list[list[int]]) -> list[Floats]:
    lengths = [int(np.prod(shape)) for shape in shapes]
    if flat.shape != (sum(lengths),):
        raise ValueError
    return [part.reshape(shape) for part, shape in zip(np.split(flat, np.cumsum(lengths)[:-1]), shapes, strict=True)]


def _agree(
    raw: list[Floats],
    sd: float,
    groups: list[NDArray[np.int64]],
    pairs: dict[tuple[int, int], Floats],
    pair_sd: dict[tuple[int, int], float],
) -> Estimates:
    classes = raw[0].shape[1]
    sizes = [int(g.max()) + 1 for g in groups]
    best: list[Floats] = []
    variance: list[Floats] = []
    for i, table in enumerate(raw):
        counts: Floats = np.stack([np.bincount(groups[i], table[:, y], sizes[i]) for y in range(classes)], axis=1)
        noise: Floats = sd**2 * np.bincount(groups[i], minlength=sizes[i])[:, None] * np.ones(classes)
        for (a, b), pair in pairs.items():
            if i in (a, b):
                counts, noise = _combine(
                    counts, noise, pair.sum(axis=1 if i == a else 0), pair_sd[a, b] ** 2 * sizes[a + b - i]
                )
        best.append(counts)
        variance.append(noise)
    total = _shared_totals(best, variance)
    records = float(total.sum())
    for i, (counts, noise) in enumerate(zip(best, variance, strict=True)):
        moved = counts + (total - counts.sum(axis=0)) * noise / noise.sum(axis=0)
        best[i] = np.stack([_with_total(moved[:, y], total[y]) for y in range(classes)], axis=1)
    for (i, j), pair in pairs.items():
        left, right = (best[i], best[j]) if pair.shape[2] == classes else (_one_class(best[i]), _one_class(best[j]))
        flat = pair + (left[:, None, :] - pair.sum(axis=1, keepdims=True)) / sizes[j]
        pairs[i, j] = (flat + (right[None] - flat.sum(axis=0, keepdims=True)) / sizes[i]) / records
    fine = [nearest_counts(table.sum(axis=1)) for table in raw]
    return Estimates(
        records,
        classes,
        [f / f.sum() for f in fine],
        groups,
        [b / records for b in best],
        [np.sqrt(v) for v in variance],
        pairs,
        pair_sd,
    )


def _combine(counts: Floats, noise: Floats, other: Floats, variance: float) -> tuple[Floats, Floats]:
    """The average of two independent estimates, weights 1/variance; `other` may be summed over the classes."""
    if other.shape[1] == counts.shape[1]:
        weight = noise / (noise + variance)
        return counts + weight * (other - counts), noise * variance / (noise + variance)
    whole = noise.sum(axis=1, keepdims=True)
    gap = (other - counts.sum(axis=1, keepdims=True)) / (whole + variance)
    # a Kalman update with a measurement of the sum; the covariance it makes between classes is left out
    return counts + noise * gap, noise * (1.0 - noise / (whole + variance))


def _shared_totals(best: list[Floats], variance: list[Floats]) -> Floats:
    """The number of records of each class, from all columns, none below one record."""
    weights = [1.0 / v.sum(axis=0) for v in variance]
    average = sum(w * b.sum(axis=0) for w, b in zip(weights, best, strict=True)) / sum(weights)
    return np.maximum(np.asarray(average, dtype=np.float64), 1.0)


def _with_total(counts: Floats, total: float) -> Floats:
    """No negative cell, every group still possible, and the given total."""
    kept = nearest_counts(counts) + 1e-3 * total / len(counts) ** 2
    out: Floats = kept * (total / kept.sum())
    return out


def _one_class(table: Floats) -> Floats:
    out: Floats = table.sum(axis=1, keepdims=True)
    return out
