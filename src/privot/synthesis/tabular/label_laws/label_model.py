"""The law of a table's label given its columns, from noisy marginals and scores; it sees no record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import softmax

from privot.errors import DataError
from privot.mechanisms.table_counts.group_shares import GroupShares
from privot.synthesis.tabular.column_laws.conditional import Floats, fit_conditional, probabilities, ridge
from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates
from privot.synthesis.tabular.column_laws.group_basis import Basis, stacked, strength
from privot.synthesis.tabular.label_laws.additive_label import MAX_COEFFICIENTS, fit_additive
from privot.synthesis.tabular.label_laws.class_moments import (
    ADDITIVE,
    counted_moments,
    fit_classes,
    model_errors,
    scored_moments,
)
from privot.synthesis.tabular.label_laws.population import PRIOR, on_population, present
from privot.synthesis.tabular.table_model import Factor, Levels

MAX_PAIRS = 120
CORRECTION = (0.03, 0.3)
"""Bounds on the estimated τ of the correction of a coefficient by the scores."""
MIN_PRIOR, MAX_PRIOR = 0.2, 3.0
"""Bounds on the estimated τ of the interaction of two columns."""


@dataclass(frozen=True, eq=False)
class LabelLaw:
    """p(y | x) by groups, and how it is written into a release."""

    factor: Factor
    levels: Levels

    def probabilities(self, groups: NDArray[np.int64]) -> Floats:
        """(rows, classes), from (rows, columns)."""
        return self.predictor.probabilities(groups)

    @property
    def predictor(self) -> GroupShares:
        """The same law as plain arrays."""
        return GroupShares(self.factor.features, tuple(self.levels.blocks), self.factor.theta, self.factor.bias)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything but the groups, which the release has."""
        places = [[c for pair in self.factor.features for c in pair], [len(f) for f in self.factor.features]]
        return {
            "law.theta": self.factor.theta,
            "law.bias": self.factor.bias,
            "law.columns": np.array(places[0], dtype=np.int64),
            "law.lengths": np.array(places[1], dtype=np.int64),
            "law.blocks": np.concatenate(self.levels.blocks),
        }

    @classmethod
    def of(cls, value: Mapping[str, NDArray[Any]], groups: list[NDArray[np.int64]], classes: int) -> LabelLaw:
        """Read what `arrays` wrote; refuses arrays that do not fit together."""
        try:
            ends = np.cumsum([int(g.max()) + 1 for g in groups])
            blocks = np.split(value["law.blocks"], ends[:-1])
            starts = np.cumsum(value["law.lengths"])[:-1]
            features = tuple(tuple(int(c) for c in part) for part in np.split(value["law.columns"], starts))
            levels = Levels(groups, blocks)
            theta, bias = value["law.theta"], value["law.bias"]
            if theta.shape != (sum(levels.width(f) for f in features), classes) or bias.shape != (classes,):
                raise ValueError
        except (KeyError, TypeError, ValueError, IndexError):
            raise DataError("This is not a release of a table's marginals and scores.") from None
        return cls(Factor(None, features, theta, bias), levels)


def corrected_label(
    known: Estimates,
    law: LabelLaw,
    value: Mapping[str, Any],
    public: Mapping[str, Any],
    rows: NDArray[np.int64],
    bases: list[Basis],
) -> Factor:
    """The law that was scored, with each column's own coefficients moved to where the scores would vanish.

    The scores were computed on the records, so they are valid even where the model of x is wrong; that model is only
    used for how far a coefficient moves the scores. An additive law of several classes is fitted anew, to scores and
    counts by class together (`class_moments`).
    """
    factor, levels = law.factor, law.levels
    alone = [(i,) for i in range(known.columns)]
    if tuple(factor.features[: known.columns]) != tuple(alone):
        raise DataError("The law that was scored must have one feature per column: restore the release from a backup.")
    z = levels.one_hot(rows, alone)
    try:
        scores, sd = released_scores(value, public, z.shape[1], known.classes)
    except (KeyError, TypeError, ValueError):
        raise DataError("This is not a release of a table's marginals and scores.") from None
    offsets = levels.one_hot(rows, factor.features) @ factor.theta + factor.bias
    if known.classes > 2 and len(factor.features) == known.columns:
        # an earlier release has no scores of the first class: what follows from the others tells nothing of its own
        measured = np.size(value["scores"]) == scores.size
        scored = scored_moments(z, offsets, scores, sd, known.records, measured)
        law_now = softmax(offsets, axis=1)
        chance = known.records / len(rows) * (z.T @ (law_now * (1.0 - law_now)))
        moments = counted_moments(known, rows).with_other(scored)
        return Factor(None, factor.features, *fit_classes(known, z, moments, chance, bases))
    own = np.ascontiguousarray(scores[:, 1:])
    moved, bias = additive_correction(z, offsets, own, sd, bases, label_totals(known), known.records)
    theta = factor.theta.copy()
    theta[: len(moved)] += moved
    return Factor(None, factor.features, theta, factor.bias + bias)


