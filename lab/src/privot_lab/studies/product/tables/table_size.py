"""Wide tables, long lists of categories and few rows: time, the mutual information that is kept, and a warning.

Wide: columns of 64 whole numbers and of 8 categories in turn, each a function of one of five factors and noise, and a
label. Categories: a column of many categories (shares falling as rank^−0.7) that decides a column of ten in four
fifths of the rows; an age and a label. Few rows: what is said of the same columns before anything is paid.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.tables import Column, Schema, TableCodec
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

GROUPS = 10
SECONDS, KEPT = 120.0, 0.5
"""What is wanted: processor seconds for a hundred columns, and the share of the mutual information."""
_COMMON = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "categories": 300, "few": 200}
SETTINGS = {
    "quick": {**_COMMON, "columns": 12, "rows": 30_000},
    "full": {**_COMMON, "columns": 100, "rows": 30_000},
}
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def compute(
    run: StudyRun, epsilon: float, delta: float, adjacency: str, categories: int, few: int, columns: int, rows: int
) -> dict[str, Any]:
    """Processor seconds of a fit and of as many synthetic rows, mutual information, and warnings for `few` rows."""
    made = run.part("wide", partial(_wide, columns, rows, epsilon, delta, adjacency, run.seed))
    linked = run.part("categories", partial(_linked, categories, rows, epsilon, delta, adjacency, run.seed))
    warned = {count: _warnings(categories, count, epsilon, delta, adjacency) for count in (few, rows)}
    terms = f"{rows} rows, ε = {epsilon:g}, δ = {delta:g}, {adjacency}, proven, one draw"
    share = linked["synthetic"] / linked["records"]
    findings = [
        StudyFinding(
            f"{columns} columns and a label take at most {SECONDS:g} s of processor time",
            f"fit {made['fit']:.0f} s, as many rows {made['draw']:.0f} s ({terms})",
            made["fit"] + made["draw"] <= SECONDS,
            published=f"at most {SECONDS:g} s for 100",
            why="more than that",
        ),
        StudyFinding(
            f"{categories} categories keep half of the mutual information with the column that they decide",
            f"{linked['synthetic']:.2f} of {linked['records']:.2f} nats ({share:.0%}), of independent columns "
            f"{linked['independent']:.2f}; fit {linked['fit']:.0f} s ({terms})",
            share >= KEPT,
            published="at least half",
            why="less than that",
        ),
        StudyFinding(
            f"{few} rows are warned of before anything is paid, and {rows} are not",
            " ".join(warned[few]) or "no warning",
            bool(warned[few]) and not warned[rows],
            why=f"for {rows} rows: {' '.join(warned[rows]) or 'no warning'}",
        ),
    ]
    return {"wide": made, "categories": linked, "warned": warned[few], "findings": [f.to_dict() for f in findings]}


def wide_table(columns: int, rows: int) -> tuple[TableCodec, Floats, Ints]:
    """A made-up table of so many columns and a label."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(rows, 5))
    kinds, values = [], []
    for i in range(columns):
        rank = (np.argsort(np.argsort(factors[:, i % 5] + rng.normal(size=rows))) + 0.5) / rows
        kinds.append(Column(f"n{i}", "integer", 0, 63) if i % 2 else _words(f"c{i}", 8))
        values.append(np.rint(rank * 63) / 63 if i % 2 else np.floor(rank * 8))
    label = (factors[:, 0] + rng.normal(size=rows) > 0).astype(np.int64)
    return TableCodec(Schema((*kinds, Column("y", "boolean")), label="y")), np.column_stack(values), label


def linked_table(categories: int, rows: int) -> tuple[TableCodec, Floats, Ints]:
    """A made-up table with many categories, which decide another column."""
    rng = np.random.default_rng(0)
    falling = 1.0 / np.arange(1, categories + 1) ** 0.7
    code = rng.choice(categories, rows, p=falling / falling.sum())
    group = np.where(rng.random(rows) < 0.8, code % GROUPS, rng.integers(0, GROUPS, rows))
    age = np.clip(30 + 4 * group + rng.normal(0, 10, rows), 0, 99).astype(np.int64)
    label = (rng.random(rows) < 0.3 + 0.04 * group).astype(np.int64)
    return _linked_codec(categories), np.column_stack([code, group, age / 99]).astype(np.float64), label


def information(x: Floats, categories: int) -> float:
    """Mutual information of the first two columns, in nats (plug-in).

    >>> twice = np.repeat(np.arange(4.0), 5)
    >>> bool(np.isclose(information(np.column_stack([twice, twice]), 4), np.log(4)))
    True
    """
    cells = x[:, 0].astype(np.int64) * GROUPS + x[:, 1].astype(np.int64)
    shares = np.bincount(cells, minlength=categories * GROUPS).reshape(categories, GROUPS) / len(x)
    expected = shares.sum(1, keepdims=True) * shares.sum(0, keepdims=True)
    there = shares > 0.0
    return float((shares[there] * np.log(shares[there] / expected[there])).sum())


def _words(name: str, count: int) -> Column:
    return Column(name, "categorical", categories=tuple(f"{name}{i}" for i in range(count)))


def _linked_codec(categories: int) -> TableCodec:
    columns = (_words("code", categories), _words("group", GROUPS), Column("age", "integer", 0, 99))
    return TableCodec(Schema((*columns, Column("y", "boolean")), "y"))


def _fitted(
    codec: TableCodec, x: Floats, y: Ints, epsilon: float, delta: float, adjacency: Any, seed: int
) -> tuple[dict[str, float], Floats]:
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    clip = codec.bound(compact=True)
    vault = Vault(x, y, clip=clip, classes=codec.classes, adjacency=adjacency, budget=(epsilon, delta))
    start = time.process_time()
    fitted = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=codec).fit(vault)
    between = time.process_time()
    rows, _ = fitted.model_.sample_rows(len(x), seed)
    return {"fit": between - start, "draw": time.process_time() - between}, rows


def _wide(columns: int, rows: int, *terms: Any) -> dict[str, float]:
    return _fitted(*wide_table(columns, rows), *terms)[0]


def _linked(categories: int, rows: int, *terms: Any) -> dict[str, float]:
    codec, x, y = linked_table(categories, rows)
    seconds, made = _fitted(codec, x, y, *terms)
    mixed = x.copy()
    mixed[:, 0] = np.random.default_rng(1).permutation(x[:, 0])
    held = {"records": x, "synthetic": made, "independent": mixed}
    return {**seconds, **{name: information(table, categories) for name, table in held.items()}}


def _warnings(categories: int, rows: int, epsilon: float, delta: float, adjacency: Any) -> list[str]:
    from privot.guarantee import Adjacency
    from privot.mechanisms import Facts
    from privot.synthesis import Synthesizer
    from privot.synthesis.tabular.expected_error import expected_errors

    codec = _linked_codec(categories)
    clip = codec.bound(compact=True)
    facts = Facts(len(codec.features), None, clip, Adjacency(adjacency), codec.classes)
    return expected_errors(Synthesizer(epsilon, delta, kind=codec).design(facts), rows).warnings()


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
