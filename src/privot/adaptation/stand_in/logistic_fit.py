"""Multinomial logistic regression with a ridge, as plain arrays; of cells of a table's columns it is an additive model.

The weights of a table's rows and its classifier are both such fits: convex, so that the same rows give the same
coefficients, and two arrays, so that a model is kept without code.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import ConvergenceError

Floats = NDArray[np.float64]
RIDGE = 0.3
"""Scikit-learn's C, in which the sum of losses is weighed against ½‖coefficients‖²."""
_STEPS = 2000
_ABSENT = -30.0
"""The score of a class that no row has."""


def fit_logistic(
    rows: NDArray[Any], labels: NDArray[np.int64], classes: int, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Coefficients of shape (columns, classes) and biases of shape (classes,) of the weighted fit.

    argmin C·Σ w_i·loss(x_i, y_i) + ½‖coefficients‖²; raises ConvergenceError where the solver stops early.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    present = np.unique(labels)
    theta, bias = np.zeros((rows.shape[1], classes)), np.full(classes, _ABSENT)
    if len(present) == 1:
        bias[present[0]] = 0.0
        return theta, bias
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            made = LogisticRegression(C=RIDGE, max_iter=_STEPS, tol=1e-4).fit(rows, labels, weights)
        except ConvergenceWarning:
            raise ConvergenceError(f"A logistic regression did not converge in {_STEPS} steps.") from None
    if len(present) == 2:
        theta[:, present[1]] = made.coef_[0]
        bias[present] = 0.0, made.intercept_[0]
    else:
        theta[:, present], bias[present] = made.coef_.T, made.intercept_
    return theta, bias


def log_probabilities(rows: NDArray[Any], theta: Floats, bias: Floats) -> Floats:
    """The logarithm of the probability of every class, of shape (rows, classes)."""
    scores = rows @ theta + bias
    scores = scores - scores.max(axis=1, keepdims=True)
    out: Floats = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return out
