"""How much more likely each source record is in the target, from a public source and a stand-in; no label is used.

w(x) = p(x | target)/p(x | source), by a logistic regression that tells stand-in from source (Bickel, Brückner &
Scheffer 2009): w(x) = n_s/n_t · p(stand-in | x)/p(source | x). Every record's weight comes from a fit that did not see
that record. Powers w^a with a < 1 trade bias for variance (Shimodaira 2000).
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MAX_WEIGHT = 20.0
"""The largest weight; a few rows may not stand for the whole target."""
_FOLDS = 3


def importance_weights(source: Floats, stand_in: Floats, seed: int) -> tuple[Floats, float]:
    """w of every source row, of shape (rows,) and mean 1, and their mean before it was made 1: the overlap.

    Where the source covers the target, the mean of w over the source is 1; the less of the target it covers, the
    smaller. Both are rows of numbers in [0, 1].
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = np.concatenate([source, stand_in])
    domain = np.repeat([0, 1], [len(source), len(stand_in)])
    # balanced: an odds ratio of 1 is a weight of 1
    model = LogisticRegression(class_weight="balanced", max_iter=300)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # weights that are not at their optimum are still weights, and are judged by what they give
        warnings.simplefilter("ignore", ConvergenceWarning)
        told = cross_val_predict(model, rows, domain, cv=folds, method="predict_proba")[: len(source), 1]
    odds = np.minimum(told / np.maximum(1.0 - told, 1e-12), MAX_WEIGHT)
    overlap = float(odds.mean())
    weights: Floats = odds / overlap if overlap > 0.0 else np.ones(len(source))
    return weights, overlap


def effective_share(weights: Floats) -> float:
    """(Σw)²/(n·Σw²): the share of the records that a weighted mean is worth, from 1/n to 1."""
    return float(weights.sum() ** 2 / (len(weights) * np.square(weights).sum()))


def drawn_by(weights: Floats, count: int, seed: int) -> NDArray[np.int64]:
    """`count` places, each as often as its weight says to within one: systematic sampling."""
    start = np.random.default_rng(seed).random()
    ends = np.cumsum(weights) / weights.sum()
    found = np.searchsorted(ends, (start + np.arange(count)) / count, side="right")
    return np.minimum(found, len(weights) - 1).astype(np.int64)


def weighted_gain(plain: Floats, other: Floats, weights: Floats) -> float:
    """By how much `other` lowers the weighted mean of losses, less one standard error; both of shape (rows,)."""
    gain = plain - other
    mean = float((weights * gain).sum() / weights.sum())
    error = float(np.sqrt(np.square(weights * (gain - mean)).sum()) / weights.sum())
    return mean - error
