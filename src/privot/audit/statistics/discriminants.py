"""Learns a score where no likelihood ratio is known: linear discriminants, on trials that are not counted later.

A trial is observed as a row of numbers. The score is the best of: each column by itself, its distance from the median
under D, Fisher's discriminant of the columns, and Fisher's discriminant of columns and squares. A column without noise,
or one that is a function of another, makes the covariance singular; the ridge is so small that the discriminant then
points straight at it. Only observations are seen here, no mechanism.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privot.audit.statistics.epsilon_bounds import rate_above, rate_below, shifts

Array = NDArray[np.float64]
Score = Callable[[Array], Array]

_RIDGE = 1e-9


def learn(without: Array, with_: Array) -> Score:
    """A score for rows of observations, learned from rows under D and under D'; higher means D' is more likely."""
    zeros, ones = (np.atleast_2d(np.asarray(a, dtype=np.float64)) for a in (without, with_))
    half0, half1 = len(zeros) // 2, len(ones) // 2
    found: list[Score] = [_column(i) for i in range(zeros.shape[1])]
    found += [_distance(i, float(np.median(zeros[:half0, i]))) for i in range(zeros.shape[1])]
    if zeros.shape[1] > 1:
        found += [_fisher(zeros[:half0], ones[:half1], squares=squares) for squares in (False, True)]
    found += [_flipped(score) for score in found]
    worth = [_worth(score(zeros[half0:]), score(ones[half1:])) for score in found]
    return found[int(np.argmax(worth))]


def learned_scores(without: Array, with_: Array) -> tuple[Array, Array]:
    """Scores of the second half of the trials, learned on the first half, which is independent of it."""
    half0, half1 = len(without) // 2, len(with_) // 2
    score = learn(without[:half0], with_[:half1])
    return score(without[half0:]), score(with_[half1:])


def _column(index: int) -> Score:
    return lambda rows: np.asarray(rows[:, index])


def _distance(index: int, usual: float) -> Score:
    return lambda rows: np.asarray(np.abs(rows[:, index] - usual))


def _flipped(score: Score) -> Score:
    return lambda rows: -score(rows)


def _fisher(zeros: Array, ones: Array, squares: bool) -> Score:
    """w = (S + ridge)⁻¹(m' − m) on standardised columns, S their pooled covariance."""
    both = np.concatenate([zeros, ones])
    centre, spread = both.mean(0), both.std(0)
    spread = np.where(spread > 0.0, spread, 1.0)

    def standard(rows: Array) -> Array:
        unit = (rows - centre) / spread
        return np.concatenate([unit, unit**2], axis=1) if squares else unit

    a, b = standard(zeros), standard(ones)
    pooled = (np.cov(a.T) + np.cov(b.T)) / 2.0
    pooled = np.atleast_2d(pooled) + _RIDGE * np.eye(a.shape[1])
    direction = np.linalg.solve(pooled, b.mean(0) - a.mean(0))
    return lambda rows: np.asarray(standard(rows) @ direction)


def _worth(zeros: Array, ones: Array) -> float:
    """The largest shift that confidence bounds on the rates of these scores support, over all thresholds."""
    cuts = np.quantile(np.concatenate([zeros, ones]), np.linspace(0.02, 0.98, 97))
    hits = (ones[:, None] >= cuts).sum(0)
    alarms = (zeros[:, None] >= cuts).sum(0)
    return float(shifts(rate_below(hits, len(ones), 0.025), rate_above(alarms, len(zeros), 0.025)).max())
