"""An address that holds a secret is refused before it is written anywhere, and never repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privot.cli import run
from privot.errors import PrivotError, UsageError
from privot.opening.addresses import check_no_secret, local_path, shown_address
from privot.opening.remote_files import locate, open_located

SECRET = "hunter2"
SECRETS = [
    f"s3://key:{SECRET}@bucket/a.parquet",
    f"https://{SECRET}@host/a.parquet",
    f"https://host/a.parquet?sig={SECRET}",
    f"https://host/a.parquet?{SECRET}",
    f"s3://bucket/a.parquet?X-Amz-Signature={SECRET}",
    f"simplecache::s3://key:{SECRET}@bucket/a.parquet",
    f"zip://*.csv::https://host/a.zip?token={SECRET}",
    f"ftp://me:{SECRET}@host/a.csv",
    f"postgresql://me:{SECRET}@host/db",
    f"postgresql://host/db?password={SECRET}",
    f"postgresql://host/db?sslmode=require&sslpassword={SECRET}",
    f"postgresql://host/db?p%61ssword={SECRET}",
    f"postgresql://me%3A{SECRET}@host/db",
    f"https://host/a.parquet%3Fsig%3D{SECRET}",
    f"s3://bucket/a.parquet%253Fsig%253D{SECRET}",
]


@pytest.mark.parametrize("address", SECRETS)
def test_secrets_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_no_secret(address)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("address", SECRETS)
def test_no_file_and_no_message_of_a_command_holds_a_secret(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from privot.tables import Column, Schema

    monkeypatch.chdir(tmp_path)
    Schema((Column("age", "integer", 0, 9),)).save(tmp_path / "schema.json")
    query = ["--query", "SELECT 1 AS age"] if address.startswith("postgres") else []
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--out", "made", "--ledger", "l.ledger"]
    assert run(["synth", address, "--schema", "schema.json", *query, *terms]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "written to job files" in said.err or "chain" in said.err
    assert {path.name for path in tmp_path.rglob("*")} == {"schema.json"}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://bucket/part-?.parquet", "s3://bucket/part-?.parquet"),
        ("abfs://container@account.dfs.core.windows.net/a/*.csv", "abfs://account.dfs.core.windows.net/a/*.csv"),
        ("sftp://me@host/a.csv", "sftp://host/a.csv"),
        ("postgresql://me@host:5432/db?sslmode=require", "postgresql://host:5432/db"),
        ("duckdb:///home/me/people.db", "duckdb:///home/me/people.db"),
        ("people.csv", "people.csv"),
    ],
)
def test_other_addresses_are_shown_without_user_and_options(address: str, shown: str) -> None:
    check_no_secret(address)
    assert shown_address(address) == shown


@pytest.mark.parametrize("address", ["file:///data/a b%20c/*.csv", "local:///data/a.csv", "file://rel/a", "file://~/a"])
def test_a_file_of_this_machine_is_found_where_its_library_opens_it(address: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    found = local_path(address)
    assert found is not None
    assert str(found.absolute()) == fsspec.core.url_to_fs(address)[1]


@pytest.mark.parametrize("address", ["s3://bucket/a", "postgresql://me@host/db", "memory://a", "duckdb://"])
def test_what_lies_elsewhere_has_no_place_here(address: str) -> None:
    assert local_path(address) is None


def test_errors_of_file_systems_are_one_sentence_without_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")

    def failing(*given: Any, **more: Any) -> Any:
        raise RuntimeError(f"credentials {SECRET} were refused")

    for method in ("info", "glob", "open"):
        monkeypatch.setattr(type(memory), method, failing)
    for work in (
        lambda: locate("memory://a.csv"),
        lambda: locate("memory://*.csv"),
        lambda: open_located("memory://a"),
    ):
        with pytest.raises(PrivotError) as caught:
            work()
        assert SECRET not in str(caught.value)
        assert caught.value.__context__ is None


def test_paths_that_cannot_be_looked_at_are_one_sentence(tmp_path: Path) -> None:
    from privot.partitions.source_opening import is_partitioned, open_source
    from privot.tables import Column, Schema, TableCodec

    codec = TableCodec(Schema((Column("age", "integer", 0, 9),)))
    long = f"{tmp_path}/{'x' * 300}*.csv"
    with pytest.raises(PrivotError, match="looked at"):
        is_partitioned(long, codec)
    with pytest.raises(PrivotError, match="looked at"):
        open_source(long, codec=codec)
