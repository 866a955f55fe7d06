"""Runs Flower's SuperLink as a child process of the coordinator, watches it, and ends it with its parent.

The process is Flower's own command inside `following`: when a coordinator is killed, its SuperLink ends too, so that
the next one finds the port free. It carries signed bytes and reads none of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from privot.common.files import private_file, private_folder
from privot.errors import NoAnswerError, UsageError
from privot.federation.parties.enrolment import AUTHORITY, CERTIFICATE, SECRET

STARTING = 180.0
LOG, DATABASE = "superlink.log", "superlink.db"
AGAIN = "Start the same job again to resume it: all answers so far are kept."


class SuperLink:
    """A running SuperLink, as a context manager: leaving the block ends it."""

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self.folder, self.address, self._host, self._port = folder, f"{host}:{port}", host, port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._wait_for_port()
        here = private_folder(self.folder)
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
            # SQLite gives these files the mode of the database; files of an earlier version may lack it
            if name == DATABASE or (here / name).exists():
                private_file(here / name)
        # -P: nothing is imported from the folder of this module
        command = [sys.executable, "-P", str(Path(__file__).with_name("following.py")), str(os.getpid())]
        command += ["--host", self._host, "--port", str(self._port), "--isolation", "process"]
        command += ["--ssl-ca-certfile", str(here / AUTHORITY), "--ssl-certfile", str(here / CERTIFICATE)]
        command += ["--ssl-keyfile", str(here / f"{CERTIFICATE}.key"), "--database", str(here / DATABASE)]
        command += ["--enable-supernode-auth", "--superexec-auth-secret-file", str(here / SECRET)]
        command += ["--disable-runtime-dependency-installation"]
        with private_file(here / LOG).open("ab") as log:
            # this module makes all arguments, and no shell is involved
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)  # noqa: S603
        try:
            self._wait_until_up()
        except BaseException:
            self.stop()
            raise
        return self

    def _wait_for_port(self) -> None:
        """Wait until an earlier SuperLink has ended: it notices within a second that its parent died."""
        end = time.monotonic() + 15.0
        while True:
            with socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self._host, self._port))
                    return
                except OSError:
                    if time.monotonic() > end:
                        raise UsageError(f"{self.address} is in use: stop the process that listens there.") from None
            time.sleep(0.2)

    def _wait_until_up(self) -> None:
        assert self._process is not None
        end = time.monotonic() + STARTING
        while time.monotonic() < end:
            self.check()
            try:
                socket.create_connection((self._host, self._port), timeout=1.0).close()
                return
            except OSError:
                time.sleep(0.1)
        raise NoAnswerError(f"The SuperLink did not start in {STARTING:g} seconds: {self.folder / LOG} may say why.")

    def check(self) -> None:
        """Raise `NoAnswerError`, with exit code and log file, if the SuperLink has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            how = f"exit code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"
            raise NoAnswerError(f"The SuperLink has ended ({how}): {self.folder / LOG} may say why. {AGAIN}")

    def stop(self) -> None:
        """End it; its database keeps what nodes need to reconnect."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                # only a process that is blocked in the kernel survives SIGKILL
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5.0)
            self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
