"""From a release of a table's marginals to a model that can be sampled; it sees the release and nothing else.

The model is p(x₁)·p(x₂|x₁)·…·p(y|x): each factor the maximum-entropy law that meets the noisy pair counts with the
columns before it (`conditional`). Columns are taken in the order in which they depend on one another, the label last,
so that what predicts it is fitted directly. Each factor is fitted over rows drawn from the factors before it: errors
of the earlier ones are seen, and corrected where the pair counts say so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privot.release import Release
from privot.synthesis.tables.codec import TableCodec
from privot.synthesis.tables.conditional import Floats, draw, fit_conditional, one_hot, ridge
from privot.synthesis.tables.estimates import Estimates, estimate
from privot.synthesis.tables.model import Factor, TableModel, draw_groups, features_of

POPULATION = 20_000
"""Rows drawn from the factors so far to fit the next."""
LABEL_POPULATION = 3
"""How many times more for the label, whose law has the most coefficients, so that it fits no chance of the draw."""
MOST_PARENTS = 24
MOST_PAIRS = 120
PRIOR = 1.0
"""τ, a typical log odds ratio between two groups, for every coefficient."""


def fit_table(release: Release, codec: TableCodec, *, seed: int = 0, population: int = POPULATION) -> TableModel:
    """Fit the model to a release made by `releasing.table_mechanism`; minutes at most, with no private data."""
    known = estimate(release)
    rng = np.random.default_rng(seed)
    rows = np.zeros((population, known.columns), dtype=np.int64)
    factors: list[Factor] = []
    dependence = known.dependence()
    order = order_of(dependence)
    sizes = [int(g.max()) + 1 for g in known.groups]
    for step, column in enumerate(order):
        parents = sorted(order[:step], key=lambda j: -dependence[column, j])[:MOST_PARENTS]
        factor, drawn = _feature_factor(known, column, sorted(parents), rows, sizes, rng)
        rows[:, column] = drawn
        factors.append(factor)
    if codec.classes is not None:
        fresh = draw_groups(factors, LABEL_POPULATION * population, sizes, rng)[0]
        factors.append(_label_factor(known, fresh, sizes))
    return TableModel(codec, tuple(factors), known.groups, known.fine, dict(release.guarantee.to_dict()))


def order_of(dependence: Floats) -> list[int]:
    """Start at the column that depends most on all others; go on with the one that depends most on any so far."""
    left = set(range(len(dependence)))
    order = [int(np.argmax(dependence.sum(axis=1)))]
    left.discard(order[0])
    while left:
        following = max(sorted(left), key=lambda i: float(dependence[i, order].max()))
        order.append(following)
        left.discard(following)
    return order


def _feature_factor(
    known: Estimates,
    column: int,
    parents: list[int],
    rows: NDArray[np.int64],
    sizes: list[int],
    rng: np.random.Generator,
) -> tuple[Factor, NDArray[np.int64]]:
    shares = known.one(column)
    n = known.records
    z = one_hot(rows[:, parents], [sizes[j] for j in parents])
    moments, penalty = [np.empty((0, sizes[column]))], [np.empty((0, sizes[column]))]
    for j in parents:
        moments.append(_on_population(known.two(j, column), rows[:, j], shares, known.two_spread / n))
        penalty.append(ridge(n * np.outer(known.one(j), shares), known.two_spread, PRIOR, n, len(rows)))
    theta, bias = fit_conditional(z, np.concatenate(moments), shares, np.concatenate(penalty), n)
    features = tuple((j,) for j in parents)
    return Factor(column, features, theta, bias), draw(z, theta, bias, rng)


def _label_factor(known: Estimates, rows: NDArray[np.int64], sizes: list[int]) -> Factor:
    """The label given everything: each column alone, and pairs of columns where they were counted by class."""
    n, label = known.records, known.label
    features: list[tuple[int, ...]] = [(i,) for i in range(known.columns)]
    tables = list(known.by_label)
    spreads: list[Floats | float] = list(known.spread)
    for i, j in _pairs_for_label(known):
        features.append((i, j))
        tables.append(known.pairs[i, j].reshape(-1, known.classes))
        spreads.append(known.pair_spread)
    codes, widths = features_of(rows, features, sizes)
    moments, penalty = [], []
    for place, (table, spread) in enumerate(zip(tables, spreads, strict=True)):
        moments.append(_on_population(table, codes[:, place], label, spread / n))
        # a pair of groups that hardly occurs together tells nothing, however common each of them is
        expected = n * np.outer(_present(table, codes[:, place]), label)
        penalty.append(ridge(expected, spread, PRIOR, n, len(rows)))
    theta, bias = fit_conditional(one_hot(codes, widths), np.concatenate(moments), label, np.concatenate(penalty), n)
    return Factor(None, tuple(features), theta, bias)


def _pairs_for_label(known: Estimates) -> list[tuple[int, int]]:
    """All pairs counted by class, or those of the columns that tell most about the label where there are too many."""
    if not known.pairs or next(iter(known.pairs.values())).shape[2] != known.classes or known.classes == 1:
        return []
    told = [
        float(np.sum((t - np.outer(known.one(i), known.label)) ** 2 / np.outer(known.one(i), known.label)))
        for i, t in enumerate(known.by_label)
    ]
    best = sorted(known.pairs, key=lambda pair: -(told[pair[0]] + told[pair[1]]))[:MOST_PAIRS]
    return sorted(best)


def _on_population(table: Floats, codes: NDArray[np.int64], shares: Floats, noise: Floats | float) -> Floats:
    """Moments over the population: `table`, with what its rows lack or have too much there made up for.

    The population's share of a row differs from the estimated one, by chance and by noise; left as it is, that would
    push along directions that no law can follow. The difference is split as the row itself is, as far as that is known:
    a row that the noise (in shares, a cell) drowns is split like everything (`shares`).
    """
    lacking: Floats = _present(table, codes) - table.sum(axis=1)
    split = np.maximum(table, 0.0) + np.broadcast_to(noise, table.shape) * len(shares) * shares
    split = split / np.maximum(split.sum(axis=1, keepdims=True), 1e-300)
    out: Floats = table + lacking[:, None] * split
    return out


def _present(table: Floats, codes: NDArray[np.int64]) -> Floats:
    """The population's share of each row of `table`."""
    return np.bincount(codes, minlength=len(table)) / len(codes)
