"""What a case calls where there is no command for it: messages between organisations, read as a peer reads them."""

# ruff: noqa: E501 — values are easier to read in long lines

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privot.errors import PrivotError


def read_request(path: str) -> None:
    """A request as a party opens it."""
    from privot.federation.coordination.requests import Request

    Request.opened(Path(path).read_bytes())


def handle(path: str) -> None:
    """A request at a party's desk, which must answer or refuse whatever comes, and may never fail."""
    from privot.federation.parties.desk import Desk

    desk = Desk("in/party0")
    before = Path("in/party0/party.log").read_text().count("failed for")
    desk.handle(Path(path).read_bytes())
    desk.close()
    if Path("in/party0/party.log").read_text().count("failed for") > before:
        raise RuntimeError("The desk failed on a request.")


def open_desk(path: str) -> None:
    """A party's folder, or its policy, as `federate join` opens it."""
    from privot.federation.parties.desk import Desk

    Desk(path).close()


def read_job(path: str) -> None:
    """A coordinator's job."""
    from privot.federation.coordination.federated_job import FederatedJob

    FederatedJob.read(Path(path))


def coordinate(protocol: str) -> None:
    """A coordinator whose parties all answer with what lies in a file, signed as it is."""
    from privot.federation.coordination.coordinator import Coordinator
    from privot.federation.coordination.federated_job import FederatedJob
    from privot.federation.coordination.local_channel import LocalChannel
    from privot.federation.wire.signing import read_key

    work = FederatedJob.read(Path(f"in/{protocol}.toml"))
    found = Path(f"in/{protocol}.answer").read_bytes()
    channel = LocalChannel({member.signer: lambda data: found for member in work.members})
    coordinator = Coordinator("out/work", read_key(Path("in/hub/signing.key")), channel)
    try:
        coordinator.run(work)
    finally:
        coordinator.close()


def check_query(path: str, dialect: str) -> None:
    """A query as it is read before a database is asked."""
    from privot.partitions.readers.query_text import checked_query

    checked_query(Path(path).read_text(), dialect)


def read_frame(seed: str) -> None:
    """A table of a program, of any kind, as a vault takes it."""
    from random import Random

    import numpy as np
    import pyarrow as pa

    from privot import Vault
    from privot.tables import Column, Schema

    values: list[Any] = [
        [1, 2, 3, 4], ["1", "?", "", "x"], [None, None, 1, 2], [True, False, None, True], [1.5, float("nan"), 1e300, -0.0],
        ["2020-01-01", "x", "", None], [b"a", b"", None, b"c"], [[1], [2], [], None], [10**20, 1, 2, 3],
    ]  # fmt: skip
    random = Random(seed)  # noqa: S311
    column = random.choice(values)
    tables: list[Callable[[], Any]] = [
        lambda: None, lambda: 7, lambda: iter([1]), lambda: [1, 2], lambda: {"a": column}, lambda: np.zeros(3),
        lambda: pa.table({"a": column}), lambda: pa.array(column), lambda: pa.table({"a": column}).to_reader(),
        lambda: pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0, 5, -1], pa.int32()), ["x", "y"], safe=False)}),
        lambda: pa.table({"a": pa.array(["x", "y", None]).dictionary_encode()}),
    ]  # fmt: skip
    try:
        table = random.choice(tables)()
    except (pa.ArrowException, OverflowError):
        # Arrow itself does not take it
        return
    kinds = [
        Column("a", "integer", 0, 9, missing=True), Column("a", "categorical", categories=("x", "y"), unknown="other"),
        Column("a", "date", "2020-01-01", "2021-01-01", missing=True), Column("a", "boolean", missing=True),
    ]  # fmt: skip
    Vault.open(table, Schema((random.choice(kinds),)), adjacency="add-remove", budget=(1.0, 1e-5))


def closed_pipe(*arguments: str) -> None:
    """A command whose reader goes away: it ends quietly."""
    import sys

    from privot.cli import run

    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)
    code = run(list(arguments))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if code:
        raise RuntimeError(f"A closed pipe ended the command with {code}.")


CALLS: dict[str, Callable[..., None]] = {
    "@query": check_query,
    "@frame": read_frame,
    "@closed": closed_pipe,
    "@request": read_request,
    "@handle": handle,
    "@desk": open_desk,
    "@job": read_job,
    "@coordinate": coordinate,
}


def call(arguments: list[str]) -> int:
    """Run a call as a command is run: an exit code, and one sentence on standard error."""
    import sys

    try:
        CALLS[arguments[0]](*arguments[1:])
        return 0
    except PrivotError as error:
        print("privot: " + " ".join(str(error).split()), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"privot: {os.strerror(error.errno or 0)}", file=sys.stderr)
        return 3
