"""The coordinator's end of Flower: it registers nodes, opens a run and exchanges bytes with them.

This process is the ServerApp: it acquires the run's task with the SuperLink's secret, as Flower's own executor would.
It uses Flower's Runtime interface directly: Flower's `HttpGrid` retries for ever when its SuperLink is gone, while here
every call has a deadline and the SuperLink's process is watched. The bundle that Flower requires for a run holds no
code. The bytes themselves are not looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.app import Message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import HEARTBEAT_CALL_TIMEOUT, HEARTBEAT_DEFAULT_INTERVAL, SUPERLINK_NODE_ID
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    GetNodesRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushAppMessagesRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity

from privot.errors import DataError, NoAnswerError, UsageError
from privot.federation.coordination.coordinator import ABSENT
from privot.federation.coordination.federated_job import Member
from privot.federation.flower.flower_messages import TYPE, Incoming, Outgoing, bytes_in, record_of
from privot.federation.flower.superlink import AGAIN, LOG
from privot.federation.flower.watching import Late, bounded, limit
from privot.federation.parties.enrolment import AUTHORITY, SECRET

POLL = 0.2
OPENING, LEAVING = 60.0, 5.0
"""Longest time in seconds to open a run, and to leave it."""
GRACE = 0.5
PASSING = (502, 503, 504)
"""Status codes of a SuperLink that is busy or restarting: the call is repeated until the deadline."""
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
    """Carries bytes to and from parties' nodes through a running SuperLink; a context manager.

    `watch` is called while waiting for the SuperLink, and raises if it has ended. Every wait is bounded: opening after
    `OPENING` seconds, an exchange at its own deadline, leaving after `LEAVING` seconds.
    """

    def __init__(
        self, folder: Path, address: str, members: Sequence[Member], watch: Callable[[], None] = lambda: None
    ) -> None:
        self._folder, self._address, self._watch = folder, address, watch
        self._authority = (folder / AUTHORITY).read_bytes()
        self._nodes = {_node_key(member): member.signer for member in members}
        self._names = {_node_key(member): member.name for member in members}
        self._client: Any = None
        self._left, self._ended = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        end = time.monotonic() + OPENING
        try:
            token = bounded(lambda: self._open_run(end), OPENING, self._watch)
        except Late:
            raise self._no_answer(f"open a run within {OPENING:g} seconds") from None
        except httpx.HTTPStatusError as error:
            raise self._refused(error) from None
        except httpx.HTTPError:
            raise self._no_answer("open a run") from None
        self._client = self._runtime(token)
        threading.Thread(target=self._beat, args=(token,), daemon=True).start()
        return self

    def _open_run(self, end: float) -> str:
        """Register all nodes, open a run and take its task, as Flower's own executor would; returns the token."""
        control = self._connect(ControlHttpClient, "flwr")
        try:
            for key, name in self._names.items():
                limit(control, end)
                _register(control, key, name)
            bundle, _ = build_fab_from_files(_BUNDLE)
            fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
            limit(control, end)
            run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id
        finally:
            control.close()
        token = self._token(run_id, end)
        with self._runtime(token) as client:
            limit(client, end)
            given = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        return token

    def exchange(self, requests: Mapping[str, bytes], wait: float) -> Iterator[tuple[str, bytes | str]]:
        """Send each request when its node is online, again if the node restarted, until all are answered.

        Ends after at most `wait` seconds, and then reports parties whose node never connected. Raises `NoAnswerError`
        as soon as the SuperLink has ended, and if it does not respond at the deadline.
        """
        end = time.monotonic() + wait
        turn, unresponsive = _Turn(self._client, self._nodes, dict(requests), end), False
        while turn.waiting and time.monotonic() < end:
            if self._ended.is_set():
                raise NoAnswerError(f"The SuperLink gave up the run of this job: {self._log} says why. {AGAIN}")
            try:
                # a little longer than the calls inside it, to tell an unresponsive SuperLink from a slow party
                found = bounded(turn.take, end - time.monotonic() + 1.0, self._watch)
                unresponsive = False
            except Late:
                # a large answer may be arriving; nothing else in a turn takes long
                unresponsive = not turn.arriving
                break
            except httpx.HTTPError as error:
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in PASSING:
                    raise self._refused(error) from None
                found, unresponsive = [], True
            for party, data in found:
                turn.waiting.pop(party, None)
                yield party, data
            time.sleep(max(0.0, min(POLL, end - time.monotonic())))
        if turn.waiting and unresponsive:
            # a process that was killed a moment ago may only now show as dead
            time.sleep(GRACE)
            self._watch()
            raise self._no_answer("answer before the deadline")
        for party in turn.waiting:
            if party not in turn.seen:
                yield party, ABSENT

    def _beat(self, token: str) -> None:
        """Send heartbeats until the block is left or the SuperLink has given up the run."""
        with self._runtime(token) as client:
            client._client.timeout = HEARTBEAT_CALL_TIMEOUT
            while not self._left.wait(HEARTBEAT_DEFAULT_INTERVAL / 3.0):
                # a lost heartbeat is made up by the next one; the exchange itself watches the SuperLink
                with contextlib.suppress(httpx.HTTPError):
                    if not client.SendTaskHeartbeat(SendTaskHeartbeatRequest()).success:
                        self._ended.set()
                        return

    def _token(self, run_id: int, end: float) -> str:
        guard = SuperExecAuthHttpInterceptor(
            master_secret=(self._folder / SECRET).read_bytes(),
            protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"}),
        )
        with self._connect(RuntimeHttpClient, "SuperExec", guard) as client:
            while time.monotonic() < end:
                limit(client, end)
                got = client.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))
                # runs left behind by a killed coordinator, or by another program on the port, are skipped
                if got.token and got.task.run_id == run_id:
                    return str(got.token)
                if not got.token:
                    time.sleep(POLL)
        raise self._no_answer("hand out the task of its run")

    def _runtime(self, token: str) -> Any:
        return self._connect(RuntimeHttpClient, "flwr-serverapp", RuntimeTokenHttpInterceptor(token=token))

    def _connect(self, kind: Any, component: str, *more: Any) -> Any:
        version = RuntimeVersionHttpInterceptor(component_name=component)
        return kind.from_server_address(self._address, False, self._authority, [version, *more])

    @property
    def _log(self) -> Path:
        return self._folder / LOG

    def _no_answer(self, what: str) -> NoAnswerError:
        return NoAnswerError(f"The SuperLink at {self._address} did not {what}: {self._log} may say why. {AGAIN}")

    def _refused(self, error: httpx.HTTPStatusError) -> NoAnswerError:
        text = " ".join(error.response.text.split())[:200]
        code = error.response.status_code
        return NoAnswerError(
            f"The SuperLink at {self._address} refused a call ({code}: {text}): {self._log} may say why."
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        if self._client is None:
            return

        def finish() -> None:
            limit(self._client, time.monotonic() + LEAVING)
            status = "completed" if error is None else "failed"
            self._client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))

        # a SuperLink that has ended needs no notice, and one that hangs gets no more time
        with contextlib.suppress(httpx.HTTPError, NoAnswerError, Late):
            bounded(finish, LEAVING, self._watch)
        self._client.close()


