"""Compares columns of numbers in their own units, and finds columns that the schema's cells are too wide for.

A model of a table sees a number as one of the schema's cells and draws it evenly within that cell (in the scaled
coordinate). So what a schema alone can spoil is known without any model: with F the distribution function of the real
values and F̄ the same made straight within every cell,

    loss = sup_v |F(v) − F̄(v)|

is the Kolmogorov distance between the records and the best table that these cells allow. Amounts to 50,000 of which
most are below 500 lose nearly everything in 64 even cells of 781, while distances measured *on the cells* are perfect.

Results are as confidential as the real records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError, brief
from privot.evaluation.table_figures import summary
from privot.tables.cell_grid import grid_of, step_of
from privot.tables.cell_values import numbers_of
from privot.tables.codec import TableCodec, edges_of, scaled
from privot.tables.columns import Column
from privot.tables.table import Table

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_LOSS = 0.1
"""A column whose cells alone lose this much is called broken: a tenth of all records would be on the wrong side of some
value, whatever the budget."""
CHANCE = 1.36
"""Kolmogorov's distance of n values from their own law exceeds this over √n in one of twenty samples."""

Floats = NDArray[np.float64]


def number_columns(synthetic: Table, real: Table, codec: TableCodec) -> tuple[dict[str, Any], ...]:
    """For every column of numbers: quantiles and means in its own units, distance, and what its cells lose.

    As plain JSON types. `quantiles` are those of `QUANTILES`, `distance` is Kolmogorov's distance of synthetic and real
    values, `mean_error` what the means differ by in standard deviations of the real values (of both, if the real ones
    are constant), `mean_chance` two standard errors of that, `outside` the share of real values beyond the schema's
    range, `cell_loss` the loss of the cells as they are and `log_cell_loss` that on a log scale. A column without a
    value in either table is left out.
    """
    out = []
    for column in codec.features:
        if not column.is_number:
            continue
        made, true = (_numbers(column, table, codec) for table in (synthetic, real))
        made, true = made[~np.isnan(made)], true[~np.isnan(true)]
        if not len(made) or not len(true):
            continue
        low, high = column.range
        # as a synthetic table can hold them
        inside = np.clip(true, low, high)
        if column.is_whole or column.decimals is not None:
            inside = np.round(inside, column.decimals or 0)
        out.append(
            {
                "name": column.name,
                "quantiles": {"synthetic": _quantiles(column, made), "real": _quantiles(column, true)},
                "means": {"synthetic": _said(column, made.mean()), "real": _said(column, true.mean())},
                "mean_error": _mean_error(made, true),
                "mean_chance": 2.0 * float(np.sqrt(1.0 / len(made) + 1.0 / len(true))),
                "distance": kolmogorov(made, true),
                "outside": float(((true < low) | (true > high)).mean()),
                "cell_loss": cell_loss(column, inside),
                "log_cell_loss": cell_loss(replace(column, scale="log", quantiles=()), inside),
                "records": len(true),
            }
        )
    return tuple(out)


def _numbers(column: Column, table: Table, codec: TableCodec) -> Floats:
    """A column's numbers as they stand, also outside the range; a difference counts as one of its own."""

    def written(found: Column) -> Floats:
        return numbers_of(found, table[found.name], codec.marks)

    return codec.read(column, written, within=False)


def _mean_error(made: Floats, true: Floats) -> float:
    # the range says nothing about a column of which most values are 0: a mean of 0.9 for 0.2 would be 1 % of 0..60
    far = abs(float(made.mean()) - float(true.mean()))
    spread = float(true.std()) or float(np.concatenate([made, true]).std())
    return far / spread if spread > 0.0 else 0.0


