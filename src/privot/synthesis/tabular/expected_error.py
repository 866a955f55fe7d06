"""What error the noise alone will leave in every column and pair of a table, before anything is paid.

The noise of each count is public, and so is the rule that merges cells. With n records in k cells, each counted with
Gaussian noise of deviation σ, the total variation of the noisy shares from the true ones is in expectation

    ½ Σ E|N(0, σ²)| / n = k·σ / (√(2π)·n),

for raw counts; what is fitted to them has less noise and, where cells are merged, some bias. So whether a pair can be
seen at all is judged by its coarsest picture, four cells that are each a quarter of its table (`rows_needed`).

A group of m merged cells has the deviation σ·√m. How many groups a column will have follows from its counts, which are
private: here its records are taken to be spread evenly, which gives the most groups. A column that is left with one
group comes out with its cells evenly filled or nearly so: noise drowns it, whatever its records are.

What comes out differs from what is counted: cells are merged, noise is drawn towards simple shapes, laws of columns
beside each other are fitted, rows are drawn. So that is rehearsed: a table of as many made-up records goes the whole
way, release, fit and rows, and what comes out is compared with what went in. The made-up records are what tables are
like, as far as a schema can say: categories fall as 1/rank, numbers lie in a bell, some of them round,
or crowd at the lower end in turn, one in twenty values is missing where any may be, and one factor links all columns.

It sees a design and a number of records that is public or assumed, and no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privot.evaluation.table_figures import Coded, column_variations, pair_variations
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_fit import fit_table
from privot.tables.cell_grid import step_of
from privot.tables.codec import MAX_VALUES, TableCodec, scaled
from privot.vault import Vault

Floats = NDArray[np.float64]

ASSUMED = (1_000, 10_000, 100_000)
"""Numbers of records that are looked at where their number is not public."""
DROWNED = 0.25
"""The total variation that noise alone makes beyond which a column says little: a quarter of the records are on the
wrong side of some set of cells."""
DROWNED_PAIR = 0.1
"""The same for the four cells of a pair's coarsest picture."""
MAX_NAMED = 10
LINK, GONE = 0.5, 0.05
"""Of made-up records, the weight of the factor that links columns, and the share of values that are missing."""
ROUND, STEPS = 0.3, 16
"""The share of the made-up numbers in a bell that are round, and how many steps of round ones a range has: in columns
of few values, and where no decimals are declared, which is where a few values hold much."""
LEAST, MOST = 500, 100_000
"""Made-up records, at least and at most; beyond the most, noise hardly matters beside what the model leaves out."""
POPULATION = 5_000
"""Rows over which a rehearsed model is fitted: fewer than in earnest, so that a table is rehearsed within seconds."""


@dataclass(frozen=True)
class ColumnError:
    """A column of `cells`, in how many `groups` it can be told apart, and its expected total variation from noise."""

    name: str
    cells: int
    groups: int
    error: float


@dataclass(frozen=True)
class PairError:
    """A pair of columns: the expected total variation of its counts from noise, and that of its coarsest picture."""

    names: tuple[str, str]
    error: float
    coarsest: float


@dataclass(frozen=True)
class Rehearsal:
    """The total variation of as many synthetic rows as records, of each column by name and of pairs on average."""

    columns: dict[str, float]
    pairs: float


@dataclass(frozen=True)
class ExpectedErrors:
    """The expected errors of a table of `records`; `noise` are the deviations of single counts, in records."""

    records: int
    noise: dict[str, float]
    columns: tuple[ColumnError, ...]
    pairs: tuple[PairError, ...]

    @property
    def drowned(self) -> list[str]:
        """Columns that are left with one group, or whose noise exceeds `DROWNED`."""
        return [c.name for c in self.columns if c.cells > 1 and (c.groups < 2 or c.error > DROWNED)]

    @property
    def drowned_pairs(self) -> list[PairError]:
        """Pairs whose coarsest picture has more noise than `DROWNED_PAIR`; the noisiest first."""
        return sorted((p for p in self.pairs if p.coarsest > DROWNED_PAIR), key=lambda p: -p.coarsest)

    def warnings(self) -> list[str]:
        """A sentence for each thing that noise drowns."""
        out = []
        if self.drowned:
            out.append(
                f"With {self.records} records noise drowns {_named(self.drowned)}: what comes out there is the schema, "
                "not the data. Spend a larger ε, merge categories, or leave columns out."
            )
        pairs = self.drowned_pairs
        if self.pairs and len(pairs) > len(self.pairs) // 2:
            out.append(
                f"With {self.records} records noise drowns {len(pairs)} of {len(self.pairs)} pairs of columns: how "
                "columns go together will hardly be seen."
            )
        return out

    def to_dict(self, rehearsal: Rehearsal | None = None) -> dict[str, Any]:
        """As plain JSON types; with a `rehearsal` also what comes out of each column, and of pairs on average."""
        mean = sum(pair.error for pair in self.pairs) / max(len(self.pairs), 1)
        worst = sorted(self.pairs, key=lambda pair: -pair.error)[:MAX_NAMED]
        return {
            "records": self.records,
            "noise": self.noise,
            "columns": [
                {
                    "name": c.name,
                    "cells": c.cells,
                    "groups": c.groups,
                    "error": round(c.error, 5),
                    "drowned": c.name in self.drowned,
                    **({} if rehearsal is None else {"comes_out": round(rehearsal.columns[c.name], 5)}),
                }
                for c in self.columns
            ],
            "pairs": {
                "count": len(self.pairs),
                "mean_error": round(mean, 5),
                "worst": [[*pair.names, round(pair.error, 5)] for pair in worst],
                "drowned": len(self.drowned_pairs),
                **({} if rehearsal is None else {"comes_out": round(rehearsal.pairs, 5)}),
            },
            "warnings": self.warnings(),
        }