class _Turn:
    """One exchange: parties without an answer, messages sent, and answers that are arriving."""

    def __init__(self, client: Any, nodes: Mapping[bytes, str], waiting: dict[str, bytes], end: float) -> None:
        self._client, self._nodes, self.waiting, self._end = client, nodes, waiting, end
        self.seen: set[str] = set()
        self._sent: dict[str, tuple[str, str]] = {}  # message → (party, when its node was activated)
        self.arriving: dict[str, Incoming] = {}  # party → its answer, part by part
        self._node = Node(node_id=SUPERLINK_NODE_ID)

    def take(self) -> list[tuple[str, bytes | str]]:
        """Send what can be sent now and fetch what has arrived, without waiting."""
        limit(self._client, self._end)
        for party, (node, since) in self._online().items():
            self.seen.add(party)
            if party in self.waiting and (party, since) not in self._sent.values():
                mark = self._push(node, self.waiting[party])
                if mark:
                    self._sent[mark] = (party, since)
        if self._sent:
            limit(self._client, self._end)
            got = self._client.PullMessages(PullAppMessagesRequest(message_ids=list(self._sent)))
            for head, tree in zip(got.messages_list, got.message_object_trees, strict=True):
                message = Incoming(head, tree)
                party, _ = self._sent.pop(message.reply_to, ("", ""))
                if party in self.waiting:
                    self.arriving[party] = message
        found: list[tuple[str, bytes | str]] = []
        for party, message in list(self.arriving.items()):
            limit(self._client, self._end)
            data: bytes | str | None
            try:
                whole: Any = message.fetch(self._client, self._node)
            except DataError as error:
                whole, data = None, f"sent an invalid answer: {error}"
            else:
                if whole is None:
                    continue
                data = bytes_in(whole) if not whole.has_error() else b""
            del self.arriving[party]
            # an error means that the node went offline: the request is sent again when it is back
            if whole is None or not whole.has_error():
                found.append((party, "sent a message without content" if data is None else data))
        return found

    def _push(self, node: int, data: bytes) -> str:
        out = Outgoing(Message(record_of(data), node, TYPE))
        limit(self._client, self._end)
        answer = self._client.PushMessages(
            PushAppMessagesRequest(messages_list=[out.head], message_object_trees=[out.tree])
        )
        out.push_parts(self._client, self._node, answer)
        # no message id: the SuperLink did not accept it, because the node has just gone offline
        return str(answer.message_ids[0]) if answer.message_ids else ""

    def _online(self) -> dict[str, tuple[int, str]]:
        """(node, time of activation) of every party whose node is online; nodes with other keys are ignored."""
        found = {}
        for node in self._client.GetNodes(GetNodesRequest()).nodes:
            party = self._nodes.get(bytes(node.public_key))
            if party is not None and node.status == "online":
                found[party] = (int(node.node_id), str(node.last_activated_at))
        return found


def _node_key(member: Member) -> bytes:
    """A member's node key in Flower's format."""
    try:
        key = load_ssh_public_key(member.node.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise DataError(f"The node key of {member.name} is not an elliptic-curve key: enrol the party to make one.")
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _register(control: Any, key: bytes, name: str) -> None:
    try:
        control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
    except httpx.HTTPStatusError as error:
        # registered before: the database outlives the SuperLink
        if error.response.status_code != httpx.codes.PRECONDITION_FAILED:
            raise UsageError(
                f"The SuperLink does not accept the node of {name}: {error.response.text[:200]}."
            ) from None
