"""Values nobody expects are counted as missing, as unknown or refused in a typed error that does not repeat them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.errors import DataError, UsageError
from privot.tables import Column, Schema, Table, TableCodec, encode_file, propose, read_header

MARKED = "31415926"


class Spiteful:
    """Raises what it likes, and quotes itself."""

    def __float__(self) -> float:
        raise RuntimeError(MARKED)

    def __str__(self) -> str:
        raise RuntimeError(MARKED)


def codec(unknown: Any = "refuse", missing: bool = True) -> TableCodec:
    grade = Column("grade", "categorical", categories=(1, 2), missing=missing, unknown=unknown)
    return TableCodec(Schema((grade, Column("size", "continuous", 0, 1, missing=missing))))


def encoded(made: TableCodec, grade: Any = (1, 2, 1), size: Any = (0.1, 0.2, 0.3)) -> list[list[float]]:
    return made.encode(Table({"grade": grade, "size": size}), compact=True)[0].tolist()


@pytest.mark.parametrize(
    "grade", [np.array([1.0, np.nan, 2.0]), np.array([1, np.nan, 2], dtype=np.float32), [1, float("nan"), 2.0]]
)
def test_a_category_that_is_not_a_number_is_a_missing_one(grade: Any) -> None:
    assert [row[0] for row in encoded(codec(), grade)] == [0.0, 2.0, 1.0]
    with pytest.raises(DataError):
        encoded(codec(missing=False), grade)


def test_an_infinite_category_is_an_unknown_one() -> None:
    assert [row[0] for row in encoded(codec("other"), np.array([1.0, np.inf, -np.inf]))] == [0.0, 2.0, 2.0]
    with pytest.raises(DataError, match="does not list"):
        encoded(codec(), np.array([1.0, np.inf, 2.0]))


@pytest.mark.parametrize("where", ["grade", "size"])
def test_whatever_a_value_raises_is_not_repeated(where: str) -> None:
    with pytest.raises(DataError) as caught:
        encoded(codec(), **{where: [Spiteful(), 1, 1]})
    assert MARKED not in str(caught.value)
    assert caught.value.__context__ is None


def test_complex_numbers_are_no_numbers() -> None:
    with pytest.raises(DataError):
        encoded(codec(), size=np.array([0.1, 0.2, 0.3]) + 1j)


def test_what_is_masked_is_not_used_as_if_it_were_not() -> None:
    with pytest.raises(DataError, match="masked"):
        encoded(codec(), size=np.ma.array([0.1, 0.2, 0.3], mask=[0, 1, 0]))


@pytest.mark.parametrize(("kind", "unit"), [("date32", ""), ("timestamp", "s"), ("timestamp", "us"), ("duration", "s")])
def test_moments_that_no_calendar_has_are_refused_in_a_typed_error(tmp_path: Path, kind: str, unit: str) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    far = {"": int(MARKED), "s": 10**15, "us": 2**61}[unit]
    raw = arrow.array([far, 0], type=arrow.int64() if unit else arrow.int32())
    made = raw.cast(getattr(arrow, kind)(*([unit] if unit else [])))
    parquet.write_table(arrow.table({"grade": [1, 1], "size": made}), tmp_path / "t.parquet")
    with pytest.raises(DataError) as caught:
        encode_file(tmp_path / "t.parquet", codec())
    assert caught.value.__context__ is None


def test_a_file_without_a_line_of_names_is_not_quoted(tmp_path: Path) -> None:
    # its first line is a record
    (tmp_path / "t.csv").write_text(f"{MARKED},0.5\n2,0.7\n")
    names = read_header(tmp_path / "t.csv")
    hints = {"grade": {"categories": [1, 2]}, "size": {"low": 0.0, "high": 1.0}}
    with pytest.raises(UsageError, match="line of names") as caught:
        propose(names, hints)
    assert MARKED not in str(caught.value)
    with pytest.raises(DataError) as refused:
        encode_file(tmp_path / "t.csv", codec())
    assert MARKED not in str(refused.value)
    # a name beside known ones is a name
    with pytest.raises(UsageError, match="height"):
        propose(["grade", "height"], hints)


@pytest.mark.parametrize("size", [["inf", "0.1"], ["1" + "0" * 400, "0.1"], ["1_0", "0.1"], np.array([np.inf, 0.1])])
def test_what_nobody_writes_for_a_number_is_refused(size: Any) -> None:
    with pytest.raises(DataError, match="size"):
        encoded(codec(), (1, 2), size)


def test_a_blank_line_in_a_single_column_is_no_lost_record(tmp_path: Path) -> None:
    one = TableCodec(Schema((Column("size", "continuous", 0, 1, missing=True),)))
    path = tmp_path / "one.csv"
    # at the end too: whether a line is a record may not depend on whether another one follows
    for text, line in (("size\n0.1\n\n0.2\n", 3), ("size\n0.1\n0.2\n\n", 4)):
        path.write_text(text)
        with pytest.raises(DataError, match=f"Line {line}"):
            encode_file(path, one)
    path.write_text('\nsize\n0.1\n""\n0.2\n')
    assert len(encode_file(path, one)[0]) == 3


def test_words_of_a_schema_are_those_that_cells_are_read_as() -> None:
    with pytest.raises(UsageError, match="space"):
        Column("grade", "categorical", categories=(" x", "y"))
    with pytest.raises(DataError, match="another name"):
        propose(["age"], {"age": {"low": 0, "high": 9, "name": "years"}}, None)
    assert propose(["age"], {"age": {"low": 0, "high": 9, "name": "age"}}, None).names == ("age",)


@pytest.mark.parametrize(("low", "high"), [(0, 3_000_000), (-(10**6), 0), (0, 10**15)])
def test_dates_have_to_lie_in_the_calendar(low: int, high: int) -> None:
    with pytest.raises(UsageError, match="calendar"):
        Column("seen", "date", low, high)
    with pytest.raises(UsageError, match="quotes"):
        Column("seen", "date", date(2020, 1, 1), date(2021, 1, 1))  # type: ignore[arg-type]
