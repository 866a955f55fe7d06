"""Makes the noisy marginals of a release agree with each other; it sees a release and nothing else.

A release holds the same number many times: the number of records in group a of column i follows from the fine counts,
from the counts by class and from every pair that contains i. Averaging with weights 1/variance, and then spreading the
remaining difference evenly over the cells of each pair, is the least-squares solution for independent noise, up to the
order in which constraints are met (Hay, Rastogi, Miklau & Suciu 2010; Qardaji, Yang & Li 2014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.mechanisms.table_counts.cell_grouping import nearest_counts
from privot.release import Release

Floats = NDArray[np.float64]
_SCALINGS = 200
"""Alternate scalings of rows and columns; the error shrinks geometrically."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """The contents of a release of a table, in shares of its `records`.

    `fine[i]`: noisy counts of the fine cells of column i, as they were released, with noise deviation `fine_spread`, in
    records. `groups[i]`: the group of each fine cell. `by_label[i]`: (groups, classes), `spread[i]` the noise deviation
    of its cells, in records, `label_spread` that of the number of records per class. `pairs[i, j]`, i < j: (groups of
    i, groups of j, classes or 1), with noise deviation `pair_spread[i, j]`, in records. Without labels there is one
    class.
    """

    records: float
    classes: int
    fine: list[Floats]
    fine_spread: float
    groups: list[NDArray[np.int64]]
    by_label: list[Floats]
    spread: list[Floats]
    label_spread: Floats
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

    def one_spread(self, i: int) -> Floats:
        """The noise deviation of the number of records in each group of column i."""
        out: Floats = np.sqrt((self.spread[i] ** 2 * np.ones(self.classes)).sum(axis=1))
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
        """How far each pair of columns is from independence, noise subtracted: χ² in records, (columns, columns).

        What the noise of single columns adds where the other column is uneven is not subtracted: Σ v_b·(1/m − s_a)²/e,
        for m groups a of shares s, variances v of the counts of b, and e expected records; the same with a and b
        exchanged. It is far smaller than the deviation of the whole, and the order and parents of columns alone use it.
        """
        out = np.zeros((self.columns, self.columns))
        for i, j in self.pairs:
            expected = self.records * np.outer(self.one(i), self.one(j))
            # rows and columns were made to agree, which removes their share of the noise
            spread = self.two_spread(i, j)
            left = spread**2 * (1.0 - 1.0 / expected.shape[0]) * (1.0 - 1.0 / expected.shape[1])
            excess = (self.records * self.two(i, j) - expected) ** 2 - left
            out[i, j] = out[j, i] = float((excess / np.maximum(expected, max(spread, 1.0))).sum())
        return out


_made: WeakKeyDictionary[Release, Estimates] = WeakKeyDictionary()


def estimate(release: Release) -> Estimates:
    """Read a release of `GroupedMarginals` or `ScoredMarginals` and make its marginals agree.

    It is done once for each release, which never changes: a report asks for what the fit had.
    """
    if release not in _made:
        _made[release] = estimate_parts(release.value, release.public)
    return _made[release]


def estimate_parts(value: Any, public: Mapping[str, Any]) -> Estimates:
    """The same, from the value of a release."""
    try:
        classes = int(public["classes"] or 1)
        raw = _unpack(value["fine"], [[s[0], s[1] if len(s) > 1 else 1] for s in public["fine"]["shapes"]])
        sd = float(public["fine"]["scales"][0])
        groups = _split(np.asarray(value["groups"], dtype=np.int64), [len(table) for table in raw])
        by_class = None
        if "labelled" in public:
            shape = [[int(g.max()) + 1, classes] for g in groups]
            by_class = _unpack(value["labelled"], shape), float(public["labelled"]["scales"][0])
        elif any(table.shape[1] != classes for table in raw):
            raise ValueError
        sets = [tuple(s[:2]) for s in public["pairs"]["sets"]] if "pairs" in public else []
        shapes = [[*s[:2], s[2] if len(s) > 2 else 1] for s in public["pairs"]["shapes"]] if sets else []
        tables = _unpack(value["pairs"], shapes) if sets else []
        scales = [float(scale) for scale in public["pairs"]["scales"]] if sets else []
        spread = {(int(i), int(j)): scale for (i, j), scale in zip(sets, scales, strict=True)}
        pairs = {(int(i), int(j)): table for (i, j), table in zip(sets, tables, strict=True)}
    except (KeyError, TypeError, ValueError, IndexError):
        raise DataError("This is not a release of a table's marginals.") from None
    return _agree(raw, sd, by_class, groups, pairs, spread)


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
    by_class: tuple[list[Floats], float] | None,
    groups: list[NDArray[np.int64]],
    pairs: dict[tuple[int, int], Floats],
    pair_sd: dict[tuple[int, int], float],
) -> Estimates:
    classes = (raw if by_class is None else by_class[0])[0].shape[1]
    sizes = [int(g.max()) + 1 for g in groups]
    best: list[Floats] = []
    variance: list[Floats] = []
    for i, table in enumerate(raw):
        merged = [np.bincount(groups[i], table[:, y], sizes[i]) for y in range(table.shape[1])]
        of_cells = sd**2 * np.bincount(groups[i], minlength=sizes[i])[:, None].astype(np.float64)
        measured: list[tuple[Floats, Floats]] = [(np.stack(merged, axis=1).astype(np.float64), of_cells)]
        if by_class is not None:
            measured.append((by_class[0][i], np.full((sizes[i], 1), by_class[1] ** 2)))
        for (a, b), pair in pairs.items():
            if i in (a, b):
                sums = pair.sum(axis=1 if i == a else 0)
                measured.append((sums, np.full((sizes[i], 1), pair_sd[a, b] ** 2 * sizes[a + b - i])))
        counts, noise = _average([m for m in measured if m[0].shape[1] == classes])
        noise = noise * np.ones(classes)
        wholes = [m for m in measured if m[0].shape[1] != classes]
        if wholes:
            counts, noise = _with_sums(counts, noise, *_average(wholes))
        best.append(counts)
        variance.append(noise)
    total, of_total = _shared_totals(best, variance)
    records = float(total.sum())
    for i, (counts, noise) in enumerate(zip(best, variance, strict=True)):
        moved = counts + (total - counts.sum(axis=0)) * noise / noise.sum(axis=0)
        best[i] = _possible(moved, total)
    for (i, j), pair in pairs.items():
        left, right = (best[i], best[j]) if pair.shape[2] == classes else (_one_class(best[i]), _one_class(best[j]))
        flat = pair + (left[:, None, :] - pair.sum(axis=1, keepdims=True)) / sizes[j]
        pairs[i, j] = (flat + (right[None] - flat.sum(axis=0, keepdims=True)) / sizes[i]) / records
    return Estimates(
        records,
        classes,
        [table.sum(axis=1) for table in raw],
        sd * raw[0].shape[1] ** 0.5,
        groups,
        [b / records for b in best],
        [np.sqrt(v) for v in variance],
        np.sqrt(of_total),
        pairs,
        pair_sd,
    )


def _average(measured: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The average of independent estimates, weights 1/variance, and its variance."""
    weights = [1.0 / variance for _, variance in measured]
    whole = np.asarray(sum(weights), dtype=np.float64)
    return np.asarray(sum(w * table for w, (table, _) in zip(weights, measured, strict=True)) / whole), 1.0 / whole


