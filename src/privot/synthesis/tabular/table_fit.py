"""From a release of a table's marginals to a model that can be sampled; it sees the release and nothing else.

The model is p(x₁)·p(x₂|x₁)·…·p(y|x): each factor the maximum-entropy law that meets the noisy pair counts with the
columns before it (`conditional`). Columns are taken in the order in which they depend on one another, the label last,
so that what predicts it is fitted directly. Each factor is fitted over rows drawn from the factors before it: errors
of earlier factors are visible, and corrected where the pair counts allow it.

p(y|x) is fitted twice. First from the marginals alone (`TablePlanner`, while the release is being made), where errors
of the model of x do the most harm; then the release's scores show where that law is wrong on the records themselves,
and its coefficients are corrected (`corrected_label`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.evaluation.schema_axes import axes_of, grids_of, with_edges
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.release import Release
from privot.synthesis.tabular.column_laws.conditional import Floats, draw, fit_conditional
from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates, estimate, estimate_parts
from privot.synthesis.tabular.column_laws.gaussian_copula import GaussianCopula
from privot.synthesis.tabular.column_laws.group_basis import Basis, basis_of, pair_ridge, stacked
from privot.synthesis.tabular.column_laws.number_shape import shape_of
from privot.synthesis.tabular.label_laws.further_laws import Asked, ColumnLaw, Correction, corrections
from privot.synthesis.tabular.label_laws.label_model import LabelLaw, corrected_label, label_factor
from privot.synthesis.tabular.label_laws.population import on_population
from privot.synthesis.tabular.table_model import Factor, Levels, TableModel, draw_groups
from privot.tables.codec import TableCodec

POPULATION = 20_000
"""Rows drawn from the factors so far, to fit the next one."""
LABEL_POPULATION = 2
"""Factor on these rows for the label, whose law has the most coefficients and must not fit sampling error."""
BLOCKS = 4
"""Blocks of a column's groups, for the association of pairs of columns with the label."""
MAX_PARENTS = 24


def fit_table(
    release: Release,
    codec: TableCodec,
    *,
    seed: int = 0,
    population: int = POPULATION,
    progress: Callable[[int, int], None] | None = None,
    first: int = 0,
) -> TableModel:
    """Fit the model to a release made by `table_release.table_mechanism`; minutes at most, with no private data.

    `progress` is called with the number of fitted factors and the number of all factors. The `first` columns are drawn
    before all others, so that the others can be drawn beside given values of them.
    """
    steps = len(codec.features) + (codec.classes is not None)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, steps)

    known = estimate(release)
    rng = np.random.default_rng(seed)
    axes = released_axes(release, codec)
    levels, bases = _levels(known, axes), _bases(known, axes)
    value: Any = release.value
    further = corrections(value, release.public, levels.groups, known.classes)
    last = Asked.of(codec).labels
    factors = _feature_factors(known, levels, bases, population, rng, tell, first, last, further)
    if codec.classes is not None:
        fresh = draw_groups(factors, LABEL_POPULATION * population, levels, rng)[0]
        if LABEL in further:
            levels = further[LABEL].law.levels
            factors.append(further[LABEL].corrected(known, fresh, bases))
        elif isinstance(value, Mapping) and "scores" in value:
            law = LabelLaw.of(value, levels.groups, known.classes)
            levels = law.levels
            factors.append(corrected_label(known, law, value, release.public, fresh, bases))
        else:
            factors.append(label_factor(known, fresh, levels, bases))
        tell(steps)
    shapes = [
        shape_of(
            column,
            axes[i],
            known.fine[i],
            known.groups[i],
            known.fine_spread,
            known.one(i),
            known.records,
            known.one_spread(i),
        )
        for i, column in enumerate(codec.features)
    ]
    drawn = Levels([shape.groups for shape in shapes], levels.blocks)
    edges = tuple(shape.edges for shape in shapes)
    model = TableModel(codec, tuple(factors), drawn, [shape.shares for shape in shapes], edges)
    rows = draw_groups(factors, LABEL_POPULATION * population, drawn, rng)[0]
    return replace(model, copula=GaussianCopula.of(model.axes, drawn.groups, rows))


