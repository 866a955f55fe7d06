"""Addresses of data: which of them may be written down, and how one is shown; it opens nothing.

An address goes to ledgers (as a label), to job.json, to messages and to workers. So one that holds a secret is refused
before any of that, in a sentence that does not repeat it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from privot.errors import UsageError

_SECRET_PARTS = re.compile(r"[?&;](password|sslpassword|token|key|secret|sig|signature)=", re.IGNORECASE)
_WHERE = {
    "postgresql": "~/.pgpass or the environment (PGPASSWORD)",
    "postgres": "~/.pgpass or the environment (PGPASSWORD)",
}


def is_remote(address: str | Path) -> bool:
    """Whether this is an address with a scheme, as fsspec reads them."""
    return "://" in str(address)


def local_path(address: str | Path) -> Path | None:
    """Where an address lies on this machine, as the library that opens it reads it; None where it lies elsewhere.

    >>> local_path("file:///data/visits/*.parquet"), local_path("duckdb://visits.db"), local_path("s3://bucket/visits")
    (PosixPath('/data/visits/*.parquet'), PosixPath('visits.db'), None)
    """
    scheme, mark, place = str(address).partition("://")
    if not mark:
        return Path(address)
    if scheme in ("file", "local"):
        return Path(os.path.expanduser(place))
    return Path(place) if scheme == "duckdb" and place else None


def check_no_secret(address: str) -> None:
    """Refuse an address that may hold a secret: a password, a token before the host, a query string, a chain.

    >>> check_no_secret("s3://bucket/visits/part-?.parquet")
    """
    # as the library that opens it reads it: a sign may be written as % and two digits, and that once more
    while (plain := unquote(address)) != address:
        address = plain
    scheme, _, rest = address.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, _ = host.rpartition("@")
    instead = _WHERE.get(scheme, "the configuration of fsspec (~/.config/fsspec) or the environment")
    if "::" in address:
        raise UsageError(
            "A chain of file systems (::) keeps copies and options of its own: give the address of one file system."
        )
    web = scheme in ("http", "https")
    database = scheme in _WHERE
    # elsewhere a question mark is a wildcard, and what stands before @ may be a user or a container
    asked = "?" in rest and not database and (web or "=" in rest.partition("?")[2])
    if (at and (":" in user or web)) or asked or _SECRET_PARTS.search(rest):
        raise UsageError(
            "The address of data may hold no password, token or query string, because it is written to job files: put "
            f"them into {instead}."
        )


def shown_address(address: str | Path) -> str:
    """How a ledger and a message name an address that `check_no_secret` let pass: without user and options.

    >>> shown_address("postgresql://me@host/db?sslmode=require")
    'postgresql://host/db'
    """
    scheme, mark, rest = str(address).partition("://")
    if not mark:
        return str(address)
    host, slash, path = rest.partition("/")
    if scheme in _WHERE:
        path = path.partition("?")[0]
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
