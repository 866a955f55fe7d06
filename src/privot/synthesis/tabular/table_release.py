"""Plans the one private release of a table: its marginals, and the noise for a budget.

Everything here follows from the schema and the budget; no record is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from privot.accounting import account, calibrate
from privot.accounting.events import Event
from privot.common.privacy_unit import Unit
from privot.errors import UsageError, brief
from privot.evaluation.schema_axes import axes_of, grids_of
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.chosen_cells import DEFAULT_TREE, ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import MAX_CELLS
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.synthesis.tabular.label_laws.additive_label import MAX_COEFFICIENTS
from privot.synthesis.tabular.label_laws.further_laws import Asked, functions_of
from privot.synthesis.tabular.table_fit import FurtherTablePlanner, TablePlanner
from privot.tables.codec import TableCodec

FINE_SHARE, LABEL_SHARE, PAIR_SHARE, SCORE_SHARE = 0.2, 0.1, 0.45, 0.25
"""Shares of the budget (in 1/σ², which is additive) for the fine one-way counts, the counts by class, the pairs and the
scores. The share of a part that a table does not have goes to the others, in proportion."""
INTERACTION_SHARE = 0.1
"""The share for the scores of all named interactions, evenly divided; the shares of the other parts shrink in
proportion. Further labels share the scores' part evenly with the first."""
TREE_SHARE = 0.03
"""What of the share of the fine counts goes to the trees by which cells are chosen, in a table whose columns all have
one; in proportion where fewer have."""
MIN_SCALE = 2.0**-9
"""The smallest noise that can be added to counts safely; no realistic budget needs so little."""
MOST_GROUPS = (24, 16, 10)
"""About how many groups a column may have; fewer where there are so many columns that tables would grow too large."""
_MORE_GROUPS = 8
"""Groups beyond `most` that a column may well have: values that stand alone."""
MAX_CLASSES, MAX_PAIRS_BY_CLASS = 4, 15
"""With more labels, or more pairs, pairs of columns are not counted by class: the sum over classes would carry more
noise into the model of the columns, and noise would hide the interaction of a pair with the label."""


OverCells = GroupedMarginals | ScoredMarginals | FurtherScores
TableMechanism = OverCells | ChosenCells


def table_mechanism(
    codec: TableCodec,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str,
    compact: bool = True,
    unit: Unit | None = None,
) -> TableMechanism:
    """The mechanism that spends (ε, δ) on this schema's marginals: give it to `Vault.release`.

    The parts get σ = s·Δ/√f, Δ the sensitivity and f the share of each, so that their composition is one Gaussian
    mechanism of noise s per unit of sensitivity; s is calibrated to the budget, for one record or for one privacy
    `unit`. `compact` says which layout of rows the vault holds.
    """
    adjacency = Adjacency.parse(adjacency)
    dim = len(codec.features) if compact else codec.dim
    count = 2 if adjacency is Adjacency.REPLACE_ONE else None
    facts = Facts(dim, count, codec.bound(compact), adjacency, codec.classes, unit=unit)
    make = scaled_mechanism(codec, adjacency, compact)

    def cost(scale: float) -> Event:
        return facts.cost(make(max(scale, MIN_SCALE)).event(facts))

    if account(cost(MIN_SCALE), delta).epsilon() <= epsilon:
        return make(MIN_SCALE)
    return make(calibrate(cost, epsilon=epsilon, delta=delta))