def _with_sums(counts: Floats, noise: Floats, sums: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Counts by class and another estimate of their sums over the classes, together.

    The exact update for independent counts: K = noise/(Σ noise + variance). Only the diagonal of the new covariance is
    kept, so this is done once, with all estimates of the sums averaged before.
    """
    whole = noise.sum(axis=1, keepdims=True)
    gap = (sums - counts.sum(axis=1, keepdims=True)) / (whole + variance)
    return counts + noise * gap, noise * (1.0 - noise / (whole + variance))


def _shared_totals(best: list[Floats], variance: list[Floats]) -> tuple[Floats, Floats]:
    """The number of records of each class, from all columns, none below one record, and its variance."""
    average, noise = _average([(b.sum(axis=0), v.sum(axis=0)) for b, v in zip(best, variance, strict=True)])
    return np.maximum(average, 1.0), noise


def _possible(counts: Floats, total: Floats) -> Floats:
    """The counts by class without negative cells, with the given totals of classes and their own sums of groups.

    Each class is projected on its simplex alone, which moves the sums of groups; alternate scaling of rows and columns
    restores those, which are known better than single cells.
    """
    out = np.stack([_with_total(counts[:, y], total[y]) for y in range(len(total))], axis=1)
    sums = _with_total(counts.sum(axis=1), float(total.sum()))
    if len(total) > 1:
        for _ in range(_SCALINGS):
            out *= (sums / out.sum(axis=1))[:, None]
            out *= total / out.sum(axis=0)
    return out


def _with_total(counts: Floats, total: float) -> Floats:
    """No negative cell, every group still possible, and the given total."""
    kept = nearest_counts(counts) + 1e-3 * total / len(counts) ** 2
    out: Floats = kept * (total / kept.sum())
    return out


def _one_class(table: Floats) -> Floats:
    out: Floats = table.sum(axis=1, keepdims=True)
    return out
