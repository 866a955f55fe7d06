"""Laws of further labels and of named interactions: made from noisy marginals, corrected by scores; it sees no record.

A further label is drawn after all other columns and before the first label, so that its law given those is fitted
directly, as the label's is. The factors that `table_fit` fits to pairs of columns are the laws that are scored
(`privot.mechanisms.FurtherScores`). What a law lacks beside single columns is fitted as for the label
(`label_model.additive_correction`). What it lacks beside two columns a, b together is written as

    θ_{(g,h),k} = Σ_{u,v} f_u(g)·f_v(h)·B_{(u,v),k},     B ~ N(0, τ²),

f the functions of each column's groups (`group_basis`), of which an ordered column gives the first few; τ is estimated
from the scores by blocks of functions, so that an interaction which noise hides is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import softmax

from privot.errors import DataError
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.further_scores import InteractionScore, LabelScore, Score
from privot.mechanisms.table_counts.group_shares import GroupShares
from privot.synthesis.tabular.column_laws.conditional import Floats, one_hot
from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates
from privot.synthesis.tabular.column_laws.group_basis import Basis
from privot.synthesis.tabular.label_laws.additive_label import MAX_COEFFICIENTS, fit_additive
from privot.synthesis.tabular.label_laws.label_model import (
    LabelLaw,
    additive_correction,
    additive_strengths,
    label_totals,
)
from privot.synthesis.tabular.table_model import Factor, Levels
from privot.tables.codec import TableCodec

MAX_FUNCTIONS = 6
"""How many functions an ordered column gives to an interaction: its spikes and low degrees."""
TOGETHER = (0.01, 1.5)
"""Bounds on the estimated τ of an interaction."""
_NOT_SCORES = "This is not a release of a table's marginals and further scores."


@dataclass(frozen=True)
class Asked:
    """What a schema asks for beyond its first label, by places of columns; see `Schema`.

    `labels` are further labels, in the order in which they are drawn: the last one named first, so that the law of an
    earlier one is fitted beside all that come after it. `interactions` are three columns each, `LABEL` for the label.
    """

    labels: tuple[int, ...] = ()
    interactions: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, codec: TableCodec) -> Asked:
        """What the schema of `codec` asks for."""
        schema = codec.schema.learned
        places = {column.name: place for place, column in enumerate(codec.features)}
        if schema.label is not None:
            places[schema.label] = LABEL
        three = [sorted(places[name] for name in schema.interaction(names)) for names in schema.interactions]
        labels = tuple(places[name] for name in reversed(schema.further_labels))
        return cls(labels, tuple((a, b, c) for a, b, c in three))

    def __bool__(self) -> bool:
        return bool(self.labels or self.interactions)

    def before(self, label: int, columns: int) -> tuple[int, ...]:
        """The columns that are drawn before a further label, of so many in all."""
        later = self.labels[self.labels.index(label) :]
        return tuple(column for column in range(columns) if column not in later)

    def scores(self, columns: int, label_sigmas: Sequence[float], interaction_sigmas: Sequence[float]) -> list[Score]:
        """What is scored, with its noise."""
        out: list[Score] = [
            LabelScore(label, self.before(label, columns), sigma)
            for label, sigma in zip(self.labels, label_sigmas, strict=True)
        ]
        paired = zip(self.interactions, interaction_sigmas, strict=True)
        return [*out, *(InteractionScore(three, sigma) for three, sigma in paired)]


@dataclass(frozen=True, eq=False)
class ColumnLaw:
    """The law of the column `target` (`LABEL`: the label) by groups, and how it is written into a release."""

    target: int
    law: LabelLaw

    def probabilities(self, groups: NDArray[np.int64]) -> Floats:
        """(rows, classes), from (rows, columns)."""
        return self.law.probabilities(groups)

    @property
    def predictor(self) -> GroupShares:
        """The same law as plain arrays."""
        return self.law.predictor

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Those of the law; the release has the groups and the target."""
        return self.law.arrays()


@dataclass(frozen=True, eq=False)
class Correction:
    """One law as it was scored, and its scores by sets of columns: (columns, scores of (cells, classes − 1), σ)."""

    law: LabelLaw
    parts: list[tuple[tuple[int, ...], Floats, float]]

    def corrected(self, known: Estimates, rows: NDArray[np.int64], bases: list[Basis]) -> Factor:
        """The law moved to where its scores would vanish, over `rows` drawn from the model of the columns before.

        Single columns come first; then what is left beside two columns together.
        """
        factor = self.law.factor
        if len(factor.bias) < 2:
            return factor
        totals = label_totals(known) if factor.column is None else _column_totals(known, factor.column)
        alone = [part for part in self.parts if len(part[0]) == 1]
        width = sum(len(scores) for _, scores, _ in alone)
        if 0 < width * (len(factor.bias) - 1) <= 2 * MAX_COEFFICIENTS:
            factor = _beside_columns(factor, self.law.levels, alone, known.records, rows, bases, totals)
        for part in self.parts:
            if len(part[0]) == 2:
                factor = _beside_two(factor, self.law, part, known.records, rows, bases, totals)
        return factor


