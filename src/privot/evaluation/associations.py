"""How two columns of any kinds go together, in synthetic rows beside real ones; as confidential as the real rows.

two numbers, ordinals or booleans     Spearman's rank correlation ρ, −1 to 1 (heavy tails do not rule it)
one of them and a category            correlation ratio η of the ranks, 0 to 1: √(variance between / variance)
two categories                        Cramér's V with its bias removed, 0 to 1
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from privot.errors import brief
from privot.evaluation.table_figures import MAX_COLUMNS, Coded, cramers_v
from privot.tables.columns import Column

STRONG, KEPT = 0.3, 0.5
"""A strength from which on an association is said to be lost where synthetic rows have less than this share of it."""
MAX_ROWS = 20_000
WORST = 10

Values = tuple[Column, NDArray[np.float64]]


def association(first: Values, second: Values) -> tuple[str, float]:
    """The measure that fits two columns of coded values, and its value; rows where one of them is missing are left out.

    >>> age, pay = Column("age", "integer", 0, 9), Column("pay", "integer", 0, 9)
    >>> association((age, np.array([0.1, 0.2, 0.3])), (pay, np.array([0.9, 0.5, 0.4])))
    ('ρ', -1.0)
    """
    return _association(_Ranked(*first), _Ranked(*second))


class _Ranked:
    """A column, which of its values are known, and their ranks, which are found once for all pairs."""

    def __init__(self, column: Column, values: NDArray[np.float64]) -> None:
        self.column, self.values, self.known = column, values, _known(column, values)
        self._ranks: NDArray[np.float64] | None = None

    def ranks(self, at: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Ranks of the values at `at` among themselves."""
        if not at.all():
            return rankdata(self.values[at]) if at.any() else self.values[at]
        if self._ranks is None:
            self._ranks = rankdata(self.values)
        return self._ranks


def _association(first: _Ranked, second: _Ranked) -> tuple[str, float]:
    known = first.known & second.known
    ordered = [_ordered(both.column) for both in (first, second)]
    if all(ordered):
        return "ρ", _correlation(first.ranks(known), second.ranks(known))
    if any(ordered):
        number, category = (first, second) if ordered[0] else (second, first)
        return "η", _ratio(number.ranks(known), category.values[known].astype(np.int64))
    pair = [(both.column, both.values[known]) for both in (first, second)]
    cells = [values.astype(np.int64) for _, values in pair]
    return "V", cramers_v(cells[0], len(pair[0][0].words), cells[1], len(pair[1][0].words))


def association_gaps(made: Coded, real: Coded) -> dict[str, Any]:
    """Every pair of columns in both tables: the mean gap, the largest gaps, and those that are lost, as JSON types."""
    ours, theirs = ([_Ranked(*c) for c in _some(coded).columns()[:MAX_COLUMNS]] for coded in (made, real))
    found = []
    for i, j in combinations(range(len(ours)), 2):
        kind, real_value = _association(theirs[i], theirs[j])
        _, value = _association(ours[i], ours[j])
        found.append((ours[i].column.name, ours[j].column.name, kind, round(value, 4), round(real_value, 4)))
    worst = sorted(found, key=lambda entry: -abs(entry[3] - entry[4]))
    lost = [entry for entry in worst if is_lost(entry[3], entry[4])]
    return {
        "mean_gap": float(np.mean([abs(entry[3] - entry[4]) for entry in found])) if found else 0.0,
        "worst": [list(entry) for entry in worst[:WORST]],
        "lost": [link_sentence(*entry) for entry in lost[:WORST]],
    }


def is_lost(synthetic: float, real: float) -> bool:
    """Whether an association that is strong in real rows is less than half as strong, or of the other sign."""
    return abs(real) >= STRONG and (synthetic * real < 0.0 or abs(synthetic) < KEPT * abs(real))


def link_sentence(first: str, second: str, kind: str, synthetic: float, real: float) -> str:
    """How two columns go together in synthetic rows, beside real ones."""
    return f"Columns {brief(first)} and {brief(second)}: {kind} = {synthetic:.2f}, of real records {real:.2f}."


def _some(coded: Coded) -> Coded:
    if len(coded.rows) <= MAX_ROWS:
        return coded
    kept = np.random.default_rng(0).permutation(len(coded.rows))[:MAX_ROWS]
    return Coded(coded.rows[kept], None if coded.labels is None else coded.labels[kept], coded.codec)


def _known(column: Column, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = values >= 0.0 if column.is_number else values < len(column.words)
    return known


def _ordered(column: Column) -> bool:
    return column.is_number or column.type in ("ordinal", "boolean")


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 3 or a.std() == 0.0 or b.std() == 0.0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ratio(ranks: NDArray[np.float64], groups: NDArray[np.int64]) -> float:
    """√(variance of the groups' means / variance), less what chance would give (Kelley's ε², the unbiased η²)."""
    n, whole = len(ranks), float(ranks.var()) if len(ranks) else 0.0
    if n < 3 or whole == 0.0:
        return 0.0
    counts = np.bincount(groups)
    means = np.bincount(groups, ranks) / np.maximum(counts, 1)
    between = float((counts * (means - ranks.mean()) ** 2).sum() / n) / whole
    k = int((counts > 0).sum())
    return float(np.sqrt(max(0.0, 1.0 - (1.0 - between) * (n - 1) / max(n - k, 1))))
