"""The coordinator's end of Flower: it registers nodes, opens a run and exchanges bytes through Flower's grid.

This process is the ServerApp: it acquires the run's task with the SuperLink's secret, as Flower's own executor would,
and speaks through Flower's `HttpGrid`. The bundle that Flower wants for a run holds no code.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from privot.errors import DataError, UsageError
from privot.federation.enrolling import AUTHORITY, SECRET
from privot.federation.flower.wire import FIELD, RECORD, TYPE
from privot.federation.job import Member

POLL = 0.2
_BUNDLE = {
    "pyproject.toml": b"""
[project]
name = "privot-federation"
version = "1.0.0"
description = "Holds no code: both ends run their own privot."
license = { file = "LICENSE" }
dependencies = ["flwr>=1.41"]
[tool.flwr.app]
publisher = "privot"
fab-format-version = 1
flwr-version-target = "1.41.0"
[tool.flwr.app.components]
serverapp = "nothing:here"
clientapp = "nothing:here"
""",
    "nothing.py": b"here = None\n",
    "LICENSE": b"There is nothing here to license.\n",
    "README.md": b"Flower wants a bundle for every run. This one holds no code.\n",
}


class FlowerChannel:
    """Bytes to and from parties' nodes through a running SuperLink; use it as a block."""

    def __init__(self, folder: Path, address: str, members: Sequence[Member]) -> None:
        self._folder, self._address = folder, address
        self._authority = (folder / AUTHORITY).read_bytes()
        self._nodes = {_node_key(member): member.signer for member in members}
        self._names = {_node_key(member): member.name for member in members}
        self._grid: HttpGrid | None = None
        self._heartbeat: HeartbeatSender | None = None

    def __enter__(self) -> Self:
        control = self._client(ControlHttpClient, "flwr")
        try:
            for key, name in self._names.items():
                _register(control, key, name)
            bundle, _ = build_fab_from_files(_BUNDLE)
            fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
            run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id
        finally:
            control.close()
        self._grid = HttpGrid(self._address, False, self._authority, token=self._token(run_id))
        client = self._grid._runtime_client
        given = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        self._grid.set_run(run_from_proto(given.run))
        self._heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
        self._heartbeat.start()
        return self

    def exchange(self, requests: Mapping[str, bytes], wait: float) -> Iterator[tuple[str, bytes | str]]:
        """Send each request when its node is there, again if the node restarted meanwhile, until all is answered."""
        assert self._grid is not None
        end = time.monotonic() + wait
        waiting = dict(requests)
        sent: dict[str, tuple[str, str]] = {}  # message → (party, when its node was activated)
        while waiting and time.monotonic() < end:
            for party, (node, since) in self._online().items():
                if party in waiting and (party, since) not in sent.values():
                    record = RecordDict({RECORD: ConfigRecord({FIELD: waiting[party]})})
                    for mark in self._grid.push_messages([Message(record, node, TYPE)]):
                        sent[mark] = (party, since)
            for message in self._grid.pull_messages(list(sent)) if sent else ():
                party, _ = sent.pop(message.metadata.reply_to_message_id, ("", ""))
                if party not in waiting:
                    continue
                if message.has_error():
                    # the node went away: it is asked again when it is back
                    continue
                data = _bytes_in(message)
                del waiting[party]
                yield party, data if data is not None else "sent a message without content"
            time.sleep(POLL)

    def _online(self) -> dict[str, tuple[int, str]]:
        """(node, when it was activated) of every party whose node is there; nodes with other keys are nobody."""
        assert self._grid is not None
        found = {}
        for node in self._grid.get_nodes():
            party = self._nodes.get(bytes(node.public_key))
            if party is not None and node.status == "online":
                found[party] = (int(node.node_id), str(node.last_activated_at))
        return found

    def _token(self, run_id: int) -> str:
        guard = SuperExecAuthHttpInterceptor(
            master_secret=(self._folder / SECRET).read_bytes(),
            protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"}),
        )
        client = self._client(RuntimeHttpClient, "SuperExec", guard)
        try:
            for _ in range(100):
                got = client.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))
                # runs that a killed coordinator, or anybody who reached the port, left behind are passed by
                if got.token and got.task.run_id == run_id:
                    return str(got.token)
                if not got.token:
                    time.sleep(POLL)
        finally:
            client.close()
        raise UsageError("The SuperLink did not hand out the task of its run: see superlink.log.")

    def _client(self, kind: Any, component: str, *more: Any) -> Any:
        version = RuntimeVersionHttpInterceptor(component_name=component)
        return kind.from_server_address(self._address, False, self._authority, [version, *more])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._heartbeat is not None and self._heartbeat.is_running:
            self._heartbeat.stop()
        if self._grid is not None:
            try:
                status = "completed" if error is None else "failed"
                self._grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
            except httpx.HTTPError:
                pass
            self._grid.close()


def _node_key(member: Member) -> bytes:
    """A member's node key as Flower keeps it."""
    try:
        key = load_ssh_public_key(member.node.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise DataError(f"The node key of {member.name} is no elliptic-curve key: `privot federate enrol` makes one.")
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _register(control: Any, key: bytes, name: str) -> None:
    try:
        control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
    except httpx.HTTPStatusError as error:
        # known from before: its database outlives the SuperLink
        if error.response.status_code != httpx.codes.PRECONDITION_FAILED:
            raise UsageError(f"The SuperLink does not take the node of {name}: {error.response.text[:200]}.") from None


def _bytes_in(message: Any) -> bytes | None:
    try:
        data = message.content[RECORD][FIELD]
    except (KeyError, TypeError):
        return None
    return data if isinstance(data, bytes) else None
