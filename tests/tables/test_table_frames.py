"""DataFrames of pandas, Polars and Arrow in and out: values, dtypes, and that no record decides a dtype."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privot import Synthesizer, Vault, load
from privot.errors import DataError, UsageError
from privot.kinds import Files, Vectors
from privot.partitions.engines.local_engine import LocalEngine
from privot.synthesis.method_configs import Embedding
from privot.tables import Column, Schema, Table, TableCodec, read_table
from privot.tables.frames.frame_form import FrameForm, decided_dtype, frame_kind
from privot.tables.frames.frame_reading import encode_frame
from privot.tables.frames.frame_writing import frame_of
from privot.tables.table_files import encode_file
from replaced_noise import Answers

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
    frame["seen"] = pandas.to_datetime(frame["seen"]).astype("datetime64[us]")
    frame["ill"] = frame["ill"].astype("bool")
    frame.index = [7, 7, 3, 1]
    return frame


def arrow_table() -> Any:
    types = {"age": pa.int32(), "weight": pa.float32(), "city": pa.dictionary(pa.int8(), pa.string())}
    types |= {"grade": pa.int8(), "seen": pa.timestamp("ms"), "ill": pa.bool_()}
    moments = [None if day is None else datetime(day.year, day.month, day.day) for day in PLAIN["seen"]]
    return pa.table({name: pa.array({**PLAIN, "seen": moments}[name], type=types[name]) for name in PLAIN})


def sampled(frame: Any, **how: Any) -> tuple[Synthesizer, Any]:
    vault = Vault.open(frame, SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))
    fitted = Synthesizer(1.0, 1e-5, seed=1, device="cpu", kind=CODEC).fit(vault)
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
    # a moment where the schema has days is a day
    wanted = dict(frame.schema) | {"city": polars.Enum(["Ulm", "Bonn"]), "seen": polars.Date}
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
    # a reader may have chosen the dictionary and the unit of the moments by the values
    wanted = {"city": pa.string(), "seen": pa.date32()}
    for name in PLAIN:
        assert made.schema.field(name).type == wanted.get(name, table.schema.field(name).type), name
    assert set(made["city"].to_pylist()) <= {"Ulm", "Bonn", None}
    back = frame_of(CODEC.decode(*encode_frame(table, CODEC), compact=True), SCHEMA, FrameForm.of(table, SCHEMA))
    assert back.to_pydict() == table.to_pydict() | {"seen": PLAIN["seen"]}
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


def test_a_parquet_file_of_views_is_read_as_its_values_are(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    table = arrow_table().set_column(1, "weight", pa.array(PLAIN["weight"]))
    parquet.write_table(table.set_column(2, "city", views_of_cities()[0]), tmp_path / "views.parquet")
    assert parquet.read_schema(tmp_path / "views.parquet").field("city").type == pa.string_view()
    rows, labels = encode_file(tmp_path / "views.parquet", CODEC, compact=True)
    np.testing.assert_array_equal(rows, expected()[0])
    np.testing.assert_array_equal(labels, expected()[1])


def test_dates_come_out_as_the_schema_says_and_booleans_in_its_words() -> None:
    words = Schema((Column("ill", "boolean", categories=("no", "yes")), SCHEMA["seen"]))
    table = pa.table({"ill": ["no", "yes"], "seen": ["2020-01-01", None]})
    form = FrameForm.of(table, words)
    back = frame_of(Table({"ill": np.array([False, True]), "seen": PLAIN["seen"][:2]}), words, form)
    assert back.to_pydict() == {"ill": ["no", "yes"], "seen": [date(2020, 5, 1), None]}


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_frames_have_booleans_in_the_words_of_the_schema(kind: str) -> None:
    if kind != "arrow":
        pytest.importorskip(kind)
    for words, wanted in (
        ((0, 1), [1, 0, 1]),
        (("No", "Yes"), ["Yes", "No", "Yes"]),
        (("False", "True"), [True, False, True]),
    ):
        schema = Schema((Column("b", "boolean", categories=words),))
        form = FrameForm.of(pa.table({"b": [True, False, True]}), schema)
        made = frame_of(Table({"b": np.array([True, False, True])}), schema, FrameForm(kind, form.dtypes))
        assert (made["b"].to_pylist() if kind == "arrow" else made["b"].to_list()) == wanted


# --- what a reader makes of one record


NEAR = Schema(
    (
        Column("whole", "integer", 0, 120, missing=True),
        Column("always", "integer", 0, 120),
        Column("weight", "continuous", 0.0, 200.0, missing=True),
        Column("code", "categorical", categories=(1, 2), missing=True),
        Column("text", "categorical", categories=("1", "2"), missing=True),
        Column("city", "categorical", categories=("Ulm", "Bonn"), missing=True, unknown="other"),
        Column("day", "date", "2020-01-01", "2024-12-31", missing=True),  # type: ignore[arg-type]
        Column(
            "moment", "date", "2020-01-01T00:00:00", "2024-12-31T00:00:00", missing=True, format="%Y-%m-%dT%H:%M:%S"
        ),  # type: ignore[arg-type]
        Column("ill", "boolean", missing=True),
        Column("smokes", "boolean", categories=(0, 1), missing=True),
    )
)
CELLS = ["31", "40", "61.5", "1", "2", "Ulm", "2020-05-01", "2021-07-07T10:00:00", "true", "1"]
ODD = ["?", "", "NaN", "null", "3", "3.5", "1e2", "-7", "9" * 20, "false", "True", "Hof", "2020-01-02", "12/31/2020"]
ODD += ["2020-01-02 10:00:00", "2020-01-02T10:00:00Z", "2020-01-02T10:00:00.123456789", "10:00:00"]


def by_arrow(text: str, **how: Any) -> Any:
    import pyarrow.csv as reader

    return reader.read_csv(io.BytesIO(text.encode()), convert_options=reader.ConvertOptions(**how))


def by_polars(text: str, **how: Any) -> Any:
    return pytest.importorskip("polars").read_csv(io.BytesIO(text.encode()), infer_schema_length=None, **how)


def by_pandas(text: str, convert: bool = False, **how: Any) -> Any:
    frame = pytest.importorskip("pandas").read_csv(io.StringIO(text), **how)
    return frame.convert_dtypes() if convert else frame


READERS: dict[str, Callable[[str], Any]] = {
    "arrow": by_arrow,
    "arrow, dictionaries": partial(by_arrow, auto_dict_encode=True, auto_dict_max_cardinality=2),
    "polars": by_polars,
    "polars, dates": partial(by_polars, try_parse_dates=True),
    "pandas": by_pandas,
    "pandas, dates": partial(by_pandas, parse_dates=["day", "moment"]),
    "pandas, texts kept": partial(by_pandas, keep_default_na=False, parse_dates=["day", "moment"]),
    "pandas, converted": partial(by_pandas, convert=True),
    "pandas, nullable": partial(by_pandas, dtype_backend="numpy_nullable"),
    "pandas, arrow": partial(by_pandas, dtype_backend="pyarrow", parse_dates=["day", "moment"]),
}


def types_out(frame: Any, codec: TableCodec) -> str:
    """The dtypes that come out where `frame` goes in."""
    made = frame_of(
        codec.decode(*encode_frame(frame, codec), compact=True), codec.schema, FrameForm.of(frame, codec.schema)
    )
    return str(list(made.dtypes.items()) if hasattr(made, "dtypes") and hasattr(made, "iloc") else made.schema)


@pytest.mark.filterwarnings("ignore:Could not infer format")
@pytest.mark.parametrize("reader", READERS)
def test_no_record_decides_the_dtypes_that_come_out(reader: str, whole_run: bool) -> None:
    codec, read, odd_dtypes = TableCodec(NEAR), READERS[reader], set()
    header, row = ",".join(NEAR.names), ",".join(CELLS)
    plain = read("\n".join([header, row, row, row]))
    wanted = types_out(plain, codec)
    told = 0
    for place in range(len(CELLS)):
        for odd in ODD if whole_run else ODD[place % 2 :: 2]:
            try:
                near = read("\n".join([header, row, ",".join([*CELLS[:place], odd, *CELLS[place + 1 :]]), row]))
            except (OverflowError, TypeError):
                continue  # by pandas itself
            try:
                found = types_out(near, codec)
            except DataError:
                continue  # refused before anything is released
            assert found == wanted, (NEAR.names[place], odd)
            told += 1
            odd_dtypes.add(str(near.schema if hasattr(near, "schema") else list(near.dtypes)))
    assert told >= (2 if whole_run else 1) * len(CELLS)
    # the readers did choose dtypes by the one record
    assert len(odd_dtypes) >= len(CELLS) - 1


def test_with_the_noise_forced_equal_neighbouring_frames_give_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Column("day", "date", "2020-05-01", "2020-05-04", missing=True)  # type: ignore[arg-type]
    schema = Schema((NEAR["code"], days, NEAR["ill"]))
    made = []
    for last in ("1,2020-05-01,true", "?,?,?"):
        Answers(monkeypatch)
        table = by_arrow(f"code,day,ill\n1,2020-05-01,true\n2,2020-05-02,false\n{last}\n")
        vault = Vault.open(table, schema, adjacency="replace-one", budget=(1.0, 1e-5))
        model = Synthesizer(1.0, 1e-5, seed=1, device="cpu", kind=TableCodec(schema)).fit(vault)
        made.append((model.sample(50, seed=2), vault.kind.form))
    assert made[0][1] == made[1][1]
    assert made[0][0].equals(made[1][0])
    assert made[0][0].schema.types == [pa.int64(), pa.date32(), pa.bool_()]


def test_narrow_dtypes_are_kept_where_no_record_decides_them() -> None:
    narrow = pa.table({"always": pa.array([3], pa.int8()), "weight": pa.array([3.0], pa.float32())})
    part = Schema((NEAR["always"], NEAR["weight"]))
    assert dict(FrameForm.of(narrow, part).dtypes) == {"always": "int8", "weight": "float"}
    wide = Schema((Column("always", "integer", 0, 200), NEAR["weight"]))
    assert FrameForm.of(narrow, wide).dtype("always") is None
    # pandas makes float64 of int32 as soon as a value is missing
    assert decided_dtype("pandas", NEAR["whole"], "int32") == decided_dtype("pandas", NEAR["whole"], "float64")
    assert decided_dtype("pandas", NEAR["always"], "int32") == "int32"
    assert decided_dtype("pandas", NEAR["city"], "category") == "category"


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("name", NEAR.names)
def test_what_is_decided_is_decided_again_for_itself(kind: str, name: str) -> None:
    numbers = ["int8", "Int16", "int64", "float32", "float", "double", "bool", "int16[pyarrow]"]
    others = ["object", "str", "string", "category", "enum", "null", "date32[day]", "timestamp[ns, tz=UTC]"]
    for told in numbers + others:
        decided = decided_dtype(kind, NEAR[name], told)
        assert decided_dtype(kind, NEAR[name], decided) == decided


def test_what_cannot_be_used_is_one_sentence() -> None:
    with pytest.raises(DataError, match="no records"):
        encode_frame(arrow_table().slice(0, 0), CODEC)
    with pytest.raises(DataError, match="lacks column 'ill'"):
        Vault.open(arrow_table().drop_columns(["ill"]), SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="leave out query"):
        Vault.open(Files(arrow_table(), query="SELECT 1"), SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="pandas, polars, arrow"):
        FrameForm("excel")
    with pytest.raises(DataError):
        FrameForm.from_dict({"kind": "pandas"})
    x = np.random.default_rng(0).uniform(size=(50, 2))
    vault = Vault(x, clip=2.0, adjacency="add-remove", budget=(1.0, 1e-5))
    points = Synthesizer(1.0, 1e-5, device="cpu", seed=1, method=Embedding(rules=_rules())).fit(vault)
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
        "from privot.tables import Column, Schema, Table\n"
        "from privot.tables.frames.frame_form import FrameForm\n"
        "from privot.tables.frames.frame_writing import frame_of\n"
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


# --- what is no table


class Series:
    """As pandas and Polars name one column; it must not be shown."""

    def __repr__(self) -> str:
        return "a record"


NO_TABLES = {
    "None": lambda: None,
    "int": lambda: 7,
    "bytes": lambda: b"people.csv",
    "list": lambda: [[31.0, 1.0]],
    "dict": lambda: {"age": [31]},
    "ndarray": lambda: np.full((2, 2), 31.0),
    "Series": Series,
    "generator": lambda: (row for row in [31]),
    "RecordBatchReader": lambda: arrow_table().to_reader(),
    "ChunkedArray": lambda: arrow_table()["age"],
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_is_refused_by_its_type_and_not_shown(name: str) -> None:
    value = NO_TABLES[name]()
    facts: dict[str, Any] = {"adjacency": "add-remove", "budget": (1.0, 1e-5)}
    calls: list[Callable[[], Any]] = [
        lambda: Vault.open(value, SCHEMA, **facts),
        lambda: Vault.open(Files(value, engine=LocalEngine()), SCHEMA, **facts),
        lambda: Vault.open(value, SCHEMA, **facts),
        lambda: Vault.open(value, Vectors(clip=1.0), **facts),
        lambda: load(value),
        lambda: read_table(value),
    ]
    for call in calls:
        with pytest.raises(UsageError) as error:
            call()
        assert f"got {name}" in str(error.value)
        assert not any(held in str(error.value) for held in ("31", "a record"))
    if name in ("Series", "RecordBatchReader"):
        with pytest.raises(UsageError, match="first"):
            calls[0]()


def test_a_frame_with_a_schema_can_be_opened_too() -> None:
    vault = Vault.open(arrow_table(), SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))
    assert vault.kind.form is not None


@pytest.mark.parametrize("index", [2, 7, -1])
def test_a_dictionary_whose_index_has_no_entry_is_refused(index: int) -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, index], pa.int8()), pa.array(["Ulm", "Bonn"]), safe=False)
    table = arrow_table().set_column(2, "city", words)
    for frame in (table, table.to_batches()[0]):
        with pytest.raises(DataError, match="index of a dictionary"):
            Vault.open(frame, SCHEMA, adjacency="add-remove", budget=(1.0, 1e-5))


def test_dtypes_of_polars_that_arrow_lacks_are_named() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(PLAIN).with_columns(polars.col("age").cast(polars.Int128))
    with pytest.raises(DataError, match="Column 'age' of the DataFrame has the dtype Int128"):
        encode_frame(frame, CODEC)
