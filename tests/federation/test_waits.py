"""Every wait ends, with a reason: calls with deadlines, other servers on the port, SuperLinks that die."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

import httpx
from federation_folders import coordinator, party

from privot.errors import NoAnswerError, UsageError
from privot.federation.coordination.coordinator import ABSENT
from privot.federation.flower import serverapp, supernode
from privot.federation.flower.superlink import SuperLink
from privot.federation.flower.watching import Late, bounded, pauses

LOG = logging.getLogger("test")
SOON = 10.0
"""Seconds that a busy machine may add; what is left at its deadline here would otherwise hang for 30 or more."""


def nothing() -> None:
    """A watch that sees nothing."""


def dead() -> None:
    raise NoAnswerError("it died")


def test_a_call_that_hangs_is_left_at_its_deadline() -> None:
    began = time.monotonic()
    with pytest.raises(Late):
        bounded(lambda: time.sleep(30.0), 0.3, nothing)
    assert 0.3 <= time.monotonic() - began < SOON


def test_a_call_that_hangs_is_left_as_soon_as_what_it_depends_on_has_died() -> None:
    began = time.monotonic()
    with pytest.raises(NoAnswerError, match="it died"):
        bounded(lambda: time.sleep(30.0), 20.0, dead)
    assert time.monotonic() - began < SOON


def test_results_and_errors_of_a_call_are_passed_on() -> None:
    assert bounded(lambda: 7, 5.0, nothing) == 7
    with pytest.raises(ValueError, match="no"):
        bounded(lambda: int("no"), 5.0, nothing)
    # the failure of a call is explained by the death that caused it
    with pytest.raises(NoAnswerError, match="it died"):
        bounded(lambda: int("no"), 5.0, dead)


def test_pauses_double_up_to_a_bound() -> None:
    found = list(itertools.islice(pauses(1.0, 15.0), 12))
    for k, pause in enumerate(found):
        assert 0.75 * min(15.0, 2.0**k) <= pause <= min(15.0, 2.0**k)


class Calls:
    """A Runtime client whose calls behave as one function says."""

    def __init__(self, behave: Any) -> None:
        self._behave, self._client, self.limits = behave, SimpleNamespace(timeout=0.0), []

    def __getattr__(self, name: str) -> Any:
        def call(request: Any) -> Any:
            self.limits.append(self._client.timeout)
            return self._behave(name)

        return call


def channel(folder: Path, behave: Any, watch: Any = nothing) -> tuple[Any, str]:
    """A channel to one party that is opened already, over calls that behave so."""
    asker = coordinator(folder / "hub")
    member = party(folder / "0", 0, asker)
    made = serverapp.FlowerChannel(folder / "hub", "127.0.0.1:1", [member], watch)
    made._client = Calls(behave)
    return made, member.signer


def test_an_exchange_without_nodes_ends_at_its_deadline_and_names_the_absent(tmp_path: Path) -> None:
    made, signer = channel(tmp_path, lambda name: SimpleNamespace(nodes=[]))
    began = time.monotonic()
    assert list(made.exchange({signer: b"question"}, 0.5)) == [(signer, ABSENT)]
    assert time.monotonic() - began < SOON
    # every call was given no more time than was left
    assert 0.0 < max(made._client.limits) <= 0.5


def test_an_exchange_with_a_superlink_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    made, signer = channel(tmp_path, lambda name: time.sleep(30.0))
    began = time.monotonic()
    with pytest.raises(NoAnswerError, match="did not answer before the deadline"):
        list(made.exchange({signer: b"question"}, 0.5))
    assert time.monotonic() - began < SOON


def test_an_exchange_with_a_superlink_that_refuses_connections_says_so_at_its_deadline(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise httpx.ConnectError("refused")

    made, signer = channel(tmp_path, refuse)
    began = time.monotonic()
    with pytest.raises(NoAnswerError, match=r"did not answer before the deadline.*superlink\.log"):
        list(made.exchange({signer: b"question"}, 0.5))
    assert time.monotonic() - began < SOON


def test_an_exchange_ends_at_once_when_the_superlink_has_died(tmp_path: Path) -> None:
    made, signer = channel(tmp_path, lambda name: time.sleep(30.0), dead)
    began = time.monotonic()
    with pytest.raises(NoAnswerError, match="it died"):
        list(made.exchange({signer: b"question"}, 60.0))
    assert time.monotonic() - began < SOON


def test_leaving_a_superlink_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serverapp, "LEAVING", 0.3)
    made, _ = channel(tmp_path, lambda name: time.sleep(30.0) if name != "close" else None)
    made._client.close = nothing
    began = time.monotonic()
    made.__exit__(None, None, None)
    assert time.monotonic() - began < SOON


def test_a_superlink_that_was_killed_is_named_with_its_log(tmp_path: Path) -> None:
    link = SuperLink(tmp_path, "127.0.0.1", 1)
    link.check()
    link._process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    link.check()
    link._process.kill()
    link._process.wait(10)
    with pytest.raises(NoAnswerError, match=r"killed by SIGKILL.*superlink\.log") as found:
        link.check()
    assert found.value.exit_code == 6


class Stranger:
    """Somebody else on the port, with a certificate of another authority; counts who knocks."""

    def __init__(self, folder: Path) -> None:
        coordinator(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.pem.key")
        self._context, self.knocks = context, 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._greet, daemon=True).start()

    def _greet(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            self.knocks += 1
            try:
                self._context.wrap_socket(caller, server_side=True).close()
            except (OSError, ssl.SSLError):
                caller.close()

    def close(self) -> None:
        # whoever waits in accept() is woken too
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def test_a_party_that_finds_another_server_retries_reports_it_and_gives_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = coordinator(tmp_path / "hub")
    party(tmp_path / "0", 0, asker)
    monkeypatch.setattr(supernode, "pauses", lambda: pauses(0.1, 0.2))
    stranger, told, authority = Stranger(tmp_path / "other"), [], (tmp_path / "hub" / "ca.pem").read_bytes()
    began = time.monotonic()
    try:
        with pytest.raises(NoAnswerError, match=r"Given up after 2 seconds.*did not sign") as found:
            supernode.serve(bytes, stranger.address, authority, tmp_path / "0", LOG, 2.0, told.append)
    finally:
        stranger.close()
    assert 2.0 <= time.monotonic() - began < 10.0
    assert found.value.exit_code == 6
    assert stranger.knocks > 3
    # said once, not at every attempt
    assert len(told) == 1
    assert "did not sign" in told[0]
    assert "trying again" in told[0]


def test_a_party_connects_when_the_other_server_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = coordinator(tmp_path / "hub")
    party(tmp_path / "0", 0, asker)
    monkeypatch.setattr(supernode, "pauses", lambda: pauses(0.1, 0.2))
    stranger, told, authority = Stranger(tmp_path / "other"), [], (tmp_path / "hub" / "ca.pem").read_bytes()

    def tell(line: str) -> None:
        told.append(line)
        if "did not sign" in line:
            stranger.close()

    with pytest.raises(NoAnswerError, match="there is no answer at"):
        supernode.serve(bytes, stranger.address, authority, tmp_path / "0", LOG, 2.0, tell)
    assert len(told) == 2


def test_a_patience_that_is_not_positive_is_refused(tmp_path: Path) -> None:
    for patience in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="greater than 0"):
            supernode.serve(bytes, "127.0.0.1:1", b"", tmp_path, LOG, patience)


@pytest.mark.federation
@pytest.mark.kills
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_killed_superlink_and_a_killed_coordinator_end_all_processes_in_time_with_a_reason(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_processes.py")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(script), str(tmp_path), "--ends", "1", "--port", str(port), "--patience", "6"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kills" in done.stdout


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_superlink_whose_coordinator_dies_while_it_starts_ends_at_once(tmp_path: Path) -> None:
    script = Path(serverapp.__file__).with_name("following.py")
    # a Flower that takes a minute to import, and a coordinator that starts it and is gone
    (tmp_path / "flwr").mkdir()
    (tmp_path / "flwr" / "__init__.py").write_text("import time\ntime.sleep(60)\n")
    code = (
        "import os, subprocess, sys\n"
        f"command = [sys.executable, '-P', {str(script)!r}, str(os.getpid())]\n"
        "child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    status, end = Path(f"/proc/{int(done.stdout)}/stat"), time.monotonic() + 20.0
    while status.exists() and ") Z " not in status.read_text():
        assert time.monotonic() < end, "the SuperLink outlives its coordinator"
        time.sleep(0.1)
