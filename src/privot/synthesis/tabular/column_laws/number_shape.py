"""The values of a number within its cells: how dense they lie, from noisy counts of the cells; it sees no record.

A cell is drawn evenly, so that cells of different densities beside each other make steps. Here they are cut further,
which is post-processing, and the parts get shares

  * that rise or fall in a straight line, as the densities of both neighbours say, where these agree which way (the
    slope of least size, as in monotone interpolation: van Leer 1979); a spike beside a cell tilts nothing;
  * that decay like a tail (`tail_law`) in the outermost groups.

A cell of a single value stays as it is, and cuts lie between two values that the column can have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.cell_shape import STANDS_OUT, cell_shares
from privot.synthesis.tabular.column_laws.tail_law import TailLaw
from privot.tables.cell_grid import POINT, step_of
from privot.tables.codec import scaled, values_at
from privot.tables.columns import Column

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PARTS = 4
"""Parts of a cell whose density rises or falls."""
TAIL_PARTS = 8
"""Parts of a cell of a tail."""
CLEARLY = 3.0
"""By how much the logarithm of the evidence for a tail must exceed that for even cells."""
LEVEL = 0.05
"""Slopes smaller than this share of the density are left out."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The cells of a column as they are drawn: `edges` in the scaled coordinate (of a number), groups and shares.

    Only the shares within one group are compared.
    """

    edges: Floats | None
    groups: Ints
    shares: Floats


@dataclass(frozen=True, eq=False)
class _Tail:
    """A law of the values of one group, outwards from `start`; `sign` is −1 at the lower end."""

    law: TailLaw
    start: float
    sign: float
    spike: float = 0.0
    """The share of the group in the cell before the start: a single value."""

    def shares(self, ends: Floats) -> Floats:
        """The shares of the cells between `ends`, the spike's among them."""
        out = (1.0 - self.spike) * np.diff(self.below(ends))
        out[0 if self.sign > 0.0 else -1] += self.spike
        return out

    def below(self, values: Floats) -> Floats:
        share = self.law.below(np.maximum(self.sign * (values - self.start), 0.0))
        return share if self.sign > 0.0 else 1.0 - share

    def cuts(self, low: float, high: float) -> Floats:
        """Parts between two values that grow outwards, the more the faster the law decays."""
        near, far = sorted((self.sign * (low - self.start), self.sign * (high - self.start)))
        scale = self.law.scale
        away = (near + scale) * ((far + scale) / (near + scale)) ** (np.arange(1, TAIL_PARTS) / TAIL_PARTS) - scale
        return np.sort(self.start + self.sign * away)


def shape_of(
    column: Column,
    axis: Axis,
    counts: Floats,
    groups: Ints,
    sd: float,
    of_groups: Floats,
    records: float | None = None,
    spread: Floats | None = None,
) -> Shape:
    """The shape of a column from noisy `counts` of its cells, of deviation `sd`, and the shares of its groups.

    `records` is their number, and `spread` the deviation of what is known of each group's, where these are known.
    """
    if axis.edges is None:
        return Shape(None, groups, cell_shares(counts, groups, axis, sd))
    present = axis.cells - int(axis.missing)
    coordinates = np.concatenate([[0.0], axis.edges, [1.0]])
    values, step = values_at(column, coordinates), step_of(column)
    if step is not None:
        # a value is drawn halfway around, also at the ends of the range
        values[0], values[-1] = values[0] - 0.5 * step, values[-1] + 0.5 * step
    least = POINT * (column.range[1] - column.range[0]) if step is None else step
    narrow = np.diff(values) <= 1.5 * least
    whole = None if records is None or spread is None else np.stack([records * of_groups, spread], axis=1)
    tails = _tails(counts, groups, values, sd, narrow, whole)
    of_cells = {group: tail.shares(values[_span(groups[:present], group)]) for group, tail in tails.items()}
    shares = cell_shares(counts, groups, axis, sd, of_cells)
    mass = shares / np.maximum(np.bincount(groups, shares)[groups], 1e-300) * of_groups[groups]
    slopes = _slopes(values, mass[:present], narrow)
    parents: list[int] = []
    parts: list[float] = []
    edges: list[float] = []
    for cell in range(present):
        tail = tails.get(int(groups[cell]))
        cuts = _cuts(values[cell], values[cell + 1], slopes[cell], None if narrow[cell] else tail, step)
        places = scaled(column, cuts)
        inside = (places > coordinates[cell]) & (places < coordinates[cell + 1])
        inside[1:] &= np.diff(places) > 0.0
        ends = np.concatenate([values[cell : cell + 1], cuts[inside], values[cell + 1 : cell + 2]])
        within = _within(ends, slopes[cell], tail)
        edges += [*places[inside], coordinates[cell + 1]]
        parents += [cell] * len(within)
        parts += list(within)
    if axis.missing:
        parents.append(present)
        parts.append(1.0)
    return Shape(np.array(edges[:-1]), groups[parents], shares[parents] * np.array(parts))


