"""Cases of DataFrames: pandas, Polars and Arrow frames of hostile columns into a vault, and frames out of synthesis."""

# ruff: noqa: E501 — values are easier to read in long lines

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from fuzz.case import BUDGET, DATA, DONE, USAGE, Case, random_of

ROWS = 40
_LIBRARIES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
_DAY, _NOON = datetime.date(2021, 5, 1), datetime.datetime(2021, 5, 1, 12)
_GOOD: dict[str, list[Any]] = {
    "age": [7, 0, 9, None], "dose": [0.5, 0.0, 1.0, 0.25], "city": ["Ulm", "Bonn", "Ulm", None],
    "seen": [_DAY, datetime.date(2020, 1, 1), None, _DAY], "ill": [True, False, True, True],
}  # fmt: skip
_ODD: list[list[Any]] = [
    [1, "1", 1.0, True], [None] * 4, [float("nan"), float("inf"), -0.0, 1e308], [10**30, -(10**30), 2**63, -1], [b"x", b"", b"\xff", None],
    ["?", "", " ", "NA"], ["\u202eUlm", "Ulm\0", "a" * 3000, "ü€😀"], ["\ud800", "Ulm", "", None], [[1], [], None, [2, 3]], [{"a": 1}, {}, None, {"b": 2}],
    [decimal.Decimal("1.5"), decimal.Decimal("NaN"), None, decimal.Decimal("1E+400")], [_NOON, _NOON.replace(tzinfo=datetime.UTC), None, _NOON],
    [datetime.date.min, datetime.date.max, None, _DAY], [datetime.timedelta(1), None, datetime.timedelta.max, datetime.timedelta.min],
    [datetime.time(1), None, datetime.time.max, datetime.time.min], [1 + 2j, 0j, None, 1j], ["2021-05-01", "1.5.2021", "2021-13-01", ""], [0, 1, 2, -1], ["0", "1", "yes", "no"],
    [object(), int, len, ...], [range(3), (1, 2), {3}, frozenset()], [float("nan"), None, 0.5, 1], [1e-320, 0.1 + 0.2, 1 / 3, 2**53 + 1],
]  # fmt: skip
_DTYPES = [
    "object", "Int64", "float32", "float64", "int8", "uint64", "category", "string", "boolean", "bool", "datetime64[ns]", "datetime64[ns, UTC]",
    "timedelta64[ns]", "Float32", "period[D]", "Sparse[int]", "interval", "complex128", "int64[pyarrow]", "string[pyarrow]", "float[pyarrow]", "U3", "S3",
]  # fmt: skip
_ARROW = [
    "int8", "uint64", "float16", "float32", "string", "large_string", "binary", "bool_", "date32", "date64", "null", "timestamp", "time64", "duration",
    "decimal128", "decimal256", "dictionary", "list", "struct", "string_view", "run_end_encoded", "month_day_nano_interval", "float64", "int64",
]  # fmt: skip
_NAMES: list[Any] = ["age", "AGE", "", "\u202eage", "a" * 500, 0, None, ("age", "x"), 1.5, "dose"]


def case(seed: int, number: int) -> Case:
    """One frame; of the three libraries those that are installed take turns."""
    here = [kind for kind, module in _LIBRARIES.items() if find_spec(module) is not None]
    kind = here[number % len(here)]
    words = ["@frame", kind, str(random_of(seed, "frames", number).randrange(10**9))]

    def prepare(source: Path, folder: Path) -> None:
        (folder / "in").mkdir(parents=True)

    return Case("frames", number, words, prepare, frozenset({DONE, USAGE, DATA, BUDGET}), kind)


def read_frame(kind: str, seed: str) -> None:
    """A frame of a program as a vault takes it, and, where it does, what synthesis makes of it."""
    from privot import Synthesizer, Vault

    random = Random(seed)  # noqa: S311
    schema = _schema(random)
    names = [column.name for column in schema.columns]
    try:
        frame = _frame(kind, names, random)
    except _refusals():
        # the library itself does not take it
        return
    vault = Vault.open(frame, schema, adjacency=random.choice(["add-remove", "replace-one"]), budget=(5.0, 1e-5))
    if random.random() < 0.5:
        return

    fitted = Synthesizer(5.0, 1e-5, seed=1, device="cpu").fit(vault)
    _check_made(fitted.sample(9, seed=2), kind, schema)
    asked = random.choice(["pandas", "polars", "arrow", "table", "x", None])
    fitted.sample(3, seed=2, frame=asked)


