"""Decides from noisy counts where a number is cut into cells; it may see noisy counts only, never a record.

The counts are those of a tree over a fine grid: runs of neighbouring grid cells, and smaller runs within them (Hay,
Rastogi, Miklau & Suciu 2010). Cells are cut where the tree has its quantiles, so that each holds about as many records
as any other, and a grid cell that holds that many by itself, a spike, stands alone. The two outermost cells, which can
be long, are cut further, so that a tail can be seen to decay. The rule reads released numbers: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import UsageError
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import nearest_counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TreeRule:
    """Runs of `sizes` grid cells, each size a multiple of the next; at most `most` cells, no fewer than `least`.

    A cell should hold `sds` deviations of the noise with which it will be counted. Each of the two outermost cells is
    cut into `ends`, which are part of the `most`.
    """

    sizes: tuple[int, ...] = (64, 8, 1)
    most: int = 64
    least: int = 12
    sds: float = 3.0
    ends: int = 4

    def __post_init__(self) -> None:
        if not self.sizes or self.sizes[-1] != 1 or any(a <= b or a % b for a, b in pairwise(self.sizes)):
            raise UsageError("The runs of a tree are multiples of the next smaller ones, down to a single cell.")
        arguments.whole("The number of cells of a tree's rule", self.most, 2)
        arguments.whole("The least number of cells of a tree's rule", self.least, 2)
        arguments.whole("The number of outermost cells of a tree's rule", self.ends, 1)
        if not self.least + 2 * (self.ends - 1) <= self.most or not 0.0 <= self.sds < float("inf"):
            raise UsageError(
                "A tree's rule needs more cells than its least and its ends, and deviations of at least 0."
            )

    def levels(self, axis: Axis) -> tuple[Axis, ...]:
        """The axis by runs of each size, the longest runs first; a missing value has a run of its own.

        Every record stands in exactly one run of each level.
        """
        cells = np.arange(axis.cells - int(axis.missing))
        out = []
        for size in self.sizes:
            runs = cells // size
            out.append(axis.grouped(np.append(runs, runs[-1] + 1) if axis.missing else runs))
        return tuple(out)

    def cuts(self, axis: Axis, counts: list[Floats], sd: float, next_sd: float) -> tuple[float, ...]:
        """Those of the grid's edges that bound the cells, from noisy counts of every level, of deviation `sd`.

        `next_sd` is the deviation with which the cells will be counted.
        """
        assert axis.edges is not None
        mass = self.masses(counts, axis, sd)
        total = max(float(mass.sum()), 1.0)
        inner = self.most - 2 * (self.ends - 1)
        wanted = int(min(max(total / max(self.sds * next_sd, 1e-9), self.least), inner))
        chosen = _at_quantiles(mass, wanted)
        return tuple(axis.edges[cut - 1] for cut in _with_ends(chosen, len(mass), self.ends))

    def masses(self, counts: list[Floats], axis: Axis, sd: float) -> Floats:
        """About how many records each grid cell holds, the missing ones left out.

        From the longest runs down: the counts within a run are drawn to an even split of it, as far as noise alone
        explains that they differ from it (James & Stein), and made to add up to it.
        """
        present = [np.asarray(c, dtype=np.float64)[: len(c) - int(axis.missing)] for c in counts]
        mass = nearest_counts(present[0])
        for count, (size, smaller) in zip(present[1:], pairwise(self.sizes), strict=True):
            parent = np.arange(len(count)) // (size // smaller)
            whole = np.bincount(parent)
            finer = np.empty(len(count))
            for run in range(len(whole)):
                at = slice(run * (size // smaller), run * (size // smaller) + whole[run])
                finer[at] = _split(count[at], float(mass[run]), sd)
            mass = finer
        return mass


def _split(counts: Floats, total: float, sd: float) -> Floats:
    """Parts of `total` like noisy `counts`, as far as these differ from an even split by more than noise."""
    even = np.full(len(counts), total / len(counts))
    apart = counts - counts.mean()
    free = len(counts) - 1
    noise = sd**2 * (free + (2.0 * free) ** 0.5)
    kept = max(1.0 - noise / max(float(apart @ apart), 1e-300), 0.0)
    if kept == 0.0 or total <= 1.0:
        return even
    # nearest_counts keeps a total of at least 1
    parts = nearest_counts(even + kept * apart)
    out: Floats = parts * (total / float(parts.sum()))
    return out


def _at_quantiles(mass: Floats, wanted: int) -> set[int]:
    """Cuts before grid cells 1 … len − 1, fewer than `wanted`: at the quantiles, and on both sides of a spike."""
    ends = np.cumsum(mass)
    if not ends[-1] > 0.0:
        return set()
    asked = ends[-1] * np.arange(1, wanted) / wanted
    inside = np.minimum(np.searchsorted(ends, asked), len(mass) - 1)
    out: set[int] = set()
    for cell, times in zip(*np.unique(inside, return_counts=True), strict=True):
        if times > 1:
            # two quantiles or more in one grid cell: it stands alone
            out |= {int(cell), int(cell) + 1}
        else:
            start = ends[cell] - mass[cell]
            first = asked[np.searchsorted(inside, cell)]
            out.add(int(cell) + int(first - start > 0.5 * mass[cell]))
    return {cut for cut in out if 0 < cut < len(mass)}


def _with_ends(cuts: set[int], cells: int, ends: int) -> list[int]:
    """The same, with the first and the last cell cut into `ends` runs of about as many grid cells."""
    inner = sorted(cuts)
    first, last = (inner[0], inner[-1]) if inner else (cells, 0)
    more = {first * k // ends for k in range(1, ends)} | {last + (cells - last) * k // ends for k in range(1, ends)}
    return sorted({cut for cut in cuts | more if 0 < cut < cells})
