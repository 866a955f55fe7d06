"""The unit column and dropped columns of a table: read beside the rows, never a column, never quoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot import Vault
from privot.common.privacy_unit import Unit
from privot.common.unit_values import unit_texts
from privot.errors import DataError, UsageError
from privot.kinds import Vectors
from privot.kinds.table_kinds import TableRows
from privot.synthesis import Synthesizer
from privot.tables import Column, Schema, TableCodec, encode_file, propose, table_files, unit_column
from privot.tables.unit_column import encode_file_with_units, identifier_names, schema_for_unit

COLUMNS = (Column("age", "integer", 0, 120), Column("sex", "categorical", categories=("f", "m")))
SCHEMA = Schema(COLUMNS)
LINES = ["patient_id,age,visit,sex", "SECRET1,31,a,f", "7,54,b,m", " SECRET1 ,20,c,m"]


def written(folder: Path, lines: list[str] = LINES) -> Path:
    file = folder / "visits.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_units_stand_beside_their_rows(tmp_path: Path):
    schema = schema_for_unit(SCHEMA.dropping("visit"), "patient_id")
    rows, labels, units = encode_file_with_units(written(tmp_path), TableCodec(schema), "patient_id")
    assert units == ["SECRET1", "7", "SECRET1"]
    assert labels is None
    assert rows.tolist() == encode_file(written(tmp_path), TableCodec(schema), compact=True)[0].tolist()
    assert rows.shape == (3, 2)


def test_csv_and_parquet_keep_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    dice = np.random.default_rng(0)
    who, age = dice.integers(0, 30, 300), dice.integers(0, 99, 300)
    sex = [("f", "m")[place % 2] for place in range(300)]
    pq.write_table(pa.table({"who": who, "age": age, "sex": sex}), tmp_path / "a.parquet")
    lines = ["who,age,sex", *(f"{a},{b},{c}" for a, b, c in zip(who, age, sex, strict=True))]
    # blocks of a few rows: a unit's rows lie in several
    monkeypatch.setattr(unit_column, "CHUNK", 7)
    found = [
        encode_file_with_units(file, TableCodec(schema_for_unit(SCHEMA, "who")), "who")
        for file in (written(tmp_path, lines), tmp_path / "a.parquet")
    ]
    assert found[0][2] == found[1][2] == [str(one) for one in who]
    assert np.array_equal(found[0][0], found[1][0])
    assert table_files.CHUNK > 7


def test_a_parquet_unit_is_of_a_declared_type_of_text_or_whole_numbers(tmp_path: Path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def units(column: Any) -> list[str]:
        pq.write_table(pa.table({"who": column, "age": [1, 2], "sex": ["f", "m"]}), tmp_path / "a.parquet")
        codec = TableCodec(schema_for_unit(SCHEMA, "who"))
        return encode_file_with_units(tmp_path / "a.parquet", codec, "who")[2]

    assert units(pa.array(["007", "7"])) == ["007", "7"]
    assert units(pa.array(["b", "b"]).dictionary_encode()) == ["b", "b"]
    assert units(pa.array([7, 8], pa.uint16())) == ["7", "8"]
    for column in (
        pa.array([7.0, 8.0]),
        pa.array([7.0, None]),
        pa.array([7, 8]).cast(pa.decimal128(20, 0)),
        pa.array([True, False]),
        pa.array([7, 8], pa.date32()),
    ):
        with pytest.raises(DataError, match="give the unit column as text"):
            units(column)
    with pytest.raises(DataError, match="whose it is"):
        units(pa.array([7, None]))


@pytest.mark.parametrize("cell", ["", "NA", "?", "   "])
def test_a_row_that_is_nobodys_is_refused(tmp_path: Path, cell: str):
    file = written(tmp_path, ["who,age,sex", "SECRET1,31,f", f"{cell},54,m"])
    with pytest.raises(DataError, match="whose it is") as refused:
        Vault.open(file, SCHEMA, adjacency="add-remove", budget=(1.0, 1e-6), unit="who")
    assert "SECRET1" not in str(refused.value)


def test_a_unit_that_is_not_there_or_is_the_label_is_refused(tmp_path: Path):
    told: dict[str, Any] = {"adjacency": "add-remove", "budget": (1.0, 1e-6)}
    file = written(tmp_path, ["age,sex", "31,f"])
    with pytest.raises(DataError, match="lacks column 'who'"):
        Vault.open(file, SCHEMA, unit="who", **told)
    with pytest.raises(UsageError, match="is the label"):
        Vault.open(file, Schema(COLUMNS, "sex"), unit="sex", **told)
    with pytest.raises(UsageError, match="at least one column"):
        Vault.open(file, Schema(COLUMNS[:1]), unit="age", **told)
    with pytest.raises(UsageError, match="name of a column"):
        Vault.open(file, SCHEMA, unit="", **told)
    with pytest.raises(UsageError, match="table with a schema"):
        Vault.open(file, Vectors(clip=1.0), unit="who", **told)


def test_partitions_without_such_a_column_are_refused(tmp_path: Path):
    written(tmp_path)
    told: dict[str, Any] = {"adjacency": "add-remove", "budget": (1.0, 1e-6)}
    for path in (tmp_path, tmp_path / "*.csv"):
        with pytest.raises(DataError, match="lacks column 'clinic'"):
            Vault.open(path, SCHEMA.dropping("patient_id").dropping("visit"), unit="clinic", **told)


def test_a_described_unit_is_no_column_of_the_rows(tmp_path: Path):
    schema = Schema((Column("who", "integer", 0, 99), *COLUMNS))
    file = written(tmp_path, ["who,age,sex", "1,31,f", "1,54,m"])
    vault = Vault.open(file, schema, adjacency="add-remove", budget=(1.0, 1e-6), unit=Unit("who", 2))
    assert vault.facts.dim == 2
    assert [column.name for column in vault.facts.columns] == ["age", "sex"]


def test_dropped_columns_are_read_by_nobody(tmp_path: Path):
    schema = SCHEMA.dropping("patient_id").dropping("visit")
    rows, _ = encode_file(written(tmp_path), TableCodec(schema), compact=True)
    assert rows.shape == (3, 2)
    # a synthetic table has none of them
    other, _ = encode_file(written(tmp_path, ["age,sex", "31,f"]), TableCodec(schema), compact=True)
    assert other.shape == (1, 2)
    with pytest.raises(DataError, match="describe it or drop it"):
        encode_file(written(tmp_path, ["age,sex,other", "31,f,1"]), TableCodec(schema), compact=True)


def test_drop_is_written_and_read(tmp_path: Path):
    told = {"columns": [{"name": "who", "drop": True}, *(c.to_dict() for c in COLUMNS)]}
    told["columns"][1] |= {"drop": False}
    told["columns"].append({"name": "kept", "type": "integer", "low": 0, "high": 9, "drop": True})
    (tmp_path / "schema.json").write_text(json.dumps(told), encoding="utf-8")
    schema = Schema.load(tmp_path / "schema.json")
    assert (schema.columns, schema.dropped) == (COLUMNS, ("who", "kept"))
    schema.save(tmp_path / "again.json")
    assert Schema.load(tmp_path / "again.json") == schema
    assert TableCodec.from_dict(TableCodec(schema).to_dict()).schema == schema
    assert schema.without_label().dropped == schema.dropped


@pytest.mark.parametrize("column", [{"name": "who", "drop": "yes"}, {"drop": True}, {"name": 3, "drop": True}])
def test_a_drop_that_cannot_be_read_is_refused(column: dict[str, Any]):
    with pytest.raises(DataError, match="drop"):
        Schema.from_dict({"columns": [column, *(c.to_dict() for c in COLUMNS)]})


def test_a_dropped_column_is_neither_described_nor_the_label():
    with pytest.raises(UsageError, match="same name"):
        Schema(COLUMNS, dropped=("age",))
    with pytest.raises(UsageError, match="is dropped"):
        Schema(COLUMNS, "sex", dropped=("sex",))
    assert SCHEMA.dropping("age").columns == COLUMNS[1:]


def test_a_proposal_drops_what_the_dictionary_says():
    schema = propose(["who", "age"], {"who": {"drop": True}, "age": {"low": 0, "high": 9}})
    assert (schema.names, schema.dropped) == (("age",), ("who",))


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(
            (name, True)
            for name in ("patient_id", "id", "ID", "visitId", "case id", "UUID", "person", "customer_no", "mrn")
        ),
        *(
            (name, False)
            for name in ("age", "idle", "paid", "valid", "education-num", "personal_income", "covid", "David")
        ),
    ],
)
def test_identifiers_are_told_by_their_names(name: str, is_one: bool):
    schema = Schema((Column(name, "integer", 0, 9), Column("x", "integer", 0, 9)))
    assert identifier_names(schema) == ([name] if is_one else [], [])
    assert identifier_names(Schema((Column("x", "integer", 0, 9),), dropped=(name,))) == ([], [name] if is_one else [])


def test_a_codec_with_the_unit_as_a_column_is_refused_with_what_to_do(tmp_path: Path):
    schema = Schema((Column("who", "integer", 0, 99), *COLUMNS))
    file = written(tmp_path, ["who,age,sex", "1,31,f", "1,54,m"])
    vault = Vault.open(file, schema, adjacency="add-remove", budget=(1.0, 1e-6), unit="who")
    with pytest.raises(UsageError, match="dropping"):
        Synthesizer(1.0, 1e-6, kind=TableCodec(schema)).design(vault.facts)
    with pytest.raises(UsageError, match="leave kind out"):
        Synthesizer(1.0, 1e-6, kind=TableCodec(schema)).fit(vault)
    assert Synthesizer(1.0, 1e-6, kind=TableCodec(schema.dropping("who"))).design(vault.facts).facts.unit is not None


def test_a_reader_that_forgets_units_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: dict[str, Any] = {"adjacency": "add-remove", "budget": (1.0, 1e-6)}
    read = TableRows.read

    def forgetful(*a: Any, **k: Any) -> Any:
        held = read(*a, **k)
        held.units = None
        return held

    monkeypatch.setattr(TableRows, "read", forgetful)
    with pytest.raises(UsageError, match="needs units"):
        Vault.open(written(tmp_path), SCHEMA.dropping("visit"), unit="patient_id", **told)


def test_a_number_that_python_does_not_write_out_is_refused():
    with pytest.raises(DataError, match="patient_id"):
        unit_texts([7, 10**5000], "patient_id")


def test_a_dataframe_with_a_unit_is_refused(tmp_path: Path):
    arrow_csv = pytest.importorskip("pyarrow.csv")
    frame = arrow_csv.read_csv(written(tmp_path))
    with pytest.raises(UsageError, match="write the DataFrame"):
        Vault.open(frame, SCHEMA.dropping("visit"), unit="patient_id", adjacency="add-remove", budget=(1.0, 1e-6))
