"""Releases noisy counts over fine grids first, cuts columns of numbers into cells by them, and then counts the cells.

The cells of a number matter: even ones are too wide where a few far values make the range, and the quantiles of the
records are private. So a small first part counts the runs of a public grid (`cell_tree`), a public rule cuts cells by
those noisy counts, and the other parts (`GroupedMarginals` and what scores its models) are as ever, over these cells.
All of it is one adaptive composition of Gaussian mechanisms, charged together before any runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.mechanisms.table_counts.cell_tree import TreeRule
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import Marginals, check_once
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.noise import NoiseSource

DEFAULT_TREE = TreeRule()


@dataclass(frozen=True)
class ChosenCells:
    """`grids` are the fine grids of the columns (None where cells are fixed), `then` what is released over the cells.

    The axes of `then` stand for cells that are not known yet: those of a column with a grid have as many cells as the
    rule can make, and only their number counts. `sigma` is the noise of every count of a grid's runs.

    The value is that of `then`, with `tree` (noisy counts of runs, one long array: the levels of the first grid, the
    levels of the second …), `edges` (where the columns with a grid are cut, one long array, a function of `tree`) and
    `cuts` (how many edges each of them has).

    Formal guarantees. A record stands in one run of every level of every grid, whatever it holds, so adding or removing
    it moves the tree by Δ = √(g·l) for g grids of l levels, and replacing it by √2·Δ (`Marginals`). The cells are a
    function of the noisy tree and of public numbers. What `then` costs does not depend on its cells: a record stands in
    one cell of every column, whatever the cells are, so its event is that of the axes that stand for them.
    """

    stable_name: ClassVar[str] = "privot.mechanisms.table_counts.chosen_cells.ChosenCells"

    grids: tuple[Axis | None, ...]
    sigma: float
    then: GroupedMarginals | ScoredMarginals | FurtherScores
    rule: TreeRule = DEFAULT_TREE
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        check_once(self.steps, self.seed)
        if len(self.grids) != len(self.axes) or all(grid is None for grid in self.grids):
            raise UsageError("Chosen cells need one grid per column, or None, and at least one grid.")
        for grid, axis in zip(self.grids, self.axes, strict=True):
            if grid is None:
                continue
            same = (grid.start, grid.width, grid.missing) == (axis.start, axis.width, axis.missing)
            if grid.edges is None or grid.groups is not None or not grid.ordered or not same:
                raise UsageError("A grid cuts the same numbers as the axis that stands for its cells.")
            if axis.edges is None or axis.cells - axis.missing < min(self.rule.most, grid.cells - grid.missing):
                raise UsageError("The axis that stands for cells not known yet has as many as the rule can make.")
        self.tree()
        # refused now, and not while it runs: a planner that knows one set of cells only
        self.over([() for grid in self.grids if grid is not None])

    @property
    def marginals(self) -> GroupedMarginals:
        """The counts over the cells, as far as they are known beforehand."""
        return self.then if isinstance(self.then, GroupedMarginals) else self.then.marginals

    @property
    def axes(self) -> tuple[Axis, ...]:
        """One axis per column; where there is a grid, it stands for cells that are not known yet."""
        return self.marginals.axes

    def tree(self) -> Marginals:
        """Every grid's runs of every size."""
        levels = tuple(level for grid in self.grids if grid is not None for level in self.rule.levels(grid))
        return Marginals(levels, tuple((i,) for i in range(len(levels))), self.sigma)

    def cut(self, counts: NDArray[np.float64]) -> list[tuple[float, ...]]:
        """The edges of the cells of every column with a grid; a function of noisy counts alone."""
        parts = np.split(counts, np.cumsum(self.tree().lengths)[:-1])
        depth, fine = len(self.rule.sizes), self.marginals.fine_deviation
        grids = [grid for grid in self.grids if grid is not None]
        return [
            self.rule.cuts(grid, parts[depth * place : depth * (place + 1)], self.sigma, fine)
            for place, grid in enumerate(grids)
        ]

    def over(self, edges: list[tuple[float, ...]]) -> GroupedMarginals | ScoredMarginals | FurtherScores:
        """`then` over cells that are known: `edges` of every column with a grid.

        Refuses edges that the grid does not have.
        """
        left, axes = list(edges), []
        if len(left) != sum(grid is not None for grid in self.grids):
            raise UsageError("Give the edges of every column with a grid.")
        for grid, axis in zip(self.grids, self.axes, strict=True):
            if grid is None:
                axes.append(axis)
                continue
            own = left.pop(0)
            if len(own) >= self.rule.most or not set(own) <= set(grid.edges or ()):
                raise UsageError("Cells are cut at edges of their column's grid, and no more than the rule makes.")
            axes.append(replace(grid, cells=len(own) + 1 + grid.missing, edges=own))
        if isinstance(self.then, GroupedMarginals):
            return replace(self.then, axes=tuple(axes))
        return self.then.over(tuple(axes))

    def chosen(self, value: Mapping[str, NDArray[Any]]) -> GroupedMarginals | ScoredMarginals | FurtherScores:
        """`then` over the cells that a release states."""
        cuts = [int(count) for count in value["cuts"]]
        if sum(cuts) != len(value["edges"]) or min(cuts, default=0) < 0:
            raise UsageError("The edges of a release are as many as its cuts say.")
        parts = np.split(np.asarray(value["edges"], dtype=np.float64), np.cumsum(cuts)[:-1])
        return self.over([tuple(float(e) for e in part) for part in parts])

    @property
    def needs(self) -> Needs:
        """Labels, where classes are stated."""
        return self.then.needs

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice, to the last bit."""
        return repr((self.grids, self.sigma, self.rule)).encode() + self.then.identity()

    def event(self, facts: Facts) -> Event:
        """All parts, one after another."""
        rest = self.then.event(facts)
        return Composed((self.tree().event(facts), *(rest.events if isinstance(rest, Composed) else (rest,))))

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
        """The tree, the cells, and everything over them."""
        if event != self.event(records.facts):
            raise UsageError("Chosen cells run on the event they made.")
        tree = self.tree()
        counts, said = tree.run(records, noise, tree.event(records.facts), 0)
        # from here on cells are made from released counts, and nothing else
        edges = self.cut(counts)
        then = self.over(edges)
        paid = then.event(records.facts)
        if paid != self.then.event(records.facts):
            raise UsageError("What is released over the chosen cells is not what was charged.")
        value, public = then.run(records, noise, paid, step)
        cut = {
            "tree": counts,
            "edges": np.array([e for own in edges for e in own], dtype=np.float64),
            "cuts": np.array([len(own) for own in edges], dtype=np.int64),
        }
        return {**value, **cut}, {**public, "tree": dict(said)}

    def summands(self, facts: Facts) -> list[CellCounts]:
        """What each pass over the records adds up; the axes that stand for the cells take their place."""
        tree = self.tree()
        return [CellCounts(tree.axes, tree.sets), *self.then.summands(facts)]
