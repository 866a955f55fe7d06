"""The numbers behind the pictures of a table: shares of columns, associations of pairs, errors of queries.

They are computed from coded rows, whichever table those come from: of synthetic rows they are as private as those, of
real rows they are as confidential as the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.evaluation.schema_axes import axes_of
from privot.tables.codec import TableCodec, unscaled
from privot.tables.columns import Column

MAX_COLUMNS = 60
"""Columns whose pairs and queries figures are made of: the first ones, the label before them."""
MAX_ROWS = 50_000
"""Rows that figures are made of."""
BINS = 32
"""Ranges that a column of numbers is drawn in, at most; of whole numbers each holds as many."""
PAIR_BINS = 16
"""Cells of a column of numbers in the distances of pairs."""
COARSE = 8
"""Cells of a column of numbers beside a column without order."""
MAX_WORDS = 60
"""Categories of one column that are named in figures, the commonest; the rest are summed."""
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

    def subset(self, seed: int = 0) -> Coded:
        """At most `MAX_ROWS` of the rows, drawn without replacement."""
        if len(self.rows) <= MAX_ROWS:
            return self
        kept = np.random.default_rng(seed).permutation(len(self.rows))[:MAX_ROWS]
        return Coded(self.rows[kept], None if self.labels is None else self.labels[kept], self.codec)

    def columns(self) -> list[tuple[Column, NDArray[np.float64]]]:
        """All columns with their coded values, the label first."""
        found = [(column, self.rows[:, place]) for place, column in enumerate(self.codec.features)]
        if self.labels is not None and self.codec.schema.label is not None:
            found.insert(0, (self.codec.schema[self.codec.schema.label], self.labels.astype(np.float64)))
        return found

    def cells(self, most: int | None = None) -> dict[str, NDArray[np.int64]]:
        """By column the place of the cell of each row, the label last; with `most` numbers have at most so many."""
        out = {}
        for column, axis in zip(self.codec.features, axes_of(self.codec, compact=True), strict=True):
            cell = axis.index(self.rows, None)
            known = axis.cells - column.missing
            if most is not None and column.is_number and known > most:
                cell = np.where(cell == known, most, cell * most // known)
            out[column.name] = cell
        if self.labels is not None and self.codec.schema.label is not None:
            out[self.codec.schema.label] = self.labels
        return out


def column_variations(made: Coded, real: Coded) -> dict[str, float]:
    """Total-variation distance ½ Σ |p − q| of each column over the codec's cells, by name; the label's last."""
    ours, theirs = made.cells(), real.cells()
    return {name: _variation(ours[name], theirs[name]) for name in ours}


def pair_variations(made: Coded, real: Coded) -> dict[tuple[str, str], float]:
    """The same for each pair of columns, numbers in at most 16 cells of equal public width."""
    ours, theirs = made.cells(PAIR_BINS), real.cells(PAIR_BINS)
    out = {}
    for first, second in combinations(ours, 2):
        width = 1 + max(int(t[second].max()) for t in (ours, theirs))
        out[first, second] = _variation(*(t[first] * width + t[second] for t in (ours, theirs)))
    return out


def _variation(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    size = 1 + max(int(a.max()), int(b.max()))
    return 0.5 * float(np.abs(np.bincount(a, minlength=size) / len(a) - np.bincount(b, minlength=size) / len(b)).sum())


def column_shares(made: Coded, real: Coded | None = None) -> list[dict[str, Any]]:
    """For each column its name, the words or ends of its values, and the share of each, as plain JSON types.

    Of more than `MAX_WORDS` categories the commonest are named (by the larger of their shares in either table), the
    commonest first, and `others` says how many are not: those have what the named ones lack of 1. With `real` rows
    there are also their shares (`real`, `real_missing`) and `distance`, the total variation ½ Σ|p − q| over *all*
    categories, or over the ranges of a number, with missing values as a further one.
    """
    theirs = None if real is None else real.columns()
    out = []
    for place, (column, values) in enumerate(made.columns()):
        ours = _shares(column, values)
        beside = None if theirs is None else _shares(column, theirs[place][1])
        fields: dict[str, Any] = {"name": column.name, "ends": None, "words": [], "missing": None, "scale": "linear"}
        kept, last = np.arange(len(ours)), len(ours) - 1
        if column.is_number:
            # missing values have no place on the line
            kept = kept[:-1]
            fields["ends"] = [_end(column, value) for value in column.range]
            fields["missing"] = float(ours[last]) if column.missing else None
            fields["scale"] = "linear" if column.scale == "auto" else column.scale
        else:
            words = [str(word) for word in column.words] + (["missing"] if column.missing else [])
            kept = commonest(ours if beside is None else np.maximum(ours, beside), MAX_WORDS)
            if np.argmax(ours) not in kept:
                # the page names it
                kept[-1] = np.argmax(ours)
            fields |= {"words": [words[k] for k in kept], "others": len(words) - len(kept)}
        fields["shares"] = [float(v) for v in ours[kept]]
        if beside is not None:
            fields["real"] = [float(v) for v in beside[kept]]
            fields["real_missing"] = float(beside[last]) if column.is_number and column.missing else None
            fields["distance"] = 0.5 * float(np.abs(ours - beside).sum())
        out.append(fields)
    return out


def commonest(shares: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The places of the largest shares, the largest first; all of them as they stand where there are at most `most`."""
    if len(shares) <= most:
        return np.arange(len(shares))
    return np.argsort(-shares, kind="stable")[:most]


