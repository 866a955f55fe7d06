"""How much more likely each source record is in the target, from a public source and a stand-in; no label is used.

w(x) = p(x | target)/p(x | source), by a logistic regression that tells stand-in from source (Bickel, Brückner &
Scheffer 2009): w(x) = p(stand-in | x)/p(source | x) where both domains weigh the same in the regression. Every
record's weight comes from a fit that did not see that record. Powers w^a with a < 1 trade bias for variance
(Shimodaira 2000).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.adaptation.stand_in.logistic_fit import fit_logistic, log_probabilities

Floats = NDArray[np.float64]
MAX_WEIGHT = 20.0
"""The largest weight; a few rows may not stand for the whole target."""
_FOLDS = 3


def importance_weights(source: NDArray[Any], stand_in: NDArray[Any], seed: int) -> tuple[Floats, float]:
    """w of every source row, of shape (rows,) and mean 1, and their mean before it was made 1: the overlap.

    Where the source covers the target, the mean of w over the source is 1; the less of the target it covers, the
    smaller. Both are rows of numbers in [0, 1].
    """
    dice = np.random.default_rng(seed)
    ours, theirs = (dice.permutation(len(rows)) % _FOLDS for rows in (source, stand_in))
    odds = np.empty(len(source))
    for fold in range(_FOLDS):
        seen, there = ours != fold, theirs != fold
        rows = np.concatenate([source[seen], stand_in[there]])
        domain = np.repeat([0, 1], [seen.sum(), there.sum()])
        # both domains weigh the same: an odds ratio of 1 is a weight of 1
        each = np.repeat([0.5 * len(rows) / seen.sum(), 0.5 * len(rows) / there.sum()], [seen.sum(), there.sum()])
        told = log_probabilities(source[~seen], *fit_logistic(rows, domain, 2, each))
        odds[~seen] = np.exp(np.minimum(told[:, 1] - told[:, 0], np.log(MAX_WEIGHT)))
    overlap = float(odds.mean())
    return odds / overlap, overlap


def effective_share(weights: Floats) -> float:
    """(Σw)²/(n·Σw²): the share of the records that a weighted mean is worth, from 1/n to 1."""
    return float(weights.sum() ** 2 / (len(weights) * np.square(weights).sum()))


def weighted_gain(plain: Floats, other: Floats, weights: Floats) -> float:
    """By how much `other` lowers the weighted mean of losses, less one standard error; both of shape (rows,)."""
    gain = plain - other
    mean = float((weights * gain).sum() / weights.sum())
    error = float(np.sqrt(np.square(weights * (gain - mean)).sum()) / weights.sum())
    return mean - error
