"""DataFrames of pandas, Polars and Arrow in and out: values, dtypes, and that no record decides a dtype."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privot import Synthesizer, Vault
from privot.errors import DataError, UsageError
from privot.tables import Column, FrameForm, Schema, Table, TableCodec, encode_frame, frame_kind, frame_of
from privot.tables.table_files import encode_file

SCHEMA = Schema(
    (
        Column("age", "integer", 0, 120, missing=True),
        Column("weight", "continuous", 0.0, 200.0, decimals=1),
        Column("city", "categorical", categories=("Ulm", "Bonn"), missing=True),
        Column("grade", "ordinal", categories=(1, 2, 3)),
        Column("seen", "date", "2020-01-01", "2024-12-31", missing=True),  # type: ignore[arg-type]
        Column("ill", "boolean"),
    ),
    label="ill",
)
CODEC = TableCodec(SCHEMA)
PLAIN: dict[str, list[Any]] = {
    "age": [31, None, 54, 70],
    "weight": [61.5, 80.0, 75.2, 90.1],
    "city": ["Ulm", "Bonn", None, "Ulm"],
    "grade": [1, 2, 3, 1],
    "seen": [date(2020, 5, 1), None, date(2024, 1, 31), date(2021, 7, 7)],
    "ill": [True, False, True, False],
}


def expected() -> tuple[Any, Any]:
    return CODEC.encode(Table(PLAIN), compact=True)


def pandas_frame(pandas: Any) -> Any:
    frame = pandas.DataFrame({name: pandas.Series(values, dtype="object") for name, values in PLAIN.items()})
    frame["age"] = frame["age"].astype("Int64")
    frame["weight"] = frame["weight"].astype("float64")
    frame["city"] = pandas.Categorical(PLAIN["city"], categories=["Bonn", "Hof", "Ulm"])
    frame["grade"] = frame["grade"].astype("int8")
    frame["seen"] = pandas.to_datetime(frame["seen"]).astype("datetime64[ns]")
    frame["ill"] = frame["ill"].astype("bool")
    frame.index = [7, 7, 3, 1]
    return frame


def arrow_table() -> Any:
    types = {"age": pa.int32(), "weight": pa.float32(), "city": pa.dictionary(pa.int8(), pa.string())}
    types |= {"grade": pa.int8(), "seen": pa.timestamp("ms"), "ill": pa.bool_()}
    moments = [None if day is None else datetime(day.year, day.month, day.day) for day in PLAIN["seen"]]
    return pa.table({name: pa.array({**PLAIN, "seen": moments}[name], type=types[name]) for name in PLAIN})


def sampled(frame: Any, **how: Any) -> tuple[Synthesizer, Any]:
    vault = Vault.from_table(frame, SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))
    fitted = Synthesizer(1.0, 1e-5, codec=CODEC, seed=1, device="cpu").fit(vault)
    return fitted, fitted.sample(200, seed=2, **how)


def test_frames_of_pandas_come_back_with_their_dtypes(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas_frame(pandas)
    fitted, made = sampled(frame)
    assert isinstance(made, pandas.DataFrame)
    assert list(made.columns) == list(PLAIN)
    assert list(made.index) == list(range(200))
    for name in set(PLAIN) - {"city"}:
        assert made[name].dtype == frame[name].dtype, name
    # the categories are the schema's: those of the frame may have been read off the records
    assert list(made["city"].dtype.categories) == ["Ulm", "Bonn"]
    assert made["seen"].dropna().between("2020-01-01", "2024-12-31").all()
    fitted.save(tmp_path)
    again = Synthesizer.load(tmp_path)
    pandas.testing.assert_frame_equal(again.sample(200, seed=2), made)
    table, labels = again.sample(5, frame="table")
    assert isinstance(table, Table)
    assert labels.shape == (5,)
    assert isinstance(again.sample(5, frame="arrow"), pa.Table)


def test_rows_of_pandas_are_encoded_as_their_values_are() -> None:
    pandas = pytest.importorskip("pandas")
    rows, labels = encode_frame(pandas_frame(pandas), CODEC)
    wanted, marks = expected()
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(labels, marks)
    # and back, missing values included
    again = frame_of(CODEC.decode(rows, labels, compact=True), SCHEMA, FrameForm.of(pandas_frame(pandas), SCHEMA))
    shown = pandas_frame(pandas).reset_index(drop=True)
    shown["city"] = shown["city"].cat.set_categories(["Ulm", "Bonn"])
    pandas.testing.assert_frame_equal(again, shown, check_exact=False)


def test_no_record_decides_the_dtypes_or_the_other_rows_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    full = {**PLAIN, "age": [31, 30, 54, 70]}
    whole = pandas.DataFrame(full)
    broken = pandas.DataFrame({name: [*values, None if name == "age" else values[0]] for name, values in full.items()})
    assert [str(frame["age"].dtype) for frame in (whole, broken)] == ["int64", "float64"]
    assert FrameForm.of(whole, SCHEMA) == FrameForm.of(broken, SCHEMA)
    np.testing.assert_array_equal(encode_frame(whole, CODEC)[0], encode_frame(broken, CODEC)[0][:4])
    assert FrameForm.of(whole, SCHEMA).dtype("age") == "Int64"


def test_frames_of_polars_come_back_with_their_dtypes() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(PLAIN).with_columns(
        polars.col("age").cast(polars.Int16),
        polars.col("weight").cast(polars.Float32),
        polars.col("city").cast(polars.Enum(["Ulm", "Bonn", "Hof"])),
        polars.col("seen").cast(polars.Datetime("us")),
    )
    rows, labels = encode_frame(frame.with_columns(polars.col("weight").cast(polars.Float64).round(1)), CODEC)
    np.testing.assert_array_equal(rows, expected()[0])
    np.testing.assert_array_equal(labels, expected()[1])
    _, made = sampled(frame)
    assert isinstance(made, polars.DataFrame)
    wanted = dict(frame.schema) | {"city": polars.Enum(["Ulm", "Bonn"])}
    assert dict(made.schema) == wanted
    back = frame_of(CODEC.decode(rows, labels, compact=True), SCHEMA, FrameForm.of(frame, SCHEMA))
    assert back["age"].to_list() == PLAIN["age"]
    assert back["city"].to_list() == PLAIN["city"]
    text = polars.DataFrame(PLAIN)
    assert dict(sampled(text)[1].schema) == dict(text.schema)
    with pytest.raises(UsageError, match="collect"):
        frame_kind(frame.lazy())


def test_tables_of_arrow_come_back_with_their_types() -> None:
    table = arrow_table()
    rows, _ = encode_frame(table.set_column(1, "weight", pa.array(PLAIN["weight"])), CODEC)
    np.testing.assert_array_equal(rows, expected()[0])
    _, made = sampled(table)
    for name in set(PLAIN) - {"city"}:
        assert made.schema.field(name).type == table.schema.field(name).type, name
    assert pa.types.is_dictionary(made.schema.field("city").type)
    assert set(made["city"].combine_chunks().dictionary.to_pylist()) == {"Ulm", "Bonn"}
    back = frame_of(CODEC.decode(*encode_frame(table, CODEC), compact=True), SCHEMA, FrameForm.of(table, SCHEMA))
    assert back.to_pydict() == table.to_pydict()
    # many batches are one table
    many = pa.concat_tables([table, table, table])
    np.testing.assert_array_equal(encode_frame(many, CODEC)[0], np.tile(encode_frame(table, CODEC)[0], (3, 1)))


def views_of_cities() -> list[Any]:
    """Texts as views, and a dictionary of views, as Polars hands them to Arrow."""
    if not hasattr(pa, "string_view"):
        pytest.skip("this version of Arrow has no views")
    words = pa.array(["Ulm", "Hof", "Bonn"], pa.string_view())
    return [
        pa.array(PLAIN["city"], pa.string_view()),
        pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 0], pa.uint32()), words),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_texts_that_are_views_are_texts(which: int) -> None:
    table = arrow_table().set_column(1, "weight", pa.array(PLAIN["weight"]))
    table = table.set_column(2, "city", views_of_cities()[which])
    # a slice begins inside the batch
    for held, first in ((table, 0), (table.slice(1), 1)):
        rows, labels = encode_frame(held, CODEC)
        np.testing.assert_array_equal(rows, expected()[0][first:])
        np.testing.assert_array_equal(labels, expected()[1][first:])
    _, made = sampled(table)
    kind = made.schema.field("city").type
    assert pa.types.is_dictionary(kind) if which else kind == pa.string_view()
    assert set(made["city"].to_pylist()) <= {"Ulm", "Bonn", None}


def test_a_parquet_file_of_views_is_read_as_its_values_are(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    table = arrow_table().set_column(1, "weight", pa.array(PLAIN["weight"]))
    parquet.write_table(table.set_column(2, "city", views_of_cities()[0]), tmp_path / "views.parquet")
    assert parquet.read_schema(tmp_path / "views.parquet").field("city").type == pa.string_view()
    rows, labels = encode_file(tmp_path / "views.parquet", CODEC, compact=True)
    np.testing.assert_array_equal(rows, expected()[0])
    np.testing.assert_array_equal(labels, expected()[1])


def test_texts_of_dates_and_booleans_stay_texts() -> None:
    words = Schema((Column("ill", "boolean", categories=("no", "yes")), SCHEMA["seen"]))
    table = pa.table({"ill": ["no", "yes"], "seen": ["2020-01-01", None]})
    form = FrameForm.of(table, words)
    back = frame_of(Table({"ill": np.array([False, True]), "seen": PLAIN["seen"][:2]}), words, form)
    assert back.to_pydict() == {"ill": ["no", "yes"], "seen": ["2020-05-01", None]}


def test_what_cannot_be_used_is_one_sentence() -> None:
    with pytest.raises(DataError, match="no records"):
        encode_frame(arrow_table().slice(0, 0), CODEC)
    with pytest.raises(DataError, match="lacks column 'ill'"):
        Vault.from_table(arrow_table().drop_columns(["ill"]), SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="leave out query"):
        Vault.from_table(arrow_table(), SCHEMA, query="SELECT 1", adjacency="add-remove", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="pandas, polars, arrow"):
        FrameForm("excel")
    with pytest.raises(DataError):
        FrameForm.from_dict({"kind": "pandas"})
    x = np.random.default_rng(0).uniform(size=(50, 2))
    vault = Vault(x, clip=2.0, adjacency="add-remove", budget=(1.0, 1e-5))
    points = Synthesizer(1.0, 1e-5, device="cpu", seed=1, rules=_rules()).fit(vault)
    with pytest.raises(UsageError, match="leave out frame and where"):
        points.sample(5, frame="pandas")


def _rules() -> Any:
    from privot.synthesis import Rules

    network = {"kind": "mlp", "dim": 2, "classes": 1, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [8]}
    return Rules(network, steps=2, batch=16, learning_rate=1e-3)


def test_a_missing_library_is_said_in_one_sentence_and_none_is_imported_unasked() -> None:
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('pandas', 'polars'): raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "import numpy as np\n"
        "from privot.tables import Column, FrameForm, Schema, Table, frame_of\n"
        "schema = Schema((Column('age', 'integer', 0, 120),))\n"
        "table = Table({'age': np.array([1, 2])})\n"
        "for kind in ('pandas', 'polars'):\n"
        "    try: frame_of(table, schema, FrameForm(kind))\n"
        "    except ImportError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        "A pandas DataFrame needs pandas: pip install 'privot[frames]'.",
        "A Polars DataFrame needs Polars: pip install 'privot[frames]'.",
    ]
