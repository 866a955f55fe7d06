"""A party's end of Flower: Flower's SuperNode, with the party's own desk in place of code from the coordinator.

The SuperNode's loop is Flower's (connection, node key, heartbeats, messages); what would be handed to a ClientApp
process over a local port is taken here from its state by a thread, in this process. A run's bundle is never unpacked.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, ISOLATION_MODE_PROCESS
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.object_store import NoObjectInStoreError, ObjectStoreFactory
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.start_client_internal import _insert_message, start_client_internal

from privot.errors import DataError, PolicyError
from privot.federation.flower.wire import FIELD, RECORD
from privot.federation.messages import MOST_BYTES
from privot.files import write_whole

POLL = 0.05
PAUSE = 1.0


def serve(
    handle: Callable[[bytes], bytes],
    address: str,
    authority: bytes,
    folder: Path,
    log: logging.Logger,
    patience: float = 3600.0,
) -> None:
    """Answer requests that come from the SuperLink at `address`, until the process is told to end.

    `authority` is the coordinator's certificate authority in PEM: no other certificate is accepted. Raises
    `DataError` for another certificate at once, and `PolicyError` when the SuperLink has not taken this node for
    `patience` seconds.
    """
    key = _node_key(folder / "node.key")
    while True:
        _knock(address, authority, key, folder, log, patience)
        states = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
        stop = threading.Event()
        worker = threading.Thread(target=_work, args=(handle, states, stop, log), daemon=True)
        worker.start()
        log.info("connected to %s", address)
        # returns when the connection fails for another reason than a machine that cannot be reached
        start_client_internal(
            state_factory=states,
            server_address=address,
            node_config={},
            root_certificates=authority,
            insecure=False,
            authentication_keys=(key, key.public_key()),
            isolation=ISOLATION_MODE_PROCESS,
        )
        stop.set()
        worker.join()
        log.warning("the connection to %s ended: trying again", address)
        time.sleep(PAUSE)


def _work(handle: Callable[[bytes], bytes], states: NodeStateFactory, stop: threading.Event, log: Any) -> None:
    """Take messages off the SuperNode's state, and put answers there; no message ends this, and none is waited for."""
    state, store = states.state(), states.objectstore_factory.store()
    waiting: list[Any] = []
    while not stop.is_set():
        waiting += state.get_messages_legacy(is_reply=False)
        for pending in list(waiting):
            mark = pending.metadata.message_id
            try:
                message = _received(mark, store)
                # Flower fetches one message after another: what is not whole when the next is there never will be
                if message is None and pending is waiting[-1]:
                    continue
            except Exception as error:
                # whoever waits for an answer gets a refusal: without one Flower would wait for ever
                log.error("a message cannot be read: %s", type(error).__name__)
                message = pending
            waiting.remove(pending)
            if message is None:
                log.warning("a message did not arrive whole")
                continue
            state.record_message_processing_start(mark)
            answer = RecordDict({RECORD: ConfigRecord({FIELD: handle(_bytes_in(message))})})
            state.record_message_processing_end(mark)
            _insert_message(Message(answer, reply_to=message), state, store)
        stop.wait(POLL)


def _received(mark: str, store: Any) -> Any:
    """The message, if all its parts are there, which arrive one by one; None if not, or not any more."""
    contents: dict[str, bytes] = {}
    try:
        parts = [part.object_id for part in iterate_object_tree(store.get_object_tree(mark))]
    except NoObjectInStoreError:
        return None
    for part in parts:
        content = store.get(part)
        if not content:
            return None
        contents[part] = content
    message: Any = inflate_object_from_contents(mark, contents)
    message.metadata.__dict__["_message_id"] = mark
    return message


def _bytes_in(message: Any) -> bytes:
    """The request's bytes; nothing where they are missing or too many, which the desk refuses and writes down."""
    try:
        data = message.content[RECORD][FIELD]
    except (KeyError, TypeError, AttributeError):
        return b""
    return data if isinstance(data, bytes) and len(data) <= MOST_BYTES else b""


def _knock(
    address: str, authority: bytes, key: ec.EllipticCurvePrivateKey, folder: Path, log: Any, patience: float
) -> None:
    """Wait until the SuperLink is there and takes this node; say in the log why it does not, whenever that changes.

    A node that was killed is still online to the SuperLink, which then refuses its second self for a minute: so this
    node's last number is on disk, and it takes leave in the name of its former self first.
    """
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    kept = folder / "node.id"
    said, end = "", time.monotonic() + patience
    while True:
        version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
        why = ""
        try:
            with FleetHttpClient.from_server_address(
                address, False, authority, interceptors=[version, NodeAuthHttpInterceptor(key, key.public_key())]
            ) as client:
                if kept.exists():
                    _leave(client, int(kept.read_text()))
                request = ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
                node = client.ActivateNode(request).node_id
                write_whole(kept, str(node).encode())
                _leave(client, node)
                return
        except httpx.HTTPStatusError as error:
            why = f"the SuperLink at {address} does not take this node: {' '.join(error.response.text.split())[:200]}"
        except httpx.ConnectError as error:
            if _is_certificate(error):
                raise DataError(
                    f"{address} shows a certificate that the coordinator's authority did not sign: nothing was sent."
                ) from None
            why = f"nobody answers at {address}"
        except httpx.HTTPError as error:
            why = f"{address} cannot be reached ({type(error).__name__})"
        if why != said:
            log.warning("%s", why)
            said = why
        if time.monotonic() > end:
            raise PolicyError(f"Given up after {patience:g} seconds: {why}.")
        time.sleep(PAUSE)


def _leave(client: FleetHttpClient, node: int) -> None:
    # an error says that it was not there
    with contextlib.suppress(httpx.HTTPStatusError, RuntimeError):
        client.DeactivateNode(DeactivateNodeRequest(node_id=node))


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        raise DataError(f"There is no node key {path}: `privot federate enrol` makes one.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise DataError(f"{path} is not a key in OpenSSH's format.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DataError(f"{path} is not an elliptic-curve key in OpenSSH's format.")
    return key