def _check_made(made: Any, kind: str, schema: Any) -> None:
    """What comes out is a frame of the same library that the schema allows: a vault takes it again."""
    from privot import Vault
    from privot.tables.frames.frame_form import frame_kind

    columns = [str(name) for name in (made.column_names if kind == "arrow" else made.columns)]
    if frame_kind(made) != kind or columns != [column.name for column in schema.columns] or len(made) != 9:
        raise RuntimeError(f"A frame of {kind} came out as {type(made).__name__} of {columns}.")
    again = Vault.open(made, schema, adjacency="add-remove", budget=(1.0, 1e-5))
    if again.facts.dim != len(columns) - bool(schema.label):
        raise RuntimeError("What was made of a frame does not follow its schema.")


def _schema(random: Random) -> Any:
    from privot.tables import Column, Schema

    day: Any = "2020-01-01", "2021-12-31"
    kinds = [
        Column("age", "integer", 0, 9, missing=True), Column("dose", "continuous", 0.0, 1.0, decimals=random.choice([None, 2])),
        Column("city", "categorical", categories=("Ulm", "Bonn"), missing=True, unknown=random.choice(["refuse", "other"])),
        Column("seen", "date", *day, missing=True), Column("ill", "boolean", missing=random.random() < 0.5),
    ]  # fmt: skip
    chosen = random.sample(kinds, random.randint(1, len(kinds)))
    labels = [c.name for c in chosen if c.name in ("city", "ill") and not c.missing] if len(chosen) > 1 else []
    return Schema(tuple(chosen), label=random.choice([None, *labels]))


def _frame(kind: str, names: list[str], random: Random) -> Any:
    """A frame of some of `names`, mostly of values that fit, with one odd column, name, dtype or shape now and then."""
    rows = random.choice([0, 1, 4, ROWS])
    columns: dict[Any, list[Any]] = {name: (_GOOD[name] * ROWS)[:rows] for name in names}
    odd = random.choice(names) if random.random() < 0.7 else None
    if odd is not None and random.random() < 0.6:
        columns[odd] = (random.choice(_ODD) * ROWS)[:rows]
        if random.random() < 0.3:
            # one odd value among good ones
            columns[odd] = [random.choice(random.choice(_ODD)), *(_GOOD[odd] * ROWS)[:rows]][:rows]
    if random.random() < 0.15:
        columns[random.choice(_NAMES)] = columns.pop(random.choice(names))
    if random.random() < 0.1 and len(columns) > 1:
        columns.pop(random.choice(list(columns)))
    if random.random() < 0.03:
        return _no_frame(next(iter(columns.values())), random)
    makers: dict[str, Callable[[dict[Any, list[Any]], Any, Random], Any]] = {
        "pandas": _of_pandas, "polars": _of_polars, "arrow": _of_arrow,
    }  # fmt: skip
    return makers[kind](columns, odd, random)


def _no_frame(values: list[Any], random: Random) -> Any:
    import numpy as np
    import pyarrow as pa

    makers: list[Callable[[], Any]] = [
        lambda: None, lambda: 7, lambda: iter([1]), lambda: values, lambda: {"age": values}, lambda: np.zeros(3), lambda: pa.array(values), lambda: b"x", lambda: Random,
        lambda: pa.table({"city": pa.DictionaryArray.from_arrays(pa.array([0, 5, -1], pa.int32()), ["x", "y"], safe=False)}),
    ]  # fmt: skip
    return random.choice(makers)()


