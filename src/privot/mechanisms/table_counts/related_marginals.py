"""Releases the marginals of a parent table and of its tables of children, one after another, for one charge.

The vault holds one row per parent: the parent with its children side by side (`row_views`). Each table is counted by a
mechanism of its own, which sees that table's records alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event, Gaussian
from privot.accounting.units import group_event
from privot.common.block_sums import BlockSum, Totals
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import check_once
from privot.mechanisms.table_counts.row_views import ChildView, RowView, ViewedSums
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.mechanisms.table_counts.sibling_likeness import PARTS, SiblingSums, likeness_sensitivity, ranks_of
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma

TablePart = GroupedMarginals | ScoredMarginals | FurtherScores | ChosenCells


@dataclass(frozen=True)
class RelatedMarginals:
    """`tables`, each a mechanism for the records of one table and the view that makes these records of a row.

    The value of table number i has the names of its mechanism's value, after "i."; `public["tables"]` has what is
    public about each.

    Formal guarantees. Neighbours differ in one row, added or removed. A view makes at most m records of a row (`most`),
    whatever the row holds, and makes them of that row alone; so the records that a table's mechanism counts differ in
    at most m, all others are the same, and each of its sums moves by at most m·Δ, Δ its sensitivity for one record
    (triangle inequality; `privot.accounting.units.group_event`). m·Δ is reached by m children that are alike. Parents
    have m = 1. The mechanisms run one after another and see no earlier value, which is adaptive composition; what each
    of them promises of floating point holds as it is, because sums of counts are whole numbers.

    `siblings` has for every table of children the noise σ of how alike siblings are (`sibling_likeness`), or None; no
    entries, where nothing of it is released. A parent adds one vector of √(columns + 1) at most, whatever number of
    children it has: m does not enter. Ranks are functions of what the child's own mechanism has released. The value
    has `i.siblings`, a number for each of the child's columns, one for its label, and the number of parents with
    several children.

    Under replace-one nothing is claimed: the event of a unit is add-remove.
    """

    stable_name: ClassVar[str] = "privot.mechanisms.table_counts.related_marginals.RelatedMarginals"

    tables: tuple[tuple[TablePart, RowView], ...]
    assumptions: tuple[str, ...] = ()
    """What the guarantee states besides: which rows of a unit take part."""
    siblings: tuple[float | None, ...] = ()
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.tables:
            raise UsageError("Related tables need at least a table of parents.")
        check_once(self.steps, self.seed)
        if self.siblings and len(self.siblings) != len(self.tables):
            raise UsageError("The noise of likeness is stated for every table, None where it is not released.")
        for (_, view), sigma in zip(self.tables, self.siblings, strict=False):
            if sigma is not None:
                check_counting_sigma(sigma)
                check_counting_sigma(sigma * PARTS)
                if not isinstance(view, ChildView) or view.most < 2:
                    raise UsageError("Siblings are children of which a parent can have two.")

    @property
    def needs(self) -> Needs:
        """Sums, and no labels of the vault's: rows hold the labels of all tables."""
        return Needs(sums_only=True, shareable=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice, to the last bit."""
        said = b"\n".join(mechanism.identity() + repr(view).encode() for mechanism, view in self.tables)
        return said + repr(self.siblings).encode() if self.siblings else said

    def event(self, facts: Facts) -> Event:
        """What one *row*, a parent with its children, costs: all tables, one after another."""
        events: list[Event] = []
        for mechanism, view in self.tables:
            counted = group_event(mechanism.event(table_facts(view, facts)), view.most)
            assert counted is not None, "noisy counts are Gaussian"
            events += counted.events if isinstance(counted, Composed) else (counted,)
        for (_, view), sigma in zip(self.tables, self.siblings, strict=False):
            if sigma is not None and isinstance(view, ChildView):
                events.append(Gaussian(sigma, likeness_sensitivity(view, facts.adjacency), facts.adjacency))
        return Composed(tuple(events))

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
        """The values of all tables."""
        if event != self.event(records.facts):
            raise UsageError("Marginals run on the event they made.")
        value: dict[str, NDArray[Any]] = {}
        tables = []
        for place, (mechanism, view) in enumerate(self.tables):
            seen = _Seen(records, view)
            made, public = mechanism.run(seen, noise, mechanism.event(seen.facts), step)
            sigma = self.siblings[place] if self.siblings else None
            if sigma is not None and isinstance(view, ChildView):
                # ranks are made from what this table's mechanism has released, and nothing else
                summand = sibling_sums(mechanism, view, made)
                sums = records.sums(summand)[0]
                made = {**made, "siblings": add_noise_to_counts(sums, noise, sigma * PARTS) / PARTS}
                public = {**public, "siblings": {"sigma": sigma}}
            value |= {f"{place}.{name}": array for name, array in made.items()}
            tables.append(dict(public))
        return value, {"mechanism": "related marginals", "tables": tables}


def sibling_sums(mechanism: TablePart, view: ChildView, value: Mapping[str, NDArray[Any]]) -> SiblingSums:
    """What is summed for the siblings of one table, from the `value` that its mechanism released."""
    over = mechanism.chosen(value) if isinstance(mechanism, ChosenCells) else mechanism
    counts = over if isinstance(over, GroupedMarginals) else over.marginals
    axes, groups = counts.grouped_axes(value["groups"]), counts.by_axis(value["groups"])
    cells = np.split(np.asarray(value["fine"], dtype=np.float64), np.cumsum(counts.fine().lengths)[:-1])
    own, ranks = [], []
    for place in range(view.context, view.dim):
        own.append(axes[place])
        fine = cells[place].reshape(counts.axes[place].cells, -1).sum(axis=1)
        rank = np.trunc(ranks_of(fine, groups[place]) * PARTS).astype(np.int64)
        ranks.append(tuple(int(r) for r in rank) if axes[place].ordered else None)
    if view.classes is not None:
        own.append(Axis(LABEL, view.classes))
        ranks.append(None)
    return SiblingSums(view, tuple(own), tuple(ranks))


def table_facts(view: RowView, facts: Facts) -> Facts:
    """What is public about the records of one table."""
    return Facts(view.dim, None, facts.clip, facts.adjacency, view.classes)


class _Seen:
    """The records of one table, as its mechanism sees them: sums, and nothing else."""

    def __init__(self, records: Records, view: RowView) -> None:
        self.facts = table_facts(view, records.facts)
        self._records, self._view = records, view

    def sums(self, summand: BlockSum) -> Totals:
        return self._records.sums(ViewedSums(summand, self._view))

    @property
    def count(self) -> int:
        raise UsageError("Of one of several related tables there are sums only.")

    def rows(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        raise UsageError("Of one of several related tables there are sums only.")

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        raise UsageError("Of one of several related tables there are sums only.")

    def labels(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        raise UsageError("Of one of several related tables there are sums only.")
