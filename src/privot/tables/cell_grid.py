"""The fine grid of a number without a stated scale: every place where its cells may be cut, from the schema alone.

A grid has to be fine wherever records could lie, which nobody knows beforehand. So it is the union of cuts that are
even over the range and of cuts that are even in the logarithm of the distance from the points around which values
crowd: the lower end, the upper end, and 0 where the range has it inside. These points have a cell of their own. Few
values (whole numbers, or those of the declared decimals) have a cell each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privot.tables.codec import MAX_VALUES, scaled
from privot.tables.columns import Column

GRID = 1024
"""Up to so many possible values have a cell each."""
EVEN = 512
"""Cells of even width."""
CROWDED = 192
"""Cells that are even in the logarithm of the distance from one of the points around which values crowd."""
OCTAVES = 20
"""The logarithm goes down to the range over 2 to this power, or to the step between two values."""
POINT = 1e-9
"""The width of the cell of a single point, as a share of the range, where values have no step."""
BITS = 20
"""Bits that are kept of a distance that a logarithm gave."""


def grid_of(column: Column) -> NDArray[np.float64] | None:
    """Where the grid cuts a column of numbers, in the scaled coordinate; None where its cells are fixed.

    They are fixed where the schema states a scale, and where at most `MAX_VALUES` whole numbers have a cell each.
    """
    if not column.is_number or column.scale != "auto":
        return None
    low, high = column.range
    step = step_of(column)
    if high == low or (column.is_whole and high - low + 1 <= MAX_VALUES):
        return None
    cuts: NDArray[np.float64]
    if step is not None and (high - low) / step + 1.0 <= GRID + 0.5:
        cuts = low + step * (np.arange(round((high - low) / step), dtype=np.float64) + 0.5)
    else:
        cuts = _between_values(_crowded_cuts(low, high, step), low, step)
    edges: NDArray[np.float64] = np.unique(scaled(column, cuts[(cuts > low) & (cuts < high)]))
    return edges[(edges > 0.0) & (edges < 1.0)]


def step_of(column: Column) -> float | None:
    """The step between two values that the column can have; None where it has none."""
    if column.is_whole:
        return 1.0
    return None if column.decimals is None else 10.0**-column.decimals


def _crowded_cuts(low: float, high: float, step: float | None) -> NDArray[np.float64]:
    span = high - low
    cuts = [low + span * np.arange(1, EVEN) / EVEN]
    least = max(span * 2.0**-OCTAVES, step or 0.0)
    point = POINT * span if step is None else 0.5 * step
    sides = [(low, 1.0), (high, -1.0), *([(0.0, 1.0), (0.0, -1.0)] if low < 0.0 < high else [])]
    for centre, sign in sides:
        reach = (high if sign > 0.0 else low) - centre
        away = _rounded(least * np.expm1(np.log1p(abs(reach) / least) * np.arange(1, CROWDED) / CROWDED))
        cuts.append(centre + sign * np.concatenate([[point], away[away > point]]))
    return np.unique(np.concatenate(cuts))


def _rounded(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms differ in their last bits between processors, and a release states places of the grid to the bit."""
    share, power = np.frexp(distances)
    out: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(share, BITS)), power - BITS)
    return out


def _between_values(cuts: NDArray[np.float64], low: float, step: float | None) -> NDArray[np.float64]:
    """Each cut halfway between two values, so that rounding takes none into another cell."""
    if step is None:
        return cuts
    return np.unique(low + step * (np.floor((cuts - low) / step) + 0.5))
