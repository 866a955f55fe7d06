"""A classifier of a table's rows, from a labelled source that is weighted like unlabelled rows of the target.

The classifier is a logistic regression on cells of the columns, an additive model. How much more likely a source row
is in the target says a second regression, which tells the domains apart (`importance_weights`). Fits with the powers
0, ½ and 1 of these weights are compared on held-out source rows, weighted like the target (importance-weighted
validation, Sugiyama, Krauledat & Müller 2007), and the best power is used. Power 0 is the plain source: weights that
do not pay are not used. All that is seen here is public or was released, and no label of the target exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.adaptation.stand_in.importance_weights import (
    Floats,
    effective_share,
    importance_weights,
    weighted_gain,
)
from privot.adaptation.stand_in.logistic_fit import fit_logistic, log_probabilities

MIN_OVERLAP, MIN_EFFECTIVE = 0.5, 0.02
"""Weights are not used where the source covers less of the target, or where fewer of its records would count."""
MAX_ROWS = 200_000
"""Source rows that are learned from; of more, that many are drawn from the seed."""
STEPS = 5
"""Weights, three fits that are compared, and the last one."""
_POWERS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class TableChecks:
    """What was found before the weights were used; no target label takes part.

    `overlap` is about 1 where the source covers the target, and smaller where it does not. `effective` is the share of
    the source that the weighted source is worth. `half` and `full` say by how much the weights' square roots and the
    weights themselves lower the weighted loss of held-out source rows, less one standard error.
    """

    overlap: float
    effective: float
    half: float
    full: float

    @property
    def power(self) -> float:
        """The power of the weights that is used; 0 for none."""
        if self.overlap < MIN_OVERLAP or self.effective < MIN_EFFECTIVE or max(self.half, self.full) <= 0.0:
            return 0.0
        return 0.5 if self.half >= self.full else 1.0

    def to_dict(self) -> dict[str, float]:
        """As plain JSON types."""
        return dict(vars(self))


@dataclass(frozen=True)
class WeightedFit:
    """Coefficients of shape (columns, classes), biases of shape (classes,), and what was found on the way to them."""

    theta: Floats
    bias: Floats
    checks: TableChecks | None

    def probabilities(self, rows: NDArray[Any]) -> Floats:
        """The probability of every class, of shape (rows, classes)."""
        return np.exp(log_probabilities(rows, self.theta, self.bias))


def fit_weighted(
    x: NDArray[Any],
    y: NDArray[np.int64],
    classes: int,
    seed: int,
    target: NDArray[Any] | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> WeightedFit:
    """The classifier for unlabelled rows like `target`, from source rows `x` and labels `y`; without one, of `x` alone.

    Rows have shape (rows, columns) and hold numbers in [0, 1]. `tell` is called with the number of fits done, of
    `STEPS`.
    """
    order = np.random.default_rng(seed).permutation(len(x))[:MAX_ROWS]
    x, y = x[order], y[order]
    if target is None:
        return WeightedFit(*fit_logistic(x, y, classes), None)
    weights, overlap = importance_weights(x, target, seed)
    tell(1)
    # in a random order: the first tenth is as good as any
    held, rest = slice(0, max(1, len(x) // 10)), slice(max(1, len(x) // 10), None)
    losses = []
    for power in _POWERS:
        fitted = fit_logistic(x[rest], y[rest], classes, _scaled(weights[rest] ** power))
        told = log_probabilities(x[held], *fitted)
        losses.append(-told[np.arange(len(told)), y[held]])
        tell(1 + len(losses))
    gains = [weighted_gain(losses[0], other, weights[held]) for other in losses[1:]]
    checks = TableChecks(overlap, effective_share(weights), *gains)
    made = WeightedFit(*fit_logistic(x, y, classes, _scaled(weights**checks.power)), checks)
    tell(STEPS)
    return made


def _scaled(weights: Floats) -> Floats:
    """Of mean 1, so that the ridge weighs the same whatever the power."""
    out: Floats = weights / weights.mean()
    return out