def _shares(column: Column, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of every category, or of every range of a number and, last, of its missing values."""
    if not column.is_number:
        counts = np.bincount(values.astype(np.int64), minlength=len(column.words) + column.missing)
    else:
        known = values >= 0.0
        bins, size = _binned(column, values[known])
        counts = np.append(np.bincount(bins, minlength=size), np.sum(~known))
    out: NDArray[np.float64] = counts / max(len(values), 1)
    return out


def associations(coded: Coded) -> tuple[list[str], list[list[float]]]:
    """Names, and for each pair of columns how they go together, from −1 to 1.

    Pearson's correlation of the coded values where both columns have an order (numbers, ordinal and boolean columns);
    else Cramér's V with its bias removed (Bergsma 2013), from 0 to 1, numbers being cut into `COARSE` cells.
    """
    columns = coded.columns()[:MAX_COLUMNS]
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
    """How far answers from synthetic rows are from those of real rows: shares by one and two conditions.

    One condition is a value of a column (of many, the `COARSE` commonest in either table and the one that is farthest
    off), or a number above a quarter, half or three quarters of its public range. Pairs of conditions on two columns
    are drawn at random. Errors are differences of shares; `typical` is the median, `high` exceeds 95 % of them.
    """
    asked = _conditions(made, real)
    one = [(abs(ours.mean() - theirs.mean()), words) for words, _, ours, theirs in asked]
    dice, two = np.random.default_rng(seed), []
    pairs = [(i, j) for i in range(len(asked)) for j in range(i) if asked[i][1] != asked[j][1]]
    for k in dice.permutation(len(pairs))[:_QUERIES]:
        (first, _, *a), (second, _, *b) = (asked[place] for place in pairs[k])
        two.append((abs((a[0] & b[0]).mean() - (a[1] & b[1]).mean()), f"{first}, {second}"))
    named = (("a share, by one condition", one), ("a share, by two conditions", two))
    return [summary(what, errors) for what, errors in named if errors]


def summary(what: str, errors: list[tuple[Any, str]]) -> dict[str, Any]:
    """How many errors there are, the typical one, what 95 % are within, the worst and where that is."""
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


Rule = tuple[str, str, NDArray[np.bool_], NDArray[np.bool_]]


def _conditions(made: Coded, real: Coded) -> list[Rule]:
    """(the condition in words, its column, which synthetic rows satisfy it, which real ones do)."""
    found: list[Rule] = []
    for (column, ours), (_, theirs) in list(zip(made.columns(), real.columns(), strict=True))[:MAX_COLUMNS]:
        both = ours, theirs
        if column.is_number:
            for cut in _CUTS:
                edge = float(unscaled(column, np.array([cut]))[0])
                # the rows that the words say, also where a whole number was rounded
                a, b = ((values >= 0.0) & (unscaled(column, values) >= edge) for values in both)
                found.append((f"{column.name} ≥ {_end(column, edge)}", column.name, a, b))
        else:
            shares = [_shares(column, values) for values in both]
            kept = set(commonest(np.maximum(*shares), COARSE)) | {int(np.argmax(np.abs(shares[0] - shares[1])))}
            words = [*column.words, *(["missing"] if column.missing else [])]
            for place in sorted(kept):
                a, b = (values == place for values in both)
                found.append((f"{column.name} = {words[place]}", column.name, a, b))
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
    return column.to_date(value).strftime(column.format) if column.type == "date" else f"{value:.12g}"