def mean_errors(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What answers about means get wrong by, in standard deviations of the real values, as `query_errors` says it."""
    errors = [(f["mean_error"], "{}: {synthetic} for {real}".format(f["name"], **f["means"])) for f in found]
    return [summary("a mean", errors)] if errors else []


def kolmogorov(a: Floats, b: Floats) -> float:
    """sup_v |F_a(v) − F_b(v)|."""
    at = np.concatenate([a, b])
    shares = [np.searchsorted(np.sort(values), at, side="right") / len(values) for values in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def cell_loss(column: Column, values: Floats) -> float:
    """sup_v |F(v) − F̄(v)| of `values` within the range, F̄ being straight within each of the column's cells.

    Whole numbers and those of declared decimals are drawn halfway around each and rounded, so they are compared there.
    Where a release chooses the cells, these are the cells of the grid that it can choose from.
    """
    low, high = column.range
    if high == low:
        return 0.0
    grid = grid_of(column)
    ends = np.concatenate([[0.0], edges_of(column) if grid is None else grid, [1.0]])
    sorted_values = np.sort(values)
    coordinates = scaled(column, sorted_values)
    # as `Axis.index` counts: a value on an edge belongs to the cell above it
    below = np.searchsorted(coordinates, ends, side="left") / len(values)
    below[-1] = 1.0
    at = np.unique(sorted_values)
    after, before = (np.searchsorted(sorted_values, at, side=side) / len(values) for side in ("right", "left"))
    # on a log scale the lowest value has a cell of its own, thinner than any digit
    step = step_of(column)
    right, left = (0.5 * step, 0.5 * step) if step is not None else (2e-9 * (high - low), 0.0)
    straight = [np.interp(scaled(column, np.clip(at + by, low, high)), ends, below) for by in (right, -left)]
    return float(max(np.abs(after - straight[0]).max(), np.abs(before - straight[1]).max()))


def broken_columns(found: tuple[dict[str, Any], ...], codec: TableCodec) -> tuple[str, ...]:
    """One sentence for each column that its cells, or its range, break; none where chance could have made it."""
    out = []
    for fields in found:
        column = next(c for c in codec.features if c.name == fields["name"])
        ours, theirs = (fields["quantiles"][which][len(QUANTILES) // 2] for which in ("synthetic", "real"))
        middle = f"median {ours}, of real records {theirs}"
        least = MAX_LOSS + CHANCE / fields["records"] ** 0.5
        if fields["outside"] > least:
            out.append(
                f"Column {brief(column.name)}: {100 * fields['outside']:.0f} % of the real values are outside the "
                f"schema's range ({middle}); declare a wider one."
            )
        elif fields["cell_loss"] > least:
            helps = column.scale != "log" and fields["log_cell_loss"] < 0.5 * fields["cell_loss"]
            advice = "scale: log" if helps else "a narrower range or public quantiles"
            out.append(
                f"Column {brief(column.name)}: the schema's cells are too wide for its values ({middle}); declare "
                f"{advice} for it."
            )
    return tuple(out)


def mid_quantile(values: Floats, share: float) -> float:
    """The quantile of whole numbers and other values with many ties, between them where it falls between them.

    F̃(v) = P(X < v) + ½ P(X = v) is joined by straight lines between the values that occur, and its inverse at `share`
    is returned; at the ends the smallest and the largest value (Ma, Genton & Parzen 2011, "Asymptotic properties of
    sample quantiles of discrete distributions"). An ordinary median of 49 zeros, 2 ones and 49 twos jumps by a whole
    number with two records; this one does not. Of values without ties it is the ordinary quantile.

    Parameters
    ----------
    values
        Numbers without missing ones, at least one.
    share
        Between 0 and 1; ½ for the median.

    Examples
    --------
    >>> few = np.array([0.0] * 50 + [1.0] * 30 + [2.0] * 20)
    >>> float(np.median(few)), round(mid_quantile(few, 0.5), 6)
    (0.5, 0.625)
    """
    if not (len(values) and np.isfinite(values).all()):
        raise UsageError("A quantile needs at least one value, and finite ones.")
    if not 0.0 <= share <= 1.0:
        raise UsageError(f"A quantile is asked for by a share between 0 and 1, got {share!r}.")
    distinct, counts = np.unique(values, return_counts=True)
    middle = (np.cumsum(counts) - 0.5 * counts) / len(values)
    return float(np.interp(share, middle, distinct))


def _quantiles(column: Column, values: Floats) -> list[float | str]:
    return [_said(column, float(v)) for v in np.quantile(values, QUANTILES)]


def _said(column: Column, value: float) -> float | str:
    """A number, or a date as the schema writes it."""
    if column.type == "date":
        return str(column.to_date(value).strftime(column.format))
    return float(f"{float(value):.6g}")