def _of_pandas(columns: dict[Any, list[Any]], odd: Any, random: Random) -> Any:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(
        {name: pd.Series(values, dtype=random.choice(["object", None])) for name, values in columns.items()}
    )
    if odd in frame and random.random() < 0.5:
        frame[odd] = frame[odd].astype(random.choice(_DTYPES))
    shape = random.random()
    if shape < 0.05:
        return pd.concat([frame, frame], axis=1)
    if shape < 0.1:
        frame.columns = pd.MultiIndex.from_tuples([(name, 0) for name in frame.columns])
    elif shape < 0.15:
        frame.index = pd.Index(np.zeros(len(frame)), name=random.choice([None, "age", ""]))
    elif shape < 0.2:
        return random.choice(
            [
                frame.T,
                frame.iloc[:, 0],
                frame.to_numpy(),
                frame.groupby(list(frame)),
                frame.iloc[::-2],
                frame.set_index(next(iter(frame))),
            ]
        )
    elif shape < 0.25:
        frame.attrs["x"] = object()
        frame.flags.allows_duplicate_labels = True
    return frame


def _of_polars(columns: dict[Any, list[Any]], odd: Any, random: Random) -> Any:
    import polars as pl

    frame = pl.DataFrame({str(name): pl.Series(str(name), values, strict=False) for name, values in columns.items()})
    types: list[Any] = [
        pl.Int8, pl.UInt64, pl.Float32, pl.String, pl.Categorical, pl.Boolean, pl.Date, pl.Datetime("ns", "UTC"), pl.Duration, pl.Binary, pl.Null,
        pl.Object, pl.Enum(["Ulm", "x"]), pl.Decimal(38, 2), getattr(pl, "Int128", pl.Int64), pl.List(pl.Int8), pl.Time,
    ]  # fmt: skip
    if odd in frame.columns and random.random() < 0.5:
        frame = frame.with_columns(pl.col(odd).cast(random.choice(types), strict=False))
    if random.random() < 0.15:
        return random.choice(
            [
                frame.lazy(),
                frame.to_series(0),
                frame.slice(1),
                frame.reverse(),
                frame.sample(0),
                frame.clear(),
                frame.rechunk(),
            ]
        )
    return pl.concat([frame, frame]) if random.random() < 0.1 else frame


def _of_arrow(columns: dict[Any, list[Any]], odd: Any, random: Random) -> Any:
    import pyarrow as pa

    made: dict[str, Any] = {
        "timestamp": lambda: pa.timestamp(random.choice(["s", "ns"]), random.choice([None, "UTC"])), "time64": lambda: pa.time64("ns"),
        "duration": lambda: pa.duration("s"), "decimal128": lambda: pa.decimal128(38, 2), "decimal256": lambda: pa.decimal256(76, 3),
        "dictionary": lambda: pa.dictionary(pa.int8(), random.choice([pa.string(), pa.int64()])), "list": lambda: pa.list_(pa.int8()),
        "struct": lambda: pa.struct([("a", pa.int8())]), "run_end_encoded": lambda: pa.run_end_encoded(pa.int32(), pa.int64()),
    }  # fmt: skip
    names, arrays = [str(name) for name in columns], []
    for name, values in columns.items():
        array = pa.array(values, from_pandas=random.random() < 0.5)
        if name == odd and random.random() < 0.5:
            wanted = random.choice(_ARROW)
            array = array.cast(made.get(wanted, getattr(pa, wanted, pa.null))(), safe=False)
        arrays.append(array)
    if random.random() < 0.05:
        names = [names[0]] * len(names)
    table = pa.table(arrays, names=names)
    shape = random.random()
    if shape < 0.15:
        return random.choice(
            [
                table.to_reader(),
                table.slice(1, 2),
                pa.concat_tables([table, table]),
                table.column(0),
                table.schema,
                table.to_batches(),
            ]
        )
    return table.replace_schema_metadata({b"pandas": b"{not json"}) if shape < 0.2 else table


def _refusals() -> tuple[type[Exception], ...]:
    """How the libraries refuse to make a frame."""
    found: list[type[Exception]] = [
        TypeError,
        ValueError,
        OverflowError,
        KeyError,
        AttributeError,
        NotImplementedError,
        IndexError,
    ]
    import pyarrow as pa

    found.append(pa.ArrowException)
    try:
        import polars as pl

        found += [pl.exceptions.PolarsError, pl.exceptions.PanicException]
    except ImportError:
        pass
    return tuple(found)
