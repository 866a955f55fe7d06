"""The RAND health insurance experiment (`randhie.csv` of statsmodels): one row per person and year, and its schema.

Ranges and categories are public knowledge of the experiment's documents. The file is not part of the package.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.tables import Column, Schema, Table, read_table
from privot_lab.studies.study_run import StudyRun

PERSON = "person"
LABEL = "any_expense"
HEALTH = ("excellent", "good", "fair", "poor")
NUMBERS = ("age", "income", "education", "visits", "dollars", "diseases")
LONG = ("visits", "dollars")
"""Columns with long tails, whose scale a study chooses."""
TRAINED = 0.7
"""The share of persons whose rows are learned from."""
_COLUMNS = (
    Column("year", "integer", 1, 5),
    Column("coinsurance", "ordinal", categories=("0", "25", "50", "95", "100")),
    Column("age", "integer", 0, 65),
    Column("female", "boolean", categories=("0", "1")),
    Column("income", "continuous", 0, 30_000, decimals=0),
    Column("education", "integer", 0, 25, missing=True),
    Column("visits", "integer", 0, 100),
    Column("dollars", "continuous", 0, 50_000, decimals=2),
    Column("diseases", "continuous", 0, 60, decimals=1),
    Column("health", "ordinal", categories=HEALTH),
    Column(LABEL, "boolean", categories=("0", "1")),
)
Floats = NDArray[np.float64]


def rand_schema(scale: Any = "auto", without: tuple[str, ...] = ()) -> Schema:
    """The schema; visits and dollars have the given scale."""
    chosen = (replace(column, scale=scale) if column.name in LONG else column for column in _COLUMNS)
    return Schema(tuple(column for column in chosen if column.name not in without), LABEL)


def rand_rows(run: StudyRun) -> tuple[Table, NDArray[np.int64]]:
    """All rows, and the person of each; raises `MissingDataError` if the file is not at hand."""
    return _read(run.data("rand_hie"))


def split_persons(rows: Table, persons: NDArray[np.int64]) -> tuple[Table, NDArray[np.int64], Table]:
    """Rows of seven persons in ten, whose each is, and the rows of the other persons."""
    known = np.unique(persons)
    chosen = np.random.default_rng(0).permutation(known)[: int(TRAINED * len(known))]
    mine = np.isin(persons, chosen)
    return taken(rows, mine), persons[mine], taken(rows, ~mine)


def taken(rows: Table, at: NDArray[Any]) -> Table:
    """Some rows of a table."""
    return Table({name: rows[name][at] for name in rows})


def numbers(values: NDArray[Any]) -> Floats:
    """A column as numbers; what is missing is NaN."""
    return np.array([np.nan if value is None or value == "" else float(value) for value in values])


@cache
def _read(path: Path) -> tuple[Table, NDArray[np.int64]]:
    raw = read_table(path)
    try:
        held = {name: numbers(raw[name]) for name in
                ("zper", "year", "coins", "xage", "female", "income", "educdec", "mdvis", "meddol", "disea",
                 "hlthg", "hlthf", "hlthp")}  # fmt: skip
    except (KeyError, ValueError):
        raise DataError(
            f"{path.name!r} is not the table of the RAND health insurance experiment: it is "
            "datasets/randhie/src/randhie.csv of statsmodels."
        ) from None
    ill = np.select([held["hlthp"] > 0, held["hlthf"] > 0, held["hlthg"] > 0], [3, 2, 1], 0)
    educated = [None if np.isnan(value) else round(value) for value in held["educdec"]]
    columns: dict[str, Any] = {
        "year": held["year"].astype(np.int64),
        "coinsurance": np.array([str(int(value)) for value in held["coins"]], dtype=object),
        "age": np.rint(held["xage"]).astype(np.int64),
        "female": np.array([str(int(value)) for value in held["female"]], dtype=object),
        "income": held["income"],
        "education": np.array(educated, dtype=object),
        "visits": held["mdvis"].astype(np.int64),
        "dollars": held["meddol"],
        "diseases": held["disea"],
        "health": np.array(HEALTH, dtype=object)[ill],
        LABEL: np.where(held["meddol"] > 0.0, "1", "0").astype(object),
    }
    return Table(columns), held["zper"].astype(np.int64)