def _span(groups: Ints, group: int) -> slice:
    """The ends of the cells of a group, which are neighbours."""
    at = np.flatnonzero(groups == group)
    return slice(int(at[0]), int(at[-1]) + 2)


def _tails(
    counts: Floats, groups: Ints, values: Floats, sd: float, narrow: NDArray[np.bool_], whole: Floats | None
) -> dict[int, _Tail]:
    """The laws of the outermost groups; a single cell has none to fit.

    `whole` are the records of every group and the deviation of that.
    """
    out: dict[int, _Tail] = {}
    present = len(narrow)
    own = groups[:present]
    last = int(own.max(initial=0))
    if last == 0:
        return (
            {} if len(groups) > present and groups[-1] == 0 else _only_tail(counts[:present], values, sd, narrow, whole)
        )
    alone = len(groups) > present and int(groups[-1]) in (0, last)
    for group, sign in ((last, 1.0), (0, -1.0)):
        at = np.flatnonzero(own == group)
        if len(at) < 2 or (alone and int(groups[-1]) == group):
            continue
        near = np.flatnonzero(own == group - int(sign))
        wide = float(np.ptp(values[_span(own, group - int(sign))]))
        density = float(counts[near].sum()) / wide if len(near) > 1 and wide > 0.0 else None
        records = None if whole is None else (float(whole[group, 0]), float(whole[group, 1]))
        out[group] = _tail(counts[at], values[_span(own, group)], sd, sign, density, records)
    return out


def _tail(
    counts: Floats, ends: Floats, sd: float, sign: float, density: float | None, records: tuple[float, float] | None
) -> _Tail:
    start = float(ends[0] if sign > 0.0 else ends[-1])
    outwards = np.sort(sign * (ends - start))
    return _Tail(TailLaw(outwards, counts[:: int(sign)], sd, density, records), start, sign)


def _only_tail(
    counts: Floats, values: Floats, sd: float, narrow: NDArray[np.bool_], whole: Floats | None
) -> dict[int, _Tail]:
    """The law of the only group of a column, where something is to be seen in it.

    A single value at one end that holds much has what is left of the group's records as its tail. Without one, the
    group itself is a tail if that explains its counts clearly better than even cells do.
    """
    if len(counts) < 3:
        return {}
    records, spread = (float(counts.sum()), sd * len(counts) ** 0.5) if whole is None else map(float, whole[0])
    for sign, end, rest in ((1.0, 0, slice(1, None)), (-1.0, -1, slice(None, -1))):
        if narrow[end] and counts[end] > max(STANDS_OUT * sd, 0.5 * records):
            left = max(records - float(counts[end]), 0.0)
            ends = values[1:] if sign > 0.0 else values[:-1]
            tail = _tail(counts[rest], ends, sd, sign, None, (left, (spread**2 + sd**2) ** 0.5))
            return {0: replace(tail, spike=1.0 - left / max(records, 1.0))}
    known = (records, spread)
    even = records / len(counts)
    gap = -0.5 * float(np.square(counts - even).sum()) / sd**2 - 0.5 * float(
        np.log(1.0 / len(counts) / sd**2 + spread**-2)
    )
    tails = [_tail(counts, values, sd, sign, None, known) for sign in (1.0, -1.0)]
    best = max(tails, key=lambda tail: tail.law.evidence)
    return {0: best} if best.law.evidence > gap + CLEARLY else {}


def _slopes(values: Floats, mass: Floats, narrow: NDArray[np.bool_]) -> Floats:
    """s of every cell, whose density is in proportion to 1 + s·(2u − 1), u from 0 to 1 along it; |s| ≤ 1."""
    width = np.maximum(np.diff(values), 1e-300)
    density, middle = mass / width, 0.5 * (values[1:] + values[:-1])
    between = np.diff(density) / np.maximum(np.diff(middle), 1e-300)
    out = np.zeros(len(mass))
    if len(mass) > 2:
        left, right = between[:-1], between[1:]
        least = np.where(left * right > 0.0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0.0)
        out[1:-1] = np.clip(0.5 * least * width[1:-1] / np.maximum(density[1:-1], 1e-300), -1.0, 1.0)
    return np.where(narrow | (np.abs(out) < LEVEL), 0.0, out)


def _cuts(low: float, high: float, slope: float, tail: _Tail | None, step: float | None) -> Floats:
    """Where a cell is cut into parts."""
    if tail is not None:
        cuts = tail.cuts(low, high)
    elif slope != 0.0:
        cuts = low + (high - low) * np.arange(1, PARTS) / PARTS
    else:
        return np.empty(0)
    if step is not None:
        cuts = np.unique(low + step * np.rint((cuts - low) / step))
    return np.asarray(cuts[(cuts > low) & (cuts < high)])


def _within(ends: Floats, slope: float, tail: _Tail | None) -> Floats:
    """The shares of a cell's parts, which add up to 1."""
    at = (ends - ends[0]) / max(float(ends[-1] - ends[0]), 1e-300)
    out = np.diff(at + slope * (at * at - at) if tail is None else tail.below(ends))
    out = np.maximum(out, 0.0)
    total = float(out.sum())
    return out / total if total > 0.0 else np.diff(at)
