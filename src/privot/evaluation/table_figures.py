"""The numbers behind the pictures of a table: shares of columns, associations of pairs, errors of queries.

They are computed from coded rows, whichever table those come from: of synthetic rows they are as private as those, of
real rows they are as confidential as the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.tables.codec import TableCodec, unscaled
from privot.tables.columns import Column

MAX_COLUMNS = 60
"""Columns that figures are made of."""
MAX_ROWS = 50_000
"""Rows that figures are made of."""
BINS = 32
"""Ranges that a column of numbers is drawn in, at most; of whole numbers each holds as many."""
COARSE = 8
"""Cells of a column of numbers beside a column without order."""
_MAX_WORDS = 60
_CUTS = (0.25, 0.5, 0.75)
_QUERIES = 400

Rows = NDArray[np.float64]
Labels = NDArray[np.int64] | None


@dataclass(frozen=True)
class Coded:
    """Rows in the compact layout of `codec`, with their labels."""

    rows: Rows
    labels: Labels
    codec: TableCodec

    def some(self, seed: int = 0) -> Coded:
        """At most `MAX_ROWS` of the rows, drawn without replacement."""
        if len(self.rows) <= MAX_ROWS:
            return self
        kept = np.random.default_rng(seed).permutation(len(self.rows))[:MAX_ROWS]
        return Coded(self.rows[kept], None if self.labels is None else self.labels[kept], self.codec)

    def columns(self) -> list[tuple[Column, NDArray[np.float64]]]:
        """The columns with their coded values, the label first; at most `MAX_COLUMNS`."""
        found = [(column, self.rows[:, place]) for place, column in enumerate(self.codec.features)]
        if self.labels is not None and self.codec.schema.label is not None:
            found.insert(0, (self.codec.schema[self.codec.schema.label], self.labels.astype(np.float64)))
        return found[:MAX_COLUMNS]


def column_shares(coded: Coded) -> list[dict[str, Any]]:
    """For each column its name, the words or ends of its values, and the share of each, as plain JSON types."""
    out = []
    for column, values in coded.columns():
        words = [str(word) for word in column.words] + (["missing"] if column.missing else [])
        if column.is_number:
            gone = values < 0.0
            known, bins = _binned(column, values[~gone])
            shares = np.bincount(known, minlength=bins) / max(len(values), 1)
            fields: dict[str, Any] = {"ends": [_end(column, value) for value in column.range], "words": []}
            fields["missing"] = float(gone.mean()) if column.missing else None
            fields["scale"] = "linear" if column.scale == "auto" else column.scale
        else:
            shares = np.bincount(values.astype(np.int64), minlength=len(words))[:_MAX_WORDS] / max(len(values), 1)
            fields = {"ends": None, "words": words[:_MAX_WORDS], "missing": None, "scale": "linear"}
        out.append({"name": column.name, **fields, "shares": [float(v) for v in shares]})
    return out


def associations(coded: Coded) -> tuple[list[str], list[list[float]]]:
    """Names, and for each pair of columns how they go together, from −1 to 1.

    Pearson's correlation of the coded values where both columns have an order (numbers, ordinal and boolean columns);
    else Cramér's V with its bias removed (Bergsma 2013), from 0 to 1, numbers being cut into `COARSE` cells.
    """
    columns = coded.columns()
    matrix = np.eye(len(columns))
    cells = [_coarse(column, values) for column, values in columns]
    for i in range(len(columns)):
        for j in range(i):
            ordered = _ordered(columns[i][0]) and _ordered(columns[j][0])
            pair = columns[i], columns[j]
            matrix[i, j] = matrix[j, i] = _correlation(*pair) if ordered else cramers_v(*cells[i], *cells[j])
    return [column.name for column, _ in columns], [[round(float(v), 4) for v in row] for row in matrix]


def cramers_v(a: NDArray[np.int64], rows: int, b: NDArray[np.int64], columns: int) -> float:
    """Cramér's V of two columns of cells, with its bias removed: near 0 where they are independent.

    With φ² = χ²/n, φ̃² = max(0, φ² − (r − 1)(c − 1)/(n − 1)) and r̃ = r − (r − 1)²/(n − 1), c̃ alike, it is
    √(φ̃² / min(r̃ − 1, c̃ − 1)); r and c count the cells that occur.

    References
    ----------
    Bergsma 2013, "A bias-correction for Cramér's V and Tschuprow's T".
    """
    counts = np.bincount(a * columns + b, minlength=rows * columns).reshape(rows, columns).astype(np.float64)
    counts = counts[counts.sum(1) > 0.0][:, counts.sum(0) > 0.0]
    n, (r, c) = counts.sum(), counts.shape
    if min(r, c) < 2 or n < 3:
        return 0.0
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / n
    phi = float(((counts - expected) ** 2 / expected).sum() / n)
    phi = max(0.0, phi - (r - 1) * (c - 1) / (n - 1))
    side = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1.0
    return min(1.0, float(np.sqrt(phi / side))) if side > 0.0 else 0.0


def query_errors(made: Coded, real: Coded, seed: int = 0) -> list[dict[str, Any]]:
    """How far answers from synthetic rows are from those of real rows: shares by one and two conditions, and means.

    One condition is a value of a column, or a number above a quarter, half or three quarters of its public range. Pairs
    of conditions on two columns are drawn at random. Errors of shares are differences of shares, those of means are in
    shares of the public range. `typical` is the median, `high` exceeds 95 % of them.
    """
    ours, theirs = _conditions(made), _conditions(real)
    one = [(abs(a.mean() - b.mean()), words) for (words, _, a), (_, _, b) in zip(ours, theirs, strict=True)]
    dice, two = np.random.default_rng(seed), []
    pairs = [(i, j) for i in range(len(ours)) for j in range(i) if ours[i][1] != ours[j][1]]
    for k in dice.permutation(len(pairs))[:_QUERIES]:
        i, j = pairs[k]
        error = abs((ours[i][2] & ours[j][2]).mean() - (theirs[i][2] & theirs[j][2]).mean())
        two.append((error, f"{ours[i][0]}, {ours[j][0]}"))
    means = []
    for (column, a), (_, b) in zip(made.columns(), real.columns(), strict=True):
        if column.is_number and column.range[1] > column.range[0] and (a >= 0.0).any() and (b >= 0.0).any():
            low, high = column.range
            error = abs(unscaled(column, a[a >= 0.0]).mean() - unscaled(column, b[b >= 0.0]).mean()) / (high - low)
            means.append((error, column.name))
    named = (("a share, by one condition", one), ("a share, by two conditions", two), ("a mean", means))
    return [_summary(what, errors) for what, errors in named if errors]


def _summary(what: str, errors: list[tuple[Any, str]]) -> dict[str, Any]:
    sizes = np.array([error for error, _ in errors])
    worst = int(np.argmax(sizes))
    return {
        "what": what,
        "count": len(errors),
        "typical": float(np.median(sizes)),
        "high": float(np.quantile(sizes, 0.95)),
        "worst": float(sizes[worst]),
        "where": errors[worst][1],
    }


def _conditions(coded: Coded) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """(the condition in words, its column, which rows satisfy it)."""
    found = []
    for column, values in coded.columns():
        if column.is_number:
            for cut in _CUTS:
                edge = float(unscaled(column, np.array([cut]))[0])
                found.append((f"{column.name} ≥ {_end(column, edge)}", column.name, values >= cut))
        else:
            for place, word in enumerate(column.words[:COARSE]):
                found.append((f"{column.name} = {word}", column.name, values == place))
    return found


def _binned(column: Column, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    """The bin of each known value, and how many bins there are; uneven bins would look like a comb."""
    low, high = column.range
    if not column.is_whole or column.scale not in ("auto", "linear"):
        return np.minimum((values * BINS).astype(np.int64), BINS - 1), BINS
    count = int(high - low) + 1
    wide = -(-count // BINS)
    return (np.rint(unscaled(column, values) - low) // wide).astype(np.int64), -(-count // wide)


def _ordered(column: Column) -> bool:
    return column.is_number or column.type in ("ordinal", "boolean")


def _coarse(column: Column, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    if not column.is_number:
        return values.astype(np.int64), len(column.words) + column.missing
    cells = np.minimum((np.maximum(values, 0.0) * COARSE).astype(np.int64), COARSE - 1)
    return np.where(values < 0.0, COARSE, cells), COARSE + 1


def _correlation(one: tuple[Column, NDArray[np.float64]], other: tuple[Column, NDArray[np.float64]]) -> float:
    (first, a), (second, b) = one, other
    kept = _known(first, a) & _known(second, b)
    a, b = a[kept], b[kept]
    if len(a) < 3 or a.std() == 0.0 or b.std() == 0.0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _known(column: Column, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = values >= 0.0 if column.is_number else values < len(column.words)
    return known


def _end(column: Column, value: float) -> str:
    return column.to_date(value).strftime(column.format) if column.type == "date" else f"{value:g}"
