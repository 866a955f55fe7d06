"""A party survives messages that arrive in part or cannot be read, and answers the next one."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

import httpx
from flwr.app import Message
from flwr.proto.node_pb2 import Node
from flwr.supercore.task_identity import TaskIdentity

from privot.federation.flower import supernode
from privot.federation.flower.flower_messages import TYPE, Incoming, Outgoing, bytes_in, record_of

WAIT = 60.0
"""Seconds until a test gives up waiting for a thread; on a quiet machine it waits for milliseconds."""


class SuperLink:
    """What a party's client calls, in memory: messages out, parts by name, replies in."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.known: set[str] = set()
        self.queue: list[tuple[Any, Any]] = []
        self.replies: list[tuple[Any, Any]] = []
        self.announced: set[str] = set()
        self.gone = False
        self.said: list[str] = []
        self._client = SimpleNamespace(timeout=0.0)

    def post(self, data: bytes, change: Any = lambda content: content) -> None:
        out = Outgoing(Message(record_of(data), 7, TYPE))
        for name, part in out._parts.items():
            self.known.add(name)
            content = change(part.deflate())
            if content is not None:
                self.parts[name] = content
        self.queue.append((out.head, out.tree))

    def PullMessages(self, request: Any) -> Any:
        if self.gone:
            raise httpx.ConnectError("refused")
        got, self.queue = self.queue[:1], self.queue[1:]
        return SimpleNamespace(messages_list=[h for h, _ in got], message_object_trees=[t for _, t in got])

    def PullObject(self, request: Any) -> Any:
        name = request.object_id
        return SimpleNamespace(
            object_found=name in self.known,
            object_available=name in self.parts,
            object_content=self.parts.get(name, b""),
        )

    def ConfirmMessageReceived(self, request: Any) -> None:
        pass

    def PushMessages(self, request: Any) -> Any:
        tree, wanted = request.message_object_trees[0], []
        stack = [tree]
        while stack:
            at = stack.pop()
            wanted.append(at.object_id)
            stack += at.children
        self.announced.update(wanted)
        self.replies.append((request.messages_list[0], tree))
        return SimpleNamespace(objects_to_push=wanted, session_id="s")

    def PushObject(self, request: Any) -> Any:
        self.known.add(request.object_id)
        self.parts[request.object_id] = request.object_content
        return SimpleNamespace(stored=True)

    def SendNodeHeartbeat(self, request: Any) -> Any:
        return SimpleNamespace(success=True)

    def answers(self, count: int) -> list[bytes | None]:
        end = time.monotonic() + WAIT
        # a reply is there when its parts are: every part that was announced was pushed
        while (len(self.replies) < count or self.announced - set(self.parts)) and time.monotonic() < end:
            time.sleep(0.02)
        return [bytes_in(Incoming(*reply).fetch(self, Node(node_id=1))) for reply in self.replies]


class Said(logging.Handler):
    """Keeps what is logged, as text."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[SuperLink]:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(supernode, "POLL", 0.02)
    made = SuperLink()
    why: list[str] = []

    # a logger outside the tree of loggers: levels that libraries and other tests set there do not reach it
    log = logging.Logger("party", logging.DEBUG)
    log.addHandler(Said(made.said))

    def attend() -> None:
        why.append(supernode._attend(made, Node(node_id=7), lambda data: b"answer to " + data, log))

    worker = threading.Thread(target=attend, daemon=True)
    worker.start()
    yield made
    assert worker.is_alive()
    made.gone = True
    worker.join(WAIT)
    assert why == ["ConnectError"]


def test_a_message_is_answered(link: SuperLink) -> None:
    link.post(b"one")
    assert link.answers(1) == [b"answer to one"]


def test_a_message_whose_parts_never_come_does_not_delay_the_next(link: SuperLink) -> None:
    link.post(b"one", lambda content: None)
    time.sleep(0.1)
    link.post(b"two")
    assert link.answers(1) == [b"answer to two"]


def test_a_message_whose_parts_never_come_is_dropped(link: SuperLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supernode, "ARRIVAL", 0.1)
    link.post(b"one", lambda content: None)
    end = time.monotonic() + WAIT
    while not link.said and time.monotonic() < end:
        time.sleep(0.02)
    assert link.said == ["a message did not arrive completely within 0.1 seconds"]
    assert link.replies == []


def test_a_message_is_answered_when_its_last_part_is_there(link: SuperLink) -> None:
    held: list[bytes] = []
    link.post(b"one", held.append)
    time.sleep(0.1)
    assert link.replies == []
    for content in held:
        # parts are named by their content
        name = hashlib.sha256(content).hexdigest()
        assert name in link.known
        link.parts[name] = content
    assert link.answers(1) == [b"answer to one"]


def test_a_message_that_cannot_be_read_is_refused_and_the_next_one_answered(link: SuperLink) -> None:
    link.post(b"one", lambda content: b"nonsense")
    link.post(b"two")
    # the desk gets nothing, which it refuses
    assert link.answers(2) == [b"answer to ", b"answer to two"]