def released_scores(
    value: Mapping[str, Any], public: Mapping[str, Any], groups: int, classes: int
) -> tuple[Floats, float]:
    """The scores of all classes, (groups, classes), and the deviation of their noise.

    They are known to add up to 0, so that what they add up to is noise and is taken away. Those of the first class are
    not in a release of two classes, nor in one from before all were scored: there they are the opposite of the others.
    """
    scores = np.asarray(value["scores"], dtype=np.float64)
    sd = float(public["scores"]["sigma"])
    if not np.isfinite(scores).all():
        raise ValueError("not finite")
    if classes > 2 and scores.size == groups * classes:
        scores = scores.reshape(groups, classes)
        return scores - scores.mean(axis=1, keepdims=True), sd
    scores = scores.reshape(groups, classes - 1)
    return np.hstack([-scores.sum(axis=1, keepdims=True), scores]), sd


def additive_correction(
    z: csr_matrix,
    offsets: Floats,
    scores: Floats,
    sd: float,
    bases: list[Basis],
    totals: tuple[Floats, Floats],
    records: float,
) -> tuple[Floats, Floats]:
    """What is added to the coefficients of z and to the bias of a law with logits `offsets`, whose scores are given."""
    scale = records / len(offsets)
    chance = softmax(offsets, axis=1)[:, 1:]
    moments = scale * (z.T @ chance) + scores
    varied = scale * (z.T @ (chance * (1.0 - chance)))
    prior = additive_strengths(scores, varied, np.full_like(varied, sd**2) + varied, bases, CORRECTION)
    return fit_additive(z, offsets, moments, sd**2 + varied, totals, records, prior, stacked(bases))


def label_totals(known: Estimates) -> tuple[Floats, Floats]:
    """The number of records of each class but the first, and its variance, at least that of one record."""
    return known.records * known.label[1:], np.square(known.label_spread[1:]) + 1.0


def additive_strengths(
    excess: Floats, varied: Floats, variance: Floats, bases: list[Basis], bounds: tuple[float, float]
) -> Floats:
    """τ of every function of every column, from deviations of (groups, classes − 1) and their variance.

    `varied` is the information about θ of each of them.
    """
    out, start = [], 0
    for basis in bases:
        place = slice(start, start + len(basis.vectors))
        start = place.stop
        squares = np.square(basis.vectors).T
        found = basis.vectors.T @ excess[place]
        known, noise = squares @ varied[place], squares @ variance[place]
        tau = np.empty(len(found))
        for block in np.unique(basis.blocks):
            at = basis.blocks == block
            tau[at] = strength(found[at], known[at], noise[at], bounds)
        out.append(tau)
    return np.concatenate(out)


def _additive(known: Estimates, rows: NDArray[np.int64], levels: Levels, bases: list[Basis]) -> Factor:
    """The label given each column alone, where pairs were not counted by class.

    A moment has the error of its own count, and the error that the model of x causes in its prediction.
    """
    n, label = known.records, known.label
    features = tuple((i,) for i in range(known.columns))
    z = levels.one_hot(rows, features)
    if known.classes > 2:
        sampled = np.concatenate([n * table * (1.0 - label) for table in known.by_label])
        return Factor(None, features, *fit_classes(known, z, counted_moments(known, rows), sampled, bases))
    moments, variance, errors = [], [], model_errors(known)
    for i, (table, spread) in enumerate(zip(known.by_label, known.spread, strict=True)):
        moments.append(n * on_population(table, rows[:, i], label, spread / n))
        chance = n * table * (1.0 - label)
        variance.append(np.square(spread) + chance + errors[i])
    offsets = np.tile(np.log(label), (len(rows), 1))
    own, out = np.concatenate(moments)[:, 1:], np.concatenate(variance)[:, 1:]
    excess = np.concatenate([n * (t - np.outer(t.sum(axis=1), label)) for t in known.by_label])[:, 1:]
    varied = np.concatenate([n * np.outer(t.sum(axis=1), label * (1.0 - label)) for t in known.by_label])[:, 1:]
    noise = np.concatenate([np.square(spread) for spread in known.spread])[:, 1:] + varied
    prior = additive_strengths(excess, varied, noise, bases, ADDITIVE)
    theta, bias = fit_additive(z, offsets, own, out, label_totals(known), n, prior, stacked(bases))
    return Factor(None, features, theta, np.log(label) + bias)


