"""A party's worker outlives messages that arrive in part or cannot be read, and answers the next one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate import NodeStateFactory

from privot.federation.flower.supernode import _work
from privot.federation.flower.wire import FIELD, RECORD, TYPE


class Node:
    """The worker around a state that a test fills as Flower would."""

    def __init__(self) -> None:
        self.states = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
        self.state, self.store = self.states.state(), self.states.objectstore_factory.store()
        self.stop = threading.Event()
        log = logging.getLogger("test")
        arguments = (lambda data: b"answer to " + data, self.states, self.stop, log)
        self.worker = threading.Thread(target=_work, args=arguments, daemon=True)
        self.worker.start()

    def receive(self, data: bytes, change: Any = lambda name, content: content) -> Message:
        message = Message(RecordDict({RECORD: ConfigRecord({FIELD: data})}), 7, TYPE)
        message.metadata.__dict__.update(_message_id=message.object_id)
        self.store.preregister(1, get_object_tree(message))
        self.state.store_message(message)
        for name, part in get_all_nested_objects(message).items():
            content = change(name, part.deflate())
            if content is not None:
                self.store.put(name, content)
        return message

    def replies(self, count: int) -> list[Message]:
        end, found = time.monotonic() + 5.0, []
        while len(found) < count and time.monotonic() < end:
            found += self.state.get_messages_legacy(is_reply=True)
            time.sleep(0.02)
        return found


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    made = Node()
    yield made
    made.stop.set()
    made.worker.join(5.0)


def test_a_message_is_answered(node: Node) -> None:
    node.receive(b"one")
    assert len(node.replies(1)) == 1


def test_a_message_whose_parts_never_come_is_given_up_when_flower_gives_it_up(node: Node) -> None:
    half = node.receive(b"one", lambda name, content: None)
    time.sleep(0.2)
    node.state.delete_messages(message_ids=[half.metadata.message_id])
    node.store.delete(half.metadata.message_id)
    node.receive(b"two")
    replies = node.replies(1)
    assert len(replies) == 1
    assert node.worker.is_alive()


def test_a_message_that_flower_forgets_in_the_middle_does_not_hold_up_the_next(node: Node) -> None:
    # Flower leaves it behind as it is when the run ends while it is being fetched
    node.receive(b"one", lambda name, content: None)
    time.sleep(0.2)
    node.receive(b"two")
    (reply,) = node.replies(1)
    assert node.worker.is_alive()
    assert reply.metadata.reply_to_message_id


def test_a_message_is_answered_when_its_last_part_is_there(node: Node) -> None:
    held: dict[str, bytes] = {}
    node.receive(b"one", lambda name, content: held.setdefault(name, content) and None)
    time.sleep(0.2)
    for name, content in held.items():
        node.store.put(name, content)
    assert len(node.replies(1)) == 1


def test_a_message_that_cannot_be_read_is_refused_and_the_next_one_answered(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    import privot.federation.flower.supernode as module

    original, seen = module.inflate_object_from_contents, []

    def fails_once(mark: str, contents: dict[str, bytes]) -> Any:
        seen.append(mark)
        if len(seen) == 1:
            raise ValueError("nonsense")
        return original(mark, contents)

    monkeypatch.setattr(module, "inflate_object_from_contents", fails_once)
    node.receive(b"one")
    node.receive(b"two")
    assert len(node.replies(2)) == 2
    assert node.worker.is_alive()
