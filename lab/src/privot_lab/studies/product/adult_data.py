"""Adult census income (UCI): its schema, which states public knowledge of UCI's data dictionary, and its two files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from privot.tables import Schema, Table, read_table
from privot_lab.studies.study_run import StudyRun

SCHEMA_FILE = Path(__file__).with_name("adult_schema.json")
"""The same as docs/examples/adult-schema.json; this one is installed with the package."""


def adult_schema() -> Schema:
    """The public schema of both files."""
    return Schema.load(SCHEMA_FILE)


def adult_tables(run: StudyRun) -> tuple[Table, Table]:
    """The records to learn from and those to test on; raises `MissingDataError` if they are not at hand."""
    return read_adult(run.data("adult_train")), read_adult(run.data("adult_test"))


@cache
def read_adult(path: Path) -> Table:
    """One of the two files, read once."""
    return read_table(path)