def scaled_mechanism(
    codec: TableCodec, adjacency: Adjacency, compact: bool = True, first: int = 0
) -> Callable[[float], TableMechanism]:
    """From s, the noise per unit of sensitivity of all parts together, to the mechanism for this schema.

    The `first` columns are drawn before all others (`fit_table`).
    """
    axes, asked = axes_of(codec, compact), Asked.of(codec)
    pairs = math.comb(len(axes), 2)
    by_class = codec.classes is not None and codec.classes <= MAX_CLASSES and pairs <= MAX_PAIRS_BY_CLASS
    classes = codec.classes or 1
    rule = group_rule(axes, classes, asked)
    check_asked(codec, axes, rule, asked)
    grids = grids_of(codec, compact)
    trees = sum(grid is not None for grid in grids)
    tree_share = TREE_SHARE * trees / len(axes)
    first_scored = 0 < _coefficients(axes, rule, classes) <= MAX_COEFFICIENTS
    scored = first_scored + len(asked.labels)
    shares = [
        tree_share,
        FINE_SHARE - tree_share,
        LABEL_SHARE if classes > 1 else 0.0,
        PAIR_SHARE if pairs else 0.0,
        SCORE_SHARE if scored else 0.0,
        INTERACTION_SHARE if asked.interactions else 0.0,
    ]
    # an exact 0 at the end leaves the sum as it is, to the last bit
    tree_part, fine_part, label_part, pair_part, score_part, named_part = (share / sum(shares) for share in shares)
    score_part /= max(scored, 1)
    planner = TablePlanner(axes, last=asked.labels)

    def make(scale: float) -> TableMechanism:
        then = over_cells(scale)
        if not trees:
            return then
        runs = trees * len(DEFAULT_TREE.sizes)
        return ChosenCells(grids, scale * math.sqrt(runs / tree_part), then)

    # replacing a record moves counts by √2 and scores by 2: σ is in units of the former
    replaced = math.sqrt(2.0) if adjacency is Adjacency.REPLACE_ONE else 1.0

    def over_cells(scale: float) -> OverCells:
        then = first_scores(scale)
        if not asked:
            return then
        further = FurtherTablePlanner(axes, asked, first)
        ones = asked.scores(len(axes), [1.0] * len(asked.labels), [1.0] * len(asked.interactions))
        made = FurtherScores(then, tuple(ones), further)
        units = [made.sensitivity(score, adjacency) / replaced for score in ones]
        few = len(asked.labels)
        labels = [scale * unit / math.sqrt(score_part) for unit in units[:few]]
        parts = [scale * unit / math.sqrt(named_part / len(units[few:])) for unit in units[few:]]
        return replace(made, scores=tuple(asked.scores(len(axes), labels, parts)))

    def first_scores(scale: float) -> GroupedMarginals | ScoredMarginals:
        fine = scale * math.sqrt(len(axes) / fine_part)
        coarse = scale * math.sqrt(pairs / pair_part) if pairs else scale
        labelled = scale * math.sqrt(len(axes) / label_part) if label_part else None
        counts = GroupedMarginals(axes, codec.classes, (fine, coarse), by_class, rule, label_sigma=labelled)
        if not first_scored:
            return counts
        unit = ScoredMarginals(counts, 1.0, planner).sensitivity(adjacency)
        unit /= replaced
        return ScoredMarginals(counts, scale * unit / math.sqrt(score_part), planner)

    return make


def check_asked(codec: TableCodec, axes: Sequence[Axis], rule: GroupRule, asked: Asked) -> None:
    """Refuse, before anything is paid, further labels and interactions whose scores have too many coefficients."""
    widths = _widths(axes, rule)
    advice = "merge categories, leave columns out, or leave it out"
    for label in asked.labels:
        if _label_coefficients(axes, rule, asked, label) > MAX_COEFFICIENTS:
            name = codec.features[label].name
            raise UsageError(f"The label {brief(name)} has too many values beside so many columns: {advice}.")
    for three, names in zip(asked.interactions, codec.schema.interactions, strict=True):
        for target in (LABEL,) if LABEL in three else three:
            values = codec.classes or 1 if target == LABEL else widths[target]
            functions = [functions_of(axes[c], widths[c]) for c in three if c != target]
            if math.prod(functions) * (values - 1) > MAX_COEFFICIENTS:
                raise UsageError(f"The interaction {', '.join(map(brief, names))} has too many cells: {advice}.")


def _label_coefficients(axes: Sequence[Axis], rule: GroupRule, asked: Asked, label: int) -> int:
    """About how many coefficients the law of a further label will have, at most.

    Columns hardly ever have as many groups as the rule's bound; where all of them together do, the scores are left
    unused (`further_laws`), which no budget depends on.
    """
    widths = [min(axis.cells, rule.most + _MORE_GROUPS) for axis in axes]
    return (sum(widths[column] for column in asked.before(label, len(axes))) + 1) * (widths[label] - 1)


def group_rule(axes: Sequence[Axis], classes: int, asked: Asked | None = None) -> GroupRule:
    """The rule with the most groups per column with which the counts of all pairs are not too many, nor the scores.

    Where the scores are too many with every rule, they are left out, and the pairs decide alone.
    """
    asked = asked or Asked()
    rules = [GroupRule(most=most) for most in MOST_GROUPS]
    possible = [rule for rule in rules if _pair_cells(axes, rule) <= MAX_CELLS]
    if not possible:
        raise UsageError(f"The {len(axes)} columns have too many pairs to be counted: leave columns out of the schema.")
    scored = [
        rule
        for rule in possible
        if _coefficients(axes, rule, classes) <= MAX_COEFFICIENTS
        and all(_label_coefficients(axes, rule, asked, label) <= MAX_COEFFICIENTS for label in asked.labels)
    ]
    return (scored or possible)[0]


def _widths(axes: Sequence[Axis], rule: GroupRule) -> list[int]:
    """How many groups each column can have."""
    return [min(axis.cells, rule.bound) for axis in axes]


def _pair_cells(axes: Sequence[Axis], rule: GroupRule) -> int:
    widths = _widths(axes, rule)
    return (sum(widths) ** 2 - sum(width**2 for width in widths)) // 2


def _coefficients(axes: Sequence[Axis], rule: GroupRule, classes: int) -> int:
    """How many coefficients the law of the label can have; 0 with one class, whose law is known."""
    return (sum(_widths(axes, rule)) + 1) * (classes - 1)
