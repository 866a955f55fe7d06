"""Tables survive their files, chunk by chunk, and a broken file is refused without a value of it."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest

from privot.errors import DataError, PrivotError, UsageError
from privot.tables import (
    Column,
    Schema,
    Table,
    TableCodec,
    encode_file,
    read_header,
    read_table,
    table_writing,
    write_table,
)
from privot.tables.table_files import read_chunks

SCHEMA = Schema(
    (
        Column("born", "date", "1900-01-01", "2024-12-31", missing=True),
        Column("seen", "date", "2020-01-01 00:00", "2020-12-31 23:59", format="%Y-%m-%d %H:%M"),
        Column("city, town", "categorical", categories=("Ulm", 'the "Bonn"', "a,b"), missing=True),
        Column("grade", "ordinal", categories=(1, 2)),
        Column("debt", "integer", 0, 1000, missing=True),
        Column("height", "continuous", 0.5, 2.5, missing=True),
        Column("smokes", "boolean", categories=("no", "yes")),
    )
)
TABLE = Table(
    {
        "born": [date(1980, 2, 29), None, date(1999, 1, 1)],
        "seen": [datetime(2020, 6, 1, 12, 34)] * 3,
        "city, town": ["Ulm", 'the "Bonn"', None],
        "grade": [1, 2, 2],
        "debt": [0, None, 17],
        "height": np.array([1.25, np.nan, 2.0]),
        "smokes": np.array([True, False, True]),
    }
)
MARKED = "31415926"


@pytest.mark.parametrize("name", ["t.csv", "t.CSV.gz", "t.parquet"])
def test_a_table_survives_its_file(tmp_path: Path, name: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    write_table(TABLE, tmp_path / name, SCHEMA)
    assert read_header(tmp_path / name) == list(SCHEMA.names)
    codec = TableCodec(SCHEMA)
    np.testing.assert_array_equal(encode_file(tmp_path / name, codec)[0], codec.encode(TABLE)[0])
    again = codec.decode(encode_file(tmp_path / name, codec)[0])
    for column in SCHEMA.names[:5]:
        assert again[column].tolist() == TABLE[column].tolist()


def test_a_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    write_table(TABLE, tmp_path / "t.parquet", SCHEMA)
    types = parquet.read_schema(tmp_path / "t.parquet").types
    assert [str(t) for t in types] == [
        "date32[day]",
        "timestamp[us]",
        "string",
        "int64",
        "int64",
        "double",
        # words of its own, so that the file has them too
        "string",
    ]
    # also of a column that happens to be all missing; true and false are what they are
    schema = Schema((Column("n", "integer", 0, 9, missing=True), Column("b", "boolean", missing=True)))
    write_table(Table({"n": [None, None], "b": [True, None]}), tmp_path / "m.parquet", schema)
    assert [str(t) for t in parquet.read_schema(tmp_path / "m.parquet").types] == ["int64", "bool"]
    assert read_table(tmp_path / "m.parquet")["b"].tolist() == [True, None]
    parquet.write_table(pyarrow.table({"a": [[1], [2]]}), tmp_path / "l.parquet")
    with pytest.raises(DataError):
        read_table(tmp_path / "l.parquet")


def test_chunks_are_the_whole(tmp_path: Path) -> None:
    schema = Schema((Column("n", "integer", 0, 999),))
    write_table(Table({"n": np.arange(1000)}), tmp_path / "n.csv", schema)
    chunks = list(read_chunks(tmp_path / "n.csv", rows=300))
    assert [chunk.rows for chunk in chunks] == [300, 300, 300, 100]
    assert read_table(tmp_path / "n.csv")["n"].tolist() == [str(i) for i in range(1000)]
    rows, _ = encode_file(tmp_path / "n.csv", TableCodec(schema), compact=True)
    np.testing.assert_allclose(rows[:, 0], np.arange(1000) / 999)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n",
        b"a,a\n1,2\n",
        b"a,\n1,2\n",
        f"a,b\n1,2\n{MARKED}\n".encode(),
        f'a,b\n1,"{MARKED}\n'.encode(),
        b"a,b\n\xff\xfe,2\n",
    ],
)
def test_broken_csv_files_are_refused_without_a_value(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / "t.csv")
    assert MARKED not in str(caught.value)


def test_other_broken_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-20])
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "t.xlsx").write_bytes(b"x")
    for name in ("t.csv.gz", "t.xlsx", "nowhere.csv", "t.parquet"):
        # without pyarrow a Parquet file is refused as wrong usage, with what to install
        with pytest.raises((DataError, UsageError) if name == "t.parquet" else DataError):
            read_table(tmp_path / name)


def test_writing_another_table_than_the_schema_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrivotError):
        write_table(Table({"a": [1]}), tmp_path / "t.csv", SCHEMA)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"a;b\n1;2\n", "semicolons"), (b"a\tb\n1\t2\n", "tabs"), ("ä,b\n1,2\n".encode("latin-1"), "UTF-8")],
)
def test_a_table_of_another_make_is_named_by_what_it_is(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=says):
        read_table(tmp_path / "t.csv")


def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe_and_numbers_stay_numbers(tmp_path: Path) -> None:
    words = ("=1+1", "+x", "-5", "@sum", "plain", "5-3")
    schema = Schema(
        (
            Column("=name", "categorical", categories=words),
            Column("debt", "integer", -9, 9, missing=True),
            Column("height", "continuous", -9.0, 9.0),
            Column("grade", "ordinal", categories=(-1, 2)),
            Column("yes", "boolean", categories=("-no", "yes")),
        ),
        marks=("-", "NA"),
    )
    table = Table(
        {
            "=name": list(words),
            "debt": [-5, None, 1, 2, 3, 4],
            "height": np.full(6, -2.5),
            "grade": [-1, 2] * 3,
            "yes": np.array([False, True] * 3),
        }
    )

    def cells(name: str, **how: bool) -> list[list[str]]:
        write_table(table, tmp_path / name, schema, **how)
        data = (tmp_path / name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        return list(csv.reader(io.StringIO(text, newline="")))

    faithful, safe = cells("a.csv"), cells("b.csv", spreadsheet_safe=True)
    assert cells("c.csv.gz", spreadsheet_safe=True) == safe
    assert [row[0] for row in faithful] == ["=name", *words]
    assert [row[0] for row in safe] == ["'=name", *(f"'{w}" for w in words[:4]), "plain", "5-3"]
    # numbers are the same; the mark for a missing one and the word for no are text
    assert [row[1] for row in safe] == ["debt", "-5", "'-", *"1234"]
    assert [row[2:4] for row in safe[1:]] == [row[2:4] for row in faithful[1:]] == [["-2.5", "-1"], ["-2.5", "2"]] * 3
    assert [row[4] for row in safe[1:3]] == ["'-no", "yes"]
    # whatever begins a formula is gone, but for numbers
    for row in safe:
        for cell in row:
            assert cell[:1] not in tuple("=+@")
            assert cell[:1] != "-" or float(cell) < 0
    # no schema lets words begin with these, but whoever loosens that finds them covered
    defused = [table_writing._defused(cell) for cell in ("\tx", "\rx", "\nx", "", "x")]
    assert defused == [
        "'\tx",
        "'\rx",
        "'\nx",
        "",
        "x",
    ]
    with pytest.raises(UsageError, match="CSV"):
        write_table(table, tmp_path / "d.parquet", schema, spreadsheet_safe=True)


WORDS = [(0, 1), ("no", "yes"), ("No", "Yes"), ("false", "true"), ("False", "True"), ("n", "y"), ("f", "t"), ("-", "+")]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_booleans_come_out_as_they_were_written(words: tuple[str | int, str | int], name: str, tmp_path: Path) -> None:
    schema = Schema((Column("b", "boolean", categories=words, missing=True), Column("n", "integer", 0, 9)))
    codec = TableCodec(schema)
    (tmp_path / "in.csv").write_text(f"b,n\n{words[1]},1\n{words[0]},2\n?,3\n")
    rows, _ = encode_file(tmp_path / "in.csv", codec, compact=True)
    write_table(codec.decode(rows, None, compact=True), tmp_path / name, schema)
    held = read_table(tmp_path / name)["b"].tolist()
    if name == "t.parquet":
        plain = [str(word).lower() for word in words] == ["false", "true"]
        assert held == [True if plain else words[1], False if plain else words[0], None]
    else:
        assert held == [str(words[1]), str(words[0]), schema.marks[0]]
    np.testing.assert_array_equal(encode_file(tmp_path / name, codec, compact=True)[0], rows)
    # a library's own booleans are read in any words
    own = codec.encode(Table({"b": np.array([True, False]), "n": np.array([1, 2])}), compact=True)[0]
    np.testing.assert_array_equal(own, rows[:2])
