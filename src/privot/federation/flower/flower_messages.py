"""Signed bytes as a Flower message with one record and one field, and how its parts are sent and fetched.

Both ends use this: Flower's Fleet client (a party) and Runtime client (a coordinator) have the same calls for parts.
The bytes themselves are not looked at.
"""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from privot.errors import DataError
from privot.federation.wire.messages import MAX_BYTES

RECORD, FIELD, TYPE = "privot", "data", "query"
ENVELOPE = 1 << 20
"""Largest size in bytes of Flower's own parts of a message, beside the signed bytes."""


def record_of(data: bytes) -> RecordDict:
    """The content of a message that carries `data`."""
    return RecordDict({RECORD: ConfigRecord({FIELD: data})})


def bytes_in(message: Any) -> bytes | None:
    """The bytes that a message carries; None if there are none or too many."""
    try:
        data = message.content[RECORD][FIELD]
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    return data if isinstance(data, bytes) and len(data) <= MAX_BYTES else None


class Outgoing:
    """A message to send: its head and the tree of its parts, then the parts that the other side lacks."""

    def __init__(self, message: Message) -> None:
        with no_object_id_recompute():
            message.metadata.__dict__["_message_id"] = message.object_id
            self.run_id = message.metadata.run_id
            self.tree = get_object_tree(message)
            self._parts = get_all_nested_objects(message)
            self.head = message_to_proto(remove_content_from_message(message))

    def push_parts(self, client: Any, node: Any, answer: Any) -> None:
        """Send the parts that `answer`, the reply to the head, requests."""
        for mark, part in self._parts.items():
            if mark in set(answer.objects_to_push):
                request = PushObjectRequest(
                    node=node,
                    run_id=self.run_id,
                    object_id=mark,
                    object_content=part.deflate(),
                    session_id=answer.session_id,
                )
                if not client.PushObject(request).stored:
                    raise DataError("The SuperLink did not accept a part of a message.")


class Incoming:
    """A message whose parts arrive one by one; complete when all have arrived."""

    def __init__(self, head: Any, tree: Any) -> None:
        self.mark, self.run_id = str(head.metadata.message_id), int(head.metadata.run_id)
        self.reply_to = str(head.metadata.reply_to_message_id)
        self._head = head
        self._missing = [part.object_id for part in iterate_object_tree(tree)]
        self._parts: dict[str, bytes] = {}

    def bare(self) -> Message:
        """The message without its content, to reply to if the content cannot be fetched."""
        return message_from_proto(self._head)

    def fetch(self, client: Any, node: Any) -> Message | None:
        """The message, or None while parts are missing; raises `DataError` if it can never be read."""
        for part in list(self._missing):
            found = client.PullObject(PullObjectRequest(node=node, run_id=self.run_id, object_id=part))
            if not found.object_found:
                raise DataError("A part of a message is no longer on the SuperLink.")
            if not found.object_available:
                return None
            self._missing.remove(part)
            self._parts[part] = bytes(found.object_content)
            if sum(map(len, self._parts.values())) > MAX_BYTES + ENVELOPE:
                raise DataError("A message is larger than is accepted.")
        try:
            message: Any = inflate_object_from_contents(self.mark, self._parts)
            message.metadata.__dict__["_message_id"] = self.mark
        except Exception as error:  # a hostile message can raise nearly anything
            raise DataError(f"A message cannot be read ({type(error).__name__}).") from None
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=node, run_id=self.run_id, message_object_id=self.mark)
        )
        return message  # type: ignore[no-any-return]