def released_axes(release: Release, codec: TableCodec) -> tuple[Axis, ...]:
    """The cells over which a release counts: those of the schema, or those that its first part chose."""
    axes = axes_of(codec)
    try:
        value: Any = release.value
        if "edges" not in value:
            return axes
        parts = iter(np.split(np.asarray(value["edges"], dtype=np.float64), np.cumsum(value["cuts"])[:-1]))
        return with_edges(axes, [None if grid is None else next(parts) for grid in grids_of(codec)])
    except (KeyError, TypeError, ValueError, IndexError, StopIteration):
        raise DataError("This is not a release of a table's marginals.") from None


@dataclass(frozen=True)
class TablePlanner:
    """Makes the law of the label whose scores are then released; it is given released marginals, never a record."""

    axes: tuple[Axis, ...]
    population: int = POPULATION // 2
    seed: int = 0
    last: tuple[int, ...] = ()
    """Columns that are drawn after all others: further labels."""

    def identity(self) -> bytes:
        """Every choice."""
        # a table without further labels is described as it always was
        return repr((self.axes, self.population, self.seed, *([self.last] if self.last else []))).encode()

    def over(self, axes: tuple[Axis, ...]) -> TablePlanner:
        """The planner for columns of these cells."""
        return replace(self, axes=axes)

    def law(self, value: Mapping[str, NDArray[Any]], public: Mapping[str, Any]) -> LabelLaw:
        """The law that `fit_table` would use if there were no scores."""
        known = estimate_parts(value, public)
        rng = np.random.default_rng(self.seed)
        levels, bases = _levels(known, self.axes), _bases(known, self.axes)
        factors = _feature_factors(known, levels, bases, self.population, rng, last=self.last)
        fresh = draw_groups(factors, LABEL_POPULATION * self.population, levels, rng)[0]
        return LabelLaw(label_factor(known, fresh, levels, bases), levels)


@dataclass(frozen=True)
class FurtherTablePlanner:
    """Makes the laws of further labels and interactions whose scores are then released; it never sees a record."""

    axes: tuple[Axis, ...]
    asked: Asked
    first: int = 0
    population: int = POPULATION // 2
    seed: int = 1

    def identity(self) -> bytes:
        """Every choice."""
        return repr((self.axes, self.asked, self.first, self.population, self.seed)).encode()

    def over(self, axes: tuple[Axis, ...]) -> FurtherTablePlanner:
        """The planner for columns of these cells."""
        return replace(self, axes=axes)

    def laws(self, value: Mapping[str, NDArray[Any]], public: Mapping[str, Any]) -> list[ColumnLaw]:
        """The factors that `fit_table` would use if there were no further scores, those of labels first."""
        known = estimate_parts(value, public)
        rng = np.random.default_rng(self.seed)
        levels, bases = _levels(known, self.axes), _bases(known, self.axes)
        asked = self.asked
        factors = _feature_factors(known, levels, bases, self.population, rng, first=self.first, last=asked.labels)
        laws = {factor.column: LabelLaw(factor, levels) for factor in factors}
        order = [factor.column for factor in factors]
        if any(LABEL in three for three in asked.interactions):
            fresh = draw_groups(factors, LABEL_POPULATION * self.population, levels, rng)[0]
            if "scores" in value:
                law = LabelLaw.of(value, levels.groups, known.classes)
                laws[None] = replace(law, factor=corrected_label(known, law, value, public, fresh, bases))
            else:
                laws[None] = LabelLaw(label_factor(known, fresh, levels, bases), levels)
        targets = [LABEL if LABEL in three else max(three, key=order.index) for three in asked.interactions]
        return [ColumnLaw(t, laws[None if t == LABEL else t]) for t in (*asked.labels, *targets)]


