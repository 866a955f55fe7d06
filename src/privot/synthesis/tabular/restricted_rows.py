"""Rows of a table's model that keep the schema's constraints and satisfy conditions; it sees no record.

All of it is post-processing of a release by public statements.

The model draws one column after another, p(x₁)·p(x₂|x₁)·…. A constraint leaves each column a support S_k that depends
on the columns before it. What was drawn outside is drawn again from the column's own law within S_k, and the columns
after it follow, so that a row is repaired and not thrown away. Whether a value is there is kept, as far as S_k allows
it: a value out of order is drawn again among values. (An empty value is never out of order; were it drawn among what is
allowed, each repair would make more of them.) With A_k the values that are there, that is the model Π q(x_k | x_<k) of

    q(x_k) = P(A_k | x_<k)·p(x_k | x_<k, S_k ∩ A_k) of a value,     p(x_k | x_<k) of an empty one,

where S_k has both, else p(x_k | x_<k, S_k).

Conditions leave a fixed support W_k besides. Rows are proposed from Π q(x_k | x_<k, W_k) with the weight

    w = Π Q(W_k | x_<k) ≤ 1,

and kept with probability w/max w. What is kept has the law of rows of the constrained model that happen to satisfy the
conditions (rejection sampling, von Neumann 1951, as if all were drawn and the others left out), and a rare condition
that hardly depends on other columns costs next to nothing. The mean of w is the share of such rows. How many are
proposed is bounded: where that is too few, an error states the share.

Conditions are checked on the values that are written, so what rounding undid is left out too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.errors import ConvergenceError, UsageError
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.conditional import Floats, draw, probabilities
from privot.synthesis.tabular.conditions import Condition
from privot.synthesis.tabular.table_model import LEAST_SHARE, Factor, TableModel
from privot.tables.codec import scaled
from privot.tables.columns import Column
from privot.tables.constraints.keeping import Rules, Support

MAX_PROPOSED = 1_000_000
"""Rows that are proposed for one sample, beyond three for each row asked for."""
BLOCK = 20_000
_POINT = 1e-12
"""The share of a cell that a single allowed number in it counts for: drawn where nothing else is allowed."""
_LEAST = 1e-290
"""Less than this is nothing: it could not be divided by."""

Ints = NDArray[np.int64]
Drawn = tuple[Floats, Ints | None]


def restricted_rows(model: TableModel, rows: int, seed: int, where: Sequence[Condition] = ()) -> Drawn:
    """Compact rows and labels of `model`, all of which keep the schema's constraints and satisfy `where`.

    Without either they are those of `model.sample_rows`. The same seed gives the same rows.

    Raises
    ------
    ConvergenceError
        Too few of the rows that may be proposed are such rows; the sentence states their share.
    """
    rules = Rules(model.codec.schema.learned)
    if not rules.named and not where:
        return model.sample_rows(rows, seed)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise UsageError(f"The number of rows must be a whole number of at least 1, got {rows!r}.")
    kept = _Kept(model, where)
    most = MAX_PROPOSED + 3 * rows
    place = 0
    while kept.count < rows:
        wanted = kept.wanted(rows)
        if kept.proposed + wanted > most and (kept.proposed >= most or kept.proposed >= 5 * BLOCK):
            raise ConvergenceError(kept.sentence(rows, most))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place, 1)))
        kept.add(*propose(model, min(max(wanted, 500), BLOCK), rules, where, rng), rng)
        place += 1
    return kept.rows(rows)


class _Kept:
    """Proposed rows that are kept: those with u ≤ w/max w, of the largest weight so far."""

    def __init__(self, model: TableModel, where: Sequence[Condition]) -> None:
        self.model, self.where = model, where
        self.proposed, self.total, self.largest = 0, 0.0, 0.0
        self._blocks: list[tuple[Floats, Ints | None, Floats]] = []
        self.count = 0

    def add(self, x: Floats, y: Ints | None, weight: Floats, rng: np.random.Generator) -> None:
        """Look at proposed rows with their weights."""
        ratio = weight / (1.0 - rng.random(len(x)))
        numbers = self.model.codec.numbers(x, y)
        for condition in self.where:
            weight = weight * condition.holds(numbers[condition.column.name])
        self.proposed += len(x)
        self.total += float(weight.sum())
        self.largest = max(self.largest, float(weight.max()))
        self._blocks.append((x, y, np.where(weight > 0.0, ratio, 0.0)))
        # what a larger weight has ruled out is forgotten
        held = [(block, block[2] >= max(self.largest, 1e-300)) for block in self._blocks]
        self._blocks = [(x[at], None if y is None else y[at], r[at]) for (x, y, r), at in held]
        self.count = sum(len(block[2]) for block in self._blocks)

    def wanted(self, rows: int) -> int:
        """How many more should be proposed for `rows` in all."""
        rate = max(self.count, 0.5) / self.proposed if self.proposed else 1.0
        return int(1.05 * (rows - self.count) / rate) + 20

    def rows(self, count: int) -> Drawn:
        """The first of them."""
        x = np.concatenate([block[0] for block in self._blocks])[:count]
        labels = [block[1] for block in self._blocks if block[1] is not None]
        return x, np.concatenate(labels)[:count] if labels else None

    def sentence(self, rows: int, most: int) -> str:
        """What is said where there are too few."""
        if not self.where:
            return "The constraints of the schema leave hardly any row of this model: loosen one of them."
        share = self.total / self.proposed
        rare = f"about {share:.2g} of all rows" if share else f"fewer than one of {self.proposed} rows"
        reachable = int(0.9 * most * self.count / self.proposed)
        advice = f"ask for at most {reachable} rows, or loosen a condition" if reachable else "loosen a condition"
        return f"Rows with {', '.join(map(str, self.where))} are {rare} of this model, too few for {rows}: {advice}."


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of one column beside its groups: the group of each, its share within, and where it lies."""

    column: Column
    groups: Ints
    within: Floats
    ends: Floats | None
    """Of a number, the coordinates between which the cells lie."""

    @classmethod
    def of(cls, model: TableModel, axes: Sequence[Axis], factor: Factor) -> _Cells:
        if factor.column is None:
            assert model.codec.schema.label is not None
            values = len(factor.bias)
            return cls(model.codec.schema[model.codec.schema.label], np.arange(values), np.ones(values), None)
        i = factor.column
        groups, shares = model.levels.groups[i], model.fine[i] + LEAST_SHARE
        edges = axes[i].edges
        ends = None if edges is None else np.concatenate([[0.0], edges, [1.0]])
        within = shares / np.bincount(groups, shares)[groups]
        return cls(model.codec.features[i], groups, within, ends)

    def span(self, support: Support) -> tuple[Floats, Floats]:
        """The allowed coordinates of numbers, as columns; whole numbers are drawn half a unit around each."""
        half = 0.5 if self.column.is_whole else 0.0
        low, high = self.column.range
        start = scaled(self.column, np.clip(support.low - half, low, high))
        stop = scaled(self.column, np.clip(support.high + half, low, high))
        return start[:, None], stop[:, None]

    def allowed(self, support: Support) -> Floats:
        """The share of each cell that is allowed, of shape (rows, cells)."""
        present, missing = support.present[:, None], support.missing[:, None]
        if self.ends is None:
            parts = support.words & present
        else:
            start, stop = self.span(support)
            below, above = self.ends[:-1], self.ends[1:]
            inside = np.minimum(above, stop) - np.maximum(below, start)
            some = (inside >= 0.0) & (support.low <= support.high)[:, None]
            parts = np.where(some, np.maximum(inside / (above - below), _POINT), 0.0) * present
        if len(self.groups) > parts.shape[1]:
            parts = np.concatenate([parts, missing], axis=1)
        return np.asarray(parts, dtype=np.float64)

    def repaired(self, law: Floats, allowed: Floats, drawn_again: bool) -> Floats:
        """`law` with its values scaled so that what is `allowed` of them has the share of all values.

        With `drawn_again`, for rows of which a value is not allowed: none is left empty where some value is allowed.
        """
        if not self.column.missing:
            return law
        out = law.copy()
        inside = (law[:, :-1] * allowed[:, :-1]).sum(axis=1)
        some = inside > _LEAST
        if drawn_again:
            out[some, -1] = 0.0
        else:
            out[some, :-1] *= (law[some, :-1].sum(axis=1) / inside[some])[:, None]
        return out

    def coordinates(self, cells: Ints, support: Support, rng: np.random.Generator) -> Floats:
        """A place in each cell, within what is allowed; −1 where the value is missing."""
        if self.ends is None:
            return cells.astype(np.float64)
        gone = cells >= len(self.ends) - 1
        at = np.where(gone, 0, cells)
        start, stop = self.span(support)
        below, above = np.maximum(self.ends[at], start[:, 0]), np.minimum(self.ends[at + 1], stop[:, 0])
        return np.where(gone, -1.0, below + rng.random(len(cells)) * np.maximum(above - below, 0.0))


