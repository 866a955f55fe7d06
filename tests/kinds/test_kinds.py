"""What is public about records is said once, to the vault, and is written down and read back as it was said."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from privot import Vault
from privot.errors import UsageError
from privot.kinds import Files, Images, Unit, Vectors, as_kind
from privot.kinds.kind_registry import KINDS, kind_of_params
from privot.kinds.table_kinds import RelatedRows, TableRows, read_related
from privot.partitions.source_opening import open_source
from privot.tables import Column, RelatedCodec, Schema, TableCodec, encode_file

PEOPLE = Schema((Column("age", "integer", 0, 120), Column("sex", "categorical", categories=("f", "m"))), "sex")
VISITS = Schema((Column("days", "integer", 0, 30),))
RELATED = RelatedCodec({"people": PEOPLE, "visits": VISITS}, key="person", per_parent=2)
TERMS = {"adjacency": "add-remove", "budget": (1.0, 1e-5)}


@pytest.mark.parametrize(
    "schema",
    [
        Vectors(classes=3, low=-1.0, high=2.0),
        Vectors(low=(0.0, -1.0), high=(1.0, 4.0)),
        Images((4, 4, 3), ("cat", "dog"), high=255.0),
        PEOPLE,
        TableCodec(PEOPLE),
        RELATED,
    ],
)
def test_what_a_job_writes_of_a_kind_is_read_back(schema: object) -> None:
    kind = as_kind(schema)
    written = json.loads(json.dumps(kind.to_params()))
    again = kind_of_params(written)
    assert type(again) is type(kind)
    assert again.to_params() == kind.to_params()
    assert set(written) == {"shape", "low", "high", "codec", "class_names"}


def test_a_schema_file_may_describe_any_kind(tmp_path: Path) -> None:
    file = tmp_path / "images.json"
    file.write_text('{"kind": "images", "shape": [8, 8], "classes": 10, "clip": 2.0}')
    vault = Vault.open("digits", file, **TERMS)
    assert vault.kind == Images((8, 8), 10, 2.0)
    assert vault.facts.clip == 2.0
    PEOPLE.save(tmp_path / "people.json")
    kind = as_kind(tmp_path / "people.json")
    assert isinstance(kind, TableRows)
    assert kind.codec.schema == PEOPLE
    file.write_text('{"kind": "sounds"}')
    with pytest.raises(UsageError, match="Unknown kind of records 'sounds': expected one of vectors, images, table"):
        as_kind(file)


def test_the_vault_hands_its_kind_to_whoever_needs_it(tmp_path: Path) -> None:
    x, y = np.ones((6, 4)), np.arange(6) % 2
    assert Vault(x, y, clip=1.0, classes=2, **TERMS).kind == Vectors(2, 1.0)
    images = Images((2, 2), ("no", "yes"), 1.5, high=9.0)
    vault = Vault(x, y, kind=images, **TERMS)
    assert vault.kind == images
    assert (vault.facts.classes, vault.facts.clip) == (2, 1.5)
    (tmp_path / "people.csv").write_text("age,sex\n31,f\n54,m\n")
    opened = Vault.open(tmp_path / "people.csv", PEOPLE, **TERMS)
    assert isinstance(opened.kind, TableRows)
    assert opened.facts.classes == 2
    assert [column.name for column in opened.facts.columns] == ["age", "sex"]


def test_a_vault_knows_the_kind_of_what_was_opened(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("person,age,sex\na,31,f\nb,54,m\n")
    (tmp_path / "visits.csv").write_text("person,days\nb,2\n")
    tables = read_related({name: tmp_path / f"{name}.csv" for name in RELATED.names}, RELATED)
    related = Vault(tables, **TERMS)
    assert isinstance(related.kind, RelatedRows)
    assert related.kind.codec is RELATED
    assert related.facts.clip == RELATED.bound()
    (tmp_path / "rows.csv").write_text("age,sex\n31,f\n54,m\n")
    codec = TableCodec(PEOPLE)
    partitioned = Vault(open_source(tmp_path / "rows.csv", codec=codec), **TERMS)
    assert isinstance(partitioned.kind, TableRows)
    assert (partitioned.kind.codec, partitioned.facts.classes) == (codec, 2)
    assert partitioned.facts.clip == codec.bound(compact=True)
    assert [column.name for column in partitioned.facts.columns] == ["age", "sex"]
    # what holds an array says whether it takes it for rows of a table
    rows, labels = encode_file(tmp_path / "rows.csv", codec, compact=True)
    plain = Vault(rows, labels, classes=2, clip=2.0, **TERMS)
    assert plain.kind == Vectors(2, 2.0)
    assert repr(plain).startswith("<Vault 'records': records in ")
    assert repr(Vault(rows, labels, kind=codec, **TERMS)).startswith("<Vault 'records': rows of a table in ")
    assert repr(related).startswith("<Vault 'records': related records in ")


def test_what_a_kind_says_is_not_said_again() -> None:
    x, y = np.ones((6, 4)), np.arange(6) % 2
    with pytest.raises(UsageError, match="leave out clip, classes"):
        Vault(np.zeros((4, 1)), np.arange(4) % 2, kind=PEOPLE, clip=1.0, **TERMS)
    with pytest.raises(UsageError, match="said twice"):
        Vault(x, y, kind=Vectors(2, 1.0), clip=2.0, **TERMS)
    with pytest.raises(UsageError, match="state them once"):
        Vault(x, y, kind=Vectors(2, 1.0), classes=3, **TERMS)


def test_related_tables_are_opened_as_every_other_kind(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.csv" for name in RELATED.names}
    files["people"].write_text("person,age,sex\na,31,f\nb,54,m\n")
    files["visits"].write_text("person,days\nb,2\nc,9\n")
    with pytest.raises(Exception, match="orphans"):
        Vault.open(files, RELATED, **TERMS)
    vault = Vault.open(files, RelatedRows(RELATED, "drop"), **TERMS)
    assert isinstance(vault.kind, RelatedRows)
    assert vault.facts.unit == RELATED.unit


def test_an_opened_vault_asks_for_eight_things() -> None:
    parameters = list(inspect.signature(Vault.open).parameters)
    assert parameters == ["data", "schema", "adjacency", "ledger", "budget", "unit", "noise", "new_records"]


def test_a_unit_is_a_name_or_says_how_many_of_its_records_take_part(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,age,sex\n1,31,f\n1,54,m\n")
    for unit, rows in (("who", 1), (Unit("who", 2), 2)):
        vault = Vault.open(Files(tmp_path / "a.csv", label="people"), PEOPLE, unit=unit, **TERMS)
        assert vault.facts.unit == Unit("who", rows)
        assert repr(vault).startswith("<Vault 'people'")


def test_privots_own_kinds_are_found_by_their_names() -> None:
    for name in KINDS.names[:4]:
        assert KINDS.load(name).name == name
