"""What a case calls where there is no command for it: messages between organisations, read as a peer reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fuzz.frames import read_frame
from fuzz.places import placed
from fuzz.signals import struck
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
    "@placed": placed,
    "@struck": struck,
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