def propose(
    model: TableModel,
    rows: int,
    rules: Rules,
    where: Sequence[Condition],
    rng: np.random.Generator,
    given: Floats | None = None,
    places: Floats | None = None,
) -> tuple[Floats, Ints | None, Floats]:
    """Rows within the constraints and conditions (up to rounding), their labels, and their weights.

    `given` of shape (rows, k) are the first k columns, which are then not drawn; the model must draw them before all
    others, and no constraint may name them. `places` are where in their laws the others are drawn, column by column,
    the label last; anywhere unless given.
    """
    codec, axes = model.codec, model.axes
    groups = np.zeros((rows, len(codec.features)), dtype=np.int64)
    x, labels, weight = np.empty((rows, len(codec.features))), None, np.ones(rows)
    drawn: dict[str, Floats] = {}
    known = 0 if given is None else given.shape[1]
    if given is not None:
        x[:, :known] = given
        for column_place in range(known):
            groups[:, column_place] = model.levels.groups[column_place][axes[column_place].index(x, None)]
    for factor in model.factors:
        if factor.column is not None and factor.column < known:
            continue
        cells = _Cells.of(model, axes, factor)
        column, i = cells.column, factor.column
        z = model.levels.one_hot(groups, factor.features)
        bound = rules.support(column.name, drawn, rows)
        asked = [condition for condition in where if condition.column.name == column.name]
        place = None if places is None else places[:, -1 if i is None else i - known]
        value = draw(z, factor.theta, factor.bias, rng, place)
        coordinates = value.astype(np.float64) if i is None else model.coordinates_of(i, axes[i], value, rng)
        if bound is not None or asked:
            allowed = wanted = bound or Support.free(column, rows)
            again = np.arange(rows)
            if asked:
                conditions = Support.free(column, rows)
                for condition in asked:
                    condition.restrict(conditions)
                wanted = allowed.within(conditions)
            else:
                again = np.flatnonzero(~allowed.allows(column, codec.column_numbers(column, coordinates)))
            law = probabilities(z[again], factor.theta, factor.bias)[:, cells.groups] * cells.within
            law = cells.repaired(law, cells.allowed(allowed.at(again)), drawn_again=not asked)
            inside = law * cells.allowed(wanted.at(again))
            total = inside.sum(axis=1)
            of = (law * cells.allowed(allowed.at(again))).sum(axis=1) if asked else np.where(total > 0.0, total, 1.0)
            weight[again] *= np.where(of > 0.0, total / np.maximum(of, 1e-300), 0.0)
            chosen = _pick(inside, rng)
            value[again] = cells.groups[chosen]
            coordinates[again] = cells.coordinates(chosen, wanted.at(again), rng)
        if i is None:
            labels = value
        else:
            groups[:, i], x[:, i] = value, coordinates
        if column.name in rules.named:
            drawn[column.name] = codec.column_numbers(column, coordinates)
    within = {} if model.copula is None else model.copula.within(groups, rng)
    bounded = rules.named | {condition.column.name for condition in where}
    for i, own in within.items():
        # places of all others depend on the groups alone, so they may be drawn again together
        if i >= known and codec.features[i].name not in bounded:
            x[:, i] = model.coordinates_of(i, axes[i], groups[:, i], rng, own)
    return x, labels, weight


def _pick(weights: Floats, rng: np.random.Generator) -> Ints:
    """A cell for each row in proportion to its weights; any where all of them are 0."""
    ends = weights.cumsum(axis=1)
    at = rng.random((len(ends), 1)) * ends[:, -1:]
    # the first that is above, so that no cell of weight 0 is chosen
    out: Ints = np.minimum((ends <= at).sum(axis=1), weights.shape[1] - 1)
    return out