def label_factor(known: Estimates, rows: NDArray[np.int64], levels: Levels, bases: list[Basis]) -> Factor:
    """The label given everything: each column alone, and pairs, by blocks and by groups, where counted by class.

    How much a pair adds beyond its columns is itself unknown: the columns are fitted alone first, and the deviation of
    the pair's counts that remains, beyond noise and sampling error, gives the pair's prior τ (`typical`): empirical
    Bayes.
    """
    if known.classes > 1 and not _pairs_for_label(known):
        width = sum(levels.sizes) + 1
        if width * (known.classes - 1) <= MAX_COEFFICIENTS:
            return _additive(known, rows, levels, bases)
    n, label = known.records, known.label
    features: list[tuple[int, ...]] = [(i,) for i in range(known.columns)]
    moments, penalty = [], []
    for i, (table, spread) in enumerate(zip(known.by_label, known.spread, strict=True)):
        moments.append(on_population(table, rows[:, i], label, spread / n))
        penalty.append(ridge(n * np.outer(present(table, rows[:, i]), label), spread, PRIOR, n))
    z = levels.one_hot(rows, features)
    theta, bias = fit_conditional(z, np.concatenate(moments), label, np.concatenate(penalty), n)
    law = probabilities(z, theta, bias)
    for feature, table, spread in _pair_tables(known, levels):
        codes = levels.codes(rows, [feature])[:, 0]
        # two groups that hardly occur together carry no information, however common each of them is
        expected = n * np.outer(present(table, codes), label)
        moment = on_population(table, codes, label, spread / n)
        alone = np.stack([np.bincount(codes, law[:, k], len(table)) for k in range(known.classes)], axis=1) / len(rows)
        prior = typical(n * (moment - alone), expected * (1.0 - label), np.square(spread) + expected)
        features.append(feature)
        moments.append(moment)
        penalty.append(ridge(expected, spread, prior, n))
    z = levels.one_hot(rows, features)
    theta, bias = fit_conditional(z, np.concatenate(moments), label, np.concatenate(penalty), n)
    return Factor(None, tuple(features), theta, bias)


def typical(excess: Floats, information: Floats, variance: Floats) -> float:
    """τ from deviations D: E[D²] = (iτ)² + v in a cell of information i and variance v; τ² = Σ(D² − v)/Σi²."""
    square = float(np.sum(np.square(excess) - variance) / max(float(np.sum(np.square(information))), 1e-300))
    return float(min(max(square, MIN_PRIOR**2) ** 0.5, MAX_PRIOR))


def _pair_tables(known: Estimates, levels: Levels) -> Iterator[tuple[tuple[int, int], Floats, Floats]]:
    """(feature, table of cells by class, noise deviation of its cells) of every pair, by groups and by blocks."""
    for i, j in _pairs_for_label(known):
        table = known.pairs[i, j]
        yield (i, j), table.reshape(-1, known.classes), np.array(known.pair_spread[i, j])
        left, right = (np.eye(levels.width((~c,)))[levels.blocks[c]] for c in (i, j))
        sums = np.einsum("abk,ap,bq->pqk", table, left, right).reshape(-1, known.classes)
        cells = np.outer(left.sum(axis=0), right.sum(axis=0)).reshape(-1, 1)
        yield (~i, ~j), sums, known.pair_spread[i, j] * np.sqrt(cells)


def _pairs_for_label(known: Estimates) -> list[tuple[int, int]]:
    """All pairs counted by class; if there are too many, those of the columns most associated with the label."""
    if not known.pairs or next(iter(known.pairs.values())).shape[2] != known.classes or known.classes == 1:
        return []
    association = [
        float(np.sum((t - np.outer(known.one(i), known.label)) ** 2 / np.outer(known.one(i), known.label)))
        for i, t in enumerate(known.by_label)
    ]
    best = sorted(known.pairs, key=lambda pair: -(association[pair[0]] + association[pair[1]]))[:MAX_PAIRS]
    return sorted(best)
