"""A PostgreSQL server of the tests' own, where Debian's package is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of an empty database."""
    pytest.importorskip("adbc_driver_postgresql", reason="queries to PostgreSQL need its ADBC driver")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    # not below pytest's own folders, which another run of pytest closes to other accounts
    folder = Path(tempfile.mkdtemp(prefix="privot-postgresql-"))
    as_user: dict[str, Any] = {}
    if os.getuid() == 0:
        # the server refuses to run as root
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no account called postgres")
        as_user = {"user": account.pw_uid, "group": account.pw_gid}
        os.chown(folder, account.pw_uid, account.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data, quiet = folder / "data", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    setup = [programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-N", "-E", "UTF8"]
    subprocess.run(list(map(str, setup)), check=True, **quiet, **as_user)
    options = f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off"
    start = [programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"]
    subprocess.run(list(map(str, start)), check=True, **quiet, **as_user)
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        stop = [programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
        subprocess.run(list(map(str, stop)), check=False, **quiet, **as_user)
        shutil.rmtree(folder, ignore_errors=True)