def expected_errors(design: TableDesign, records: int) -> ExpectedErrors:
    """The errors that the noise of `design` will leave in a table of about so many `records`.

    >>> round(noise_variation(cells=4, sigma=10.0, records=1000), 6)  # 4·10/(√(2π)·1000)
    0.015958
    """
    counts = design.counts
    fine, coarse = counts.sigma
    classes = counts.classes or 1
    names = [column.name for column in design.codec.features]
    # where the fine counts are by class, a cell is the sum over classes
    single = fine if counts.classes is None or counts.label_sigma is not None else fine * math.sqrt(classes)
    pair = coarse * math.sqrt(classes if counts.by_class else 1)
    columns = []
    for name, axis in zip(names, counts.axes, strict=True):
        groups = _groups(counts.rule, axis, records, single, coarse)
        spread = single * math.sqrt(axis.cells / groups)
        columns.append(ColumnError(name, axis.cells, groups, noise_variation(groups, spread, records)))
    pairs = []
    for a, b in combinations(columns, 2):
        # a column that has one group by itself is still looked at in two halves
        cells = math.prod(max(column.groups, min(column.cells, 2)) for column in (a, b))
        quarter = pair * math.sqrt(max(cells / 4.0, 1.0))
        error = noise_variation(cells, pair, records)
        pairs.append(PairError((a.name, b.name), error, noise_variation(min(cells, 4), quarter, records)))
    noise = {"cell of a column": fine, **({"cell of a pair": coarse} if pairs else {})}
    if counts.label_sigma is not None:
        noise["cell of a column by class"] = counts.label_sigma
    return ExpectedErrors(records, noise, tuple(columns), tuple(pairs))


def foretold(design: TableDesign, records: int) -> dict[str, Any]:
    """Both, what noise leaves in counts and what comes out, as plain JSON types."""
    return expected_errors(design, records).to_dict(rehearsed(design, records))


def rehearsed(design: TableDesign, records: int, seed: int = 0) -> Rehearsal:
    """What comes out of `design` for made-up rows, beside what went in: a whole release with fresh noise, at no cost.

    Columns are compared over the schema's cells, numbers of pairs in 16 cells, as `evaluate` does.
    """
    codec = design.codec
    count = min(max(records, LEAST), MOST)
    rows, labels = made_up(codec, count, np.random.default_rng(seed))
    terms: dict[str, Any] = {"clip": codec.bound(compact=True), "classes": codec.classes}
    # nobody's records: a budget that is never too small
    vault = Vault(rows, labels, adjacency=design.adjacency, budget=(1e9, design.delta), **terms)
    release = vault.release(design.mechanism, purpose="rehearsal")
    model = fit_table(release, codec, seed=seed, population=POPULATION, first=design.first)
    made, real = Coded(*model.sample_rows(count, seed), codec), Coded(rows, labels, codec)
    pairs = pair_variations(made, real)
    return Rehearsal(column_variations(made, real), sum(pairs.values()) / max(len(pairs), 1))


def made_up(codec: TableCodec, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64] | None]:
    """Compact rows and labels of `count` made-up records of a schema."""
    common = LINK * rng.standard_normal(count)
    rows = np.empty((count, len(codec.features)))
    numbers = 0

    def place() -> Floats:
        out: Floats = ndtr(common + math.sqrt(1.0 - LINK**2) * rng.standard_normal(count))
        return out

    def category(values: int) -> Floats:
        shares = 1.0 / np.arange(1, values + 1)
        at = np.searchsorted(np.cumsum(shares / shares.sum()), place(), side="right")
        return np.minimum(at, values - 1).astype(np.float64)

    for i, column in enumerate(codec.features):
        if not column.is_number:
            rows[:, i] = category(len(column.words))
        else:
            at = place()
            bell, crowd = 0.45 + 0.15 * ndtri(np.clip(at, 1e-9, 1.0 - 1e-9)), -0.1 * np.log1p(-np.clip(at, 0.0, 0.9999))
            if step_of(column) is None or column.range[1] - column.range[0] < MAX_VALUES:
                bell = np.where(rng.random(count) < ROUND, np.rint(STEPS * bell) / STEPS, bell)
            share = np.clip(crowd if numbers % 2 else bell, 0.0, 1.0)
            low, high = column.range
            value = low + share * (high - low)
            rows[:, i] = codec.coordinates(column, codec.column_numbers(column, scaled(column, value)))
            numbers += 1
        if column.missing:
            gone = rng.random(count) < GONE
            rows[gone, i] = -1.0 if column.is_number else len(column.words)
    return rows, None if codec.classes is None else category(codec.classes).astype(np.int64)


def noise_variation(cells: int, sigma: float, records: int) -> float:
    """E ½ Σ|noise|/n over so many cells of deviation `sigma`, at most 1."""
    return min(cells * sigma / (math.sqrt(2.0 * math.pi) * max(records, 1)), 1.0)


def _groups(rule: GroupRule, axis: Axis, records: int, sigma: float, pair_sigma: float) -> int:
    """How many groups the rule leaves a column whose records are spread evenly."""
    least = rule.least_mass(axis.cells, float(records), sigma, axis.ordered)
    return max(1, min(axis.cells, rule.number(float(records), pair_sigma), int(records / max(least, 1e-9))))


def _named(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{more}"