def _levels(known: Estimates, axes: Sequence[Axis]) -> Levels:
    return Levels(known.groups, [blocks_of(known, i, axes[i].ordered) for i in range(known.columns)])


def _bases(known: Estimates, axes: Sequence[Axis]) -> list[Basis]:
    return [basis_of(known.one(i), axes[i], known.groups[i]) for i in range(known.columns)]


def _feature_factors(
    known: Estimates,
    levels: Levels,
    bases: list[Basis],
    population: int,
    rng: np.random.Generator,
    tell: Callable[[int], None] = lambda done: None,
    first: int = 0,
    last: tuple[int, ...] = (),
    further: Mapping[int, Correction] | None = None,
) -> list[Factor]:
    """p(x₁), p(x₂|x₁), …, each fitted over rows drawn from those before it, or corrected by its own scores."""
    rows = np.zeros((population, known.columns), dtype=np.int64)
    factors: list[Factor] = []
    dependence = known.dependence()
    order = order_of(dependence, first, last)
    for step, column in enumerate(order):
        if further is not None and column in further:
            factors.append(further[column].corrected(known, rows, bases))
        else:
            parents = sorted(order[:step], key=lambda j: -dependence[column, j])[:MAX_PARENTS]
            factors.append(_feature_factor(known, column, sorted(parents), rows, levels, bases))
        z = levels.one_hot(rows, factors[-1].features)
        rows[:, column] = draw(z, factors[-1].theta, factors[-1].bias, rng)
        tell(step + 1)
    return factors


def order_of(dependence: Floats, first: int = 0, last: tuple[int, ...] = ()) -> list[int]:
    """Start at the column that depends most on all others; go on with the one that depends most on any so far.

    The `first` columns come before all others, the columns in `last` after all others, as they are given.
    """
    ahead = [column for column in range(first or len(dependence)) if column not in last]
    order = [max(ahead, key=lambda i: float(dependence[i].sum()))]
    for columns in (ahead, range(len(dependence))):
        left = set(columns) - set(order) - set(last)
        while left:
            following = max(sorted(left), key=lambda i: float(dependence[i, order].max()))
            order.append(following)
            left.discard(following)
    return [*order, *last]


def blocks_of(known: Estimates, column: int, ordered: bool) -> NDArray[np.int64]:
    """The block of every group: runs of about equal mass along the order or, without one, by the label's share.

    Blocks hold more records than groups do, so an interaction of two columns is visible through more noise.
    """
    one = known.one(column)
    rank = np.arange(len(one))
    if not ordered and known.classes > 1:
        rank = np.argsort(known.by_label[column][:, -1] / one, kind="stable")
    middle = np.cumsum(one[rank]) - 0.5 * one[rank]
    out = np.empty(len(one), dtype=np.int64)
    out[rank] = np.minimum((BLOCKS * middle / one.sum()).astype(np.int64), BLOCKS - 1)
    return np.unique(out, return_inverse=True)[1].astype(np.int64)


def _feature_factor(
    known: Estimates, column: int, parents: list[int], rows: NDArray[np.int64], levels: Levels, bases: list[Basis]
) -> Factor:
    """One column given its parents, each alone; how much each adds is estimated from its counts (`group_basis`)."""
    shares, n = known.one(column), known.records
    own = bases[column]
    moments, penalty = [np.empty((0, len(shares)))], [np.empty((0, own.vectors.shape[1]))]
    for j in parents:
        spread, other = known.two_spread(j, column), known.one(j)
        table = known.two(j, column)
        moments.append(on_population(table, rows[:, j], shares, spread / n))
        excess = n * (table - np.outer(other, shares))
        penalty.append(pair_ridge(excess, bases[j], own, (other, shares), spread, n))
    features = tuple((j,) for j in parents)
    z = levels.one_hot(rows, features)
    both = stacked([bases[j] for j in parents]), own.vectors
    fitted = fit_conditional(z, np.concatenate(moments), shares, np.concatenate(penalty), n, bases=both)
    return Factor(column, features, *fitted)