def corrections(
    value: Mapping[str, Any], public: Mapping[str, Any], groups: list[NDArray[np.int64]], classes: int
) -> dict[int, Correction]:
    """By target, what a release says of laws beyond the first scores; nothing where it has none."""
    out: dict[int, Correction] = {}
    sizes = [int(g.max()) + 1 for g in groups]
    try:
        for place, stated in enumerate(public.get("further", [])):
            prefix, named = f"further.{place}.", tuple(int(c) for c in stated["columns"])
            target, sigma = int(value[prefix + "target"]), float(stated["sigma"])
            if target not in named or max(named) >= len(groups):
                raise ValueError
            own = {name.removeprefix(prefix): array for name, array in value.items() if name.startswith(prefix)}
            values = classes if target == LABEL else sizes[target]
            law = LabelLaw.of(own, groups, values)
            law = replace(law, factor=replace(law.factor, column=None if target == LABEL else target))
            others = tuple(column for column in named if column != target)
            sets = (tuple(sorted(others)),) if stated["together"] else tuple((column,) for column in others)
            cells = [int(np.prod([sizes[column] for column in places])) for places in sets]
            scores = np.asarray(value[prefix + "scores"], dtype=np.float64).reshape(sum(cells), values - 1)
            split = np.split(scores, np.cumsum(cells)[:-1])
            parts = [(places, part, sigma) for places, part in zip(sets, split, strict=True)]
            out.setdefault(target, Correction(law, [])).parts.extend(parts)
    except (KeyError, TypeError, ValueError, IndexError):
        raise DataError(_NOT_SCORES) from None
    return out


def _column_totals(known: Estimates, column: int) -> tuple[Floats, Floats]:
    """The number of records of each group of a column but the first, and its variance, at least that of one record."""
    spread = np.square(known.spread[column]).sum(axis=1)
    return known.records * known.one(column)[1:], spread[1:] + 1.0


def _beside_columns(
    factor: Factor,
    levels: Levels,
    parts: list[tuple[tuple[int, ...], Floats, float]],
    records: float,
    rows: NDArray[np.int64],
    bases: list[Basis],
    totals: tuple[Floats, Floats],
) -> Factor:
    """The law with its coefficients of single columns corrected; those of columns that it lacks are added."""
    sets = tuple(places for places, _, _ in parts)
    z = levels.one_hot(rows, sets)
    own = [bases[places[0]] for places in sets]
    scores, sd = np.concatenate([part for _, part, _ in parts]), parts[0][2]
    offsets = levels.one_hot(rows, factor.features) @ factor.theta + factor.bias
    moved, bias = additive_correction(z, offsets, scores, sd, own, totals, records)
    theta = dict(zip(factor.features, _split(factor.theta, levels, factor.features), strict=True))
    for places, move in zip(sets, _split(moved, levels, sets), strict=True):
        theta[places] = theta[places] + move if places in theta else move
    return Factor(factor.column, tuple(theta), np.concatenate(list(theta.values())), factor.bias + bias)


def _split(theta: Floats, levels: Levels, features: Sequence[tuple[int, ...]]) -> list[Floats]:
    return np.split(theta, np.cumsum([levels.width(feature) for feature in features])[:-1])


def _beside_two(
    factor: Factor,
    law: LabelLaw,
    part: tuple[tuple[int, ...], Floats, float],
    records: float,
    rows: NDArray[np.int64],
    bases: list[Basis],
    totals: tuple[Floats, Floats],
) -> Factor:
    """`factor`, the law moved so far, with an interaction of two columns added: B at its posterior mode.

    The scores are those of `law` as it was scored: what `factor` has made up for since is subtracted.
    """
    places, scores, sd = part
    basis = together(*(bases[place] for place in places))
    codes, scale = law.levels.codes(rows, [places])[:, 0], records / len(rows)
    offsets = law.levels.one_hot(rows, factor.features) @ factor.theta + factor.bias
    chance = softmax(offsets, axis=1)[:, 1:]
    before = law.levels.one_hot(rows, law.factor.features) @ law.factor.theta + law.factor.bias
    scored = softmax(before, axis=1)[:, 1:]
    cells = one_hot(codes[:, None], [len(scores)])
    varied = scale * (cells.T @ (chance * (1.0 - chance)))
    left = scores + scale * (cells.T @ (scored - chance))
    prior = additive_strengths(left, varied, sd**2 + varied, [basis], TOGETHER)
    # functions in place of cells: far fewer coefficients, and the same law
    z = csr_matrix(basis.vectors[codes])
    moments = scale * (z.T @ scored) + basis.vectors.T @ scores
    variance = np.square(basis.vectors).T @ (sd**2 + varied)
    found, bias = fit_additive(z, offsets, moments, variance, totals, records, prior)
    theta = np.concatenate([factor.theta, basis.vectors @ found])
    return Factor(factor.column, (*factor.features, places), theta, factor.bias + bias)


def together(left: Basis, right: Basis) -> Basis:
    """Products of the functions of two columns, over pairs of their groups; of ordered columns the first few alone."""
    some = [_first(basis) for basis in (left, right)]
    vectors: Floats = np.kron(some[0].vectors, some[1].vectors).astype(np.float64)
    blocks = (some[0].blocks[:, None] * (int(some[1].blocks.max(initial=0)) + 1) + some[1].blocks[None, :]).ravel()
    return Basis(vectors, blocks)


def _first(basis: Basis) -> Basis:
    # a column without an order has one block, in which no function comes first
    if not basis.blocks.any():
        return basis
    return Basis(basis.vectors[:, :MAX_FUNCTIONS], basis.blocks[:MAX_FUNCTIONS])


def functions_of(axis: Axis, groups: int) -> int:
    """The most functions that a column of `axis` with so many groups gives to an interaction."""
    return min(groups, MAX_FUNCTIONS) if axis.ordered else groups
