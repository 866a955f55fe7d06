"""The additive law of a label of several classes, from counts by class and scores together; it sees no record.

How often group g of a column and class k meet is known twice: from the counts by class, whose prediction needs a model
of x, and from the scores, where the error of that model drops out. Their noise is known, so both are averaged with
weights 1/variance, and the law is fitted to the average at once, all classes alike (`additive_label`), with a prior
that says which classes go together (`class_prior`). With K classes a cell holds 1/K of the records on average, beside
the same noise as with two, so that more is lost there by what is left unused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import softmax

from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates
from privot.synthesis.tabular.column_laws.group_basis import Basis, stacked
from privot.synthesis.tabular.label_laws.additive_label import fit_additive
from privot.synthesis.tabular.label_laws.class_prior import class_strengths
from privot.synthesis.tabular.label_laws.population import on_population

Floats = NDArray[np.float64]
MODEL_SHARE = 0.5
"""The share of a pair's noise that remains in the model of x, whose fit is shrunk."""
ADDITIVE = (0.03, 1.5)
"""Bounds on the estimated τ of the association of a column with the label."""
_UNKNOWN = 1e12
"""The variance of what was not measured."""


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Records per group (of all columns, one after another) and class, and the variance of their noise."""

    counts: Floats
    noise: Floats

    def with_other(self, other: ClassMoments) -> ClassMoments:
        """The average of two independent measurements, weights 1/variance."""
        one, two = 1.0 / self.noise, 1.0 / other.noise
        return ClassMoments((one * self.counts + two * other.counts) / (one + two), 1.0 / (one + two))


def model_errors(known: Estimates) -> list[Floats]:
    """Of each column, the variance by class that errors of the model of x cause in its moments.

    An error in how often group a of i meets group b of j counts in proportion to how far b's share of the label differs
    from the mean.
    """
    rates = [table / table.sum(axis=1, keepdims=True) - known.label for table in known.by_label]
    out = []
    for i in range(known.columns):
        others = [j for j in range(known.columns) if (min(i, j), max(i, j)) in known.pairs]
        meeting = np.zeros(known.classes)
        for j in others:
            meeting += known.two_spread(i, j) ** 2 * np.square(rates[j]).sum(axis=0)
        out.append(MODEL_SHARE * meeting)
    return out


def counted_moments(known: Estimates, rows: NDArray[np.int64]) -> ClassMoments:
    """From the counts by class, over `rows` drawn from the model of x."""
    n, label = known.records, known.label
    errors = model_errors(known)
    counts = [
        n * on_population(table, rows[:, i], label, spread / n)
        for i, (table, spread) in enumerate(zip(known.by_label, known.spread, strict=True))
    ]
    # sums over the classes are known well, which took 1/K of each class's variance and bound them to each other; with
    # all classes in the fit, that counts once more unless it is given back
    bound = known.classes / (known.classes - 1.0)
    noise = [bound * np.square(spread) + error for spread, error in zip(known.spread, errors, strict=True)]
    return ClassMoments(np.concatenate(counts), np.concatenate(noise))


def scored_moments(
    z: csr_matrix, offsets: Floats, scores: Floats, sd: float, records: float, measured: bool = True
) -> ClassMoments:
    """From the `scores`, (groups, classes), of a law with logits `offsets` on rows with groups `z`.

    Their noise has deviation `sd` in every class, taken as independent: with all classes in the fit, whose sum is
    fixed, that is the likelihood of scores whose mean was taken away. `measured`: whether class 0 was.
    """
    expected = records / len(offsets) * (z.T @ softmax(offsets, axis=1))
    noise = np.full(expected.shape, sd**2)
    if not measured:
        noise[:, 0] = _UNKNOWN
    return ClassMoments(expected + scores, noise)


def fit_classes(
    known: Estimates, z: csr_matrix, moments: ClassMoments, chance: Floats, bases: list[Basis]
) -> tuple[Floats, Floats]:
    """θ of shape (groups, classes) and the bias of the law that meets `moments` over rows with groups `z`.

    `chance` (groups, classes): the sampling variance of the moments, that of the records.
    """
    n, label = known.records, known.label
    shares = np.asarray(z.mean(axis=0)).ravel()
    excess = moments.counts - n * np.outer(shares, label)
    wide = moments.noise + n * np.outer(shares, label * (1.0 - label))
    prior, between = class_strengths(excess, shares, wide, bases, label, n, ADDITIVE)
    offsets = np.tile(np.log(label), (z.shape[0], 1))
    totals = n * label, np.square(known.label_spread) + 1.0
    variance = moments.noise + chance
    theta, bias = fit_additive(z, offsets, moments.counts, variance, totals, n, prior, stacked(bases), between)
    return theta, np.log(label) + bias
