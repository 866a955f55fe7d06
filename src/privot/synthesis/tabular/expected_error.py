"""What error the noise alone will leave in every column and pair of a table, before anything is paid.

The noise of each count is public, and so is the rule that merges cells. With n records in k cells, each counted with
Gaussian noise of deviation σ, the total variation of the noisy shares from the true ones is in expectation

    ½ Σ E|N(0, σ²)| / n = k·σ / (√(2π)·n),

for raw counts; what is fitted to them has less noise and, where cells are merged, some bias. So whether a pair can be
seen at all is judged by its coarsest picture, four cells that are each a quarter of its table (`rows_needed`).

A group of m merged cells has the deviation σ·√m. How many groups a column will have follows from its counts, which are
private: here its records are taken to be spread evenly, which gives the most groups. A column that is left with one
group comes out with its cells evenly filled or nearly so: noise drowns it, whatever its records are.

It sees a design and a number of records that is public or assumed, and no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.synthesis.tabular.table_design import TableDesign

ASSUMED = (1_000, 10_000, 100_000)
"""Numbers of records that are looked at where their number is not public."""
DROWNED = 0.25
"""The total variation that noise alone makes beyond which a column says little: a quarter of the records are on the
wrong side of some set of cells."""
DROWNED_PAIR = 0.1
"""The same for the four cells of a pair's coarsest picture."""
MAX_NAMED = 10


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

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
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
                }
                for c in self.columns
            ],
            "pairs": {
                "count": len(self.pairs),
                "mean_error": round(mean, 5),
                "worst": [[*pair.names, round(pair.error, 5)] for pair in worst],
                "drowned": len(self.drowned_pairs),
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
