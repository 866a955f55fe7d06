"""The RAND health insurance experiment as related tables: persons, and the years of each; ε is for a person.

What a person has in every year, or in the first one, is the person's; the rest is the year's. Each draw is one whole
private release. Nothing was chosen by these figures.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from privot.tables import RelatedCodec, Schema, Table
from privot_lab.studies.product.tables.rand_data import HEALTH, PERSON, numbers, rand_rows, rand_schema, taken
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

OF_PERSONS = ("coinsurance", "age", "female", "income", "education", "diseases", "health")
OF_YEARS = ("year", "visits", "dollars")
YEARS_WITHIN, RANK_WITHIN, MEDIAN_WITHIN = 0.05, 0.1, 0.1
COUNT, RANKED, MEDIAN = "years per person", "visits and dollars", "median dollars of a year"
SHARED = "two years of a person"
_COMMON = {"delta": 1e-6, "adjacency": "add-remove", "per_parent": 5}
SETTINGS = {
    "quick": {**_COMMON, "epsilons": [1.0], "draws": 1},
    "full": {**_COMMON, "epsilons": [1.0, 5.0], "draws": 3},
}


def compute(
    run: StudyRun, delta: float, adjacency: str, per_parent: int, epsilons: list[float], draws: int
) -> dict[str, Any]:
    """Numbers of years, columns of both tables, links between them, and what two years of a person have in common."""
    rows, whose = rand_rows(run)
    first = np.unique(whose, return_index=True)[1]
    persons = Table({PERSON: whose[first], **{name: rows[name][first] for name in OF_PERSONS}})
    years = Table({PERSON: whose, **{name: rows[name] for name in OF_YEARS}})
    real = measured(persons, years)
    made = {
        f"{epsilon:g}": [
            run.part(
                f"ε = {epsilon:g}, draw {draw}",
                partial(_draw, persons, years, per_parent, epsilon, delta, adjacency, run.seed + draw),
            )
            for draw in range(draws)
        ]
        for epsilon in epsilons
    }
    mean = {key: {name: float(np.mean([one[name] for one in held])) for name in real} for key, held in made.items()}
    several = draws > 1
    sd = {
        key: {name: float(np.std([one[name] for one in held], ddof=1)) if several else 0.0 for name in real}
        for key, held in made.items()
    }
    terms = f"δ = {delta:g}, {adjacency} of a person with at most {per_parent} years, proven; {draws} draws"
    findings = [f for key in made for f in _judged(f"ε = {key}", mean[key], real, terms)]
    return {
        "persons": persons.rows,
        "years": years.rows,
        "real": real,
        "draws": made,
        "mean": mean,
        "sd": sd,
        "findings": [finding.to_dict() for finding in findings],
    }


def _judged(at: str, found: Mapping[str, float], real: Mapping[str, float], terms: str) -> list[StudyFinding]:
    def shown(*names: str) -> str:
        return "; ".join(f"{name} {found[name]:.3f}, records {real[name]:.3f}" for name in names)

    return [
        StudyFinding(
            f"{at}: numbers of years and the median of dollars are kept",
            f"{shown(COUNT, 'persons with 5 years', MEDIAN)} ({terms})",
            abs(found[COUNT] / real[COUNT] - 1.0) <= YEARS_WITHIN
            and abs(found[MEDIAN] / real[MEDIAN] - 1.0) <= MEDIAN_WITHIN,
            published=f"within {YEARS_WITHIN:.0%} and {MEDIAN_WITHIN:.0%}",
            why="one of them is further off",
        ),
        StudyFinding(
            f"{at}: links within a year and between a person and the years are kept",
            shown(RANKED, "diseases and dollars", "coinsurance and visits"),
            all(abs(found[name] - real[name]) <= RANK_WITHIN for name in (RANKED, "diseases and dollars")),
            published=f"ranks within {RANK_WITHIN:g}",
            why="one of them is further off",
        ),
        StudyFinding(
            f"{at}: what two years of a person have in common is kept",
            shown(SHARED),
            abs(found[SHARED] - real[SHARED]) <= RANK_WITHIN,
            published=f"a correlation within {RANK_WITHIN:g}",
            why="how alike years are is released as one noisy number per column",
        ),
    ]


def measured(persons: Table, years: Table) -> dict[str, float]:
    """The figures of one pair of tables."""
    keys, place = np.unique(persons[PERSON], return_index=True)
    at = place[np.searchsorted(keys, years[PERSON])]
    joined = taken(persons, at)
    count = np.bincount(at, minlength=persons.rows)
    visits, dollars = numbers(years["visits"]), numbers(years["dollars"])
    ill = np.array([HEALTH.index(str(value)) for value in joined["health"]])
    women = np.isin(joined["female"].astype(str), ("1", "True"))

    def rank(a: NDArray[Any], b: NDArray[Any]) -> float:
        return float(spearmanr(a, b, nan_policy="omit").statistic)

    # the first and the last year of each person, as they stand in the file
    order = np.argsort(at, kind="stable")
    own, first = np.unique(at[order], return_index=True)
    last = np.append(first[1:], len(order)) - 1
    both = last > first
    spent = np.log1p(dollars)[order]
    return {
        COUNT: float(count.mean()),
        "persons with 5 years": float((count == 5).mean()),
        "persons without a year": 1.0 - len(own) / persons.rows,
        "median age of persons": float(np.median(numbers(persons["age"]))),
        MEDIAN: float(np.median(dollars)),
        RANKED: rank(visits, dollars),
        "diseases and dollars": rank(numbers(joined["diseases"]), dollars),
        "health and visits": rank(ill, visits),
        "coinsurance and visits": rank(numbers(joined["coinsurance"]), visits),
        "visits, women less men": float(visits[women].mean() - visits[~women].mean()),
        SHARED: float(np.corrcoef(spent[first[both]], spent[last[both]])[0, 1]),
    }


def _draw(
    persons: Table, years: Table, per_parent: int, epsilon: float, delta: float, adjacency: Any, seed: int
) -> dict[str, float]:
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    schema = rand_schema()
    parts = {"persons": OF_PERSONS, "years": OF_YEARS}
    schemas = {name: Schema(tuple(schema[column] for column in columns)) for name, columns in parts.items()}
    codec = RelatedCodec(schemas, key=PERSON, per_parent=per_parent)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.csv" for name in parts}
        for name, table in (("persons", persons), ("years", years)):
            _write(table, files[name])
        vault = Vault.open(files, codec, adjacency=adjacency, budget=(epsilon, delta))
        made = Synthesizer(epsilon, delta, seed=seed, kind=codec).fit(vault)
        drawn = made.sample(persons.rows, seed=seed, frame="table")
    return measured(drawn["persons"], drawn["years"])


def _write(table: Table, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(list(table))
        out.writerows(zip(*(["" if v is None else v for v in table[name]] for name in table), strict=True))


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
