"""A party's end of Flower: a SuperNode that hands messages to the party's own desk and runs no foreign code.

It uses Flower's Fleet interface directly (connection, node key, heartbeats, messages). Flower's own loop retries for
ever when a SuperLink is gone, and ends the whole process when it sees another certificate; here a party that loses its
coordinator, or finds another server in its place, retries with growing pauses until its stated patience is used up.
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
from flwr.app import Message
from flwr.common.constant import HEARTBEAT_CALL_TIMEOUT, HEARTBEAT_DEFAULT_INTERVAL
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from privot.common.files import write_whole
from privot.errors import DataError, NoAnswerError, UsageError
from privot.federation.flower.flower_messages import Incoming, Outgoing, bytes_in, record_of
from privot.federation.flower.watching import CALL, MAX_PAUSE, limit, pauses

POLL = 0.5
ARRIVAL = 60.0
"""Seconds after which an incomplete message is dropped."""
LAST_CALL = 5.0
WRONG_CERTIFICATE = "shows a certificate that the coordinator's authority did not sign: nothing was sent"


def serve(
    handle: Callable[[bytes], bytes],
    address: str,
    authority: bytes,
    folder: Path,
    log: logging.Logger,
    patience: float = 3600.0,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Answer requests from the SuperLink at `address` until the process is ended.

    `authority` is the coordinator's certificate authority in PEM: no other certificate is accepted. While the SuperLink
    is gone, shows another certificate or does not accept this node, connecting is repeated with pauses that grow to
    15 s; the log and `tell` get the reason. Raises `NoAnswerError` after `patience` seconds without a connection.
    """
    if not patience > 0.0:
        raise UsageError(f"The patience must be a number of seconds greater than 0, got {patience:g}.")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError):
        raise DataError(
            "The certificate authority is not a certificate in PEM: give the coordinator's ca.pem."
        ) from None
    key = _node_key(folder / "node.key")

    def report(line: str) -> None:
        log.warning("%s", line)
        tell(line)

    while True:
        client, node = _connect(address, authority, key, folder, report, patience)
        log.info("connected to %s", address)
        tell(f"connected to {address}")
        with client:
            try:
                why = _attend(client, node, handle, log)
            finally:
                # sign off, so that the next start of this node is not refused for a minute
                client._client.timeout = HEARTBEAT_CALL_TIMEOUT
                _leave(client, node.node_id)
        report(f"the connection to {address} ended ({why}): trying again")


def _attend(client: Any, node: Node, handle: Callable[[bytes], bytes], log: logging.Logger) -> str:
    """Answer messages until the connection fails; returns the reason. No message can end this."""
    stop, lost = threading.Event(), threading.Event()
    beat = threading.Thread(target=_beat, args=(client, node, stop, lost), daemon=True)
    beat.start()
    arriving: list[tuple[Incoming, float]] = []
    try:
        while not lost.is_set():
            limit(client, time.monotonic() + CALL)
            got = client.PullMessages(PullMessagesRequest(node=node))
            for head, tree in zip(got.messages_list, got.message_object_trees, strict=True):
                arriving.append((Incoming(head, tree), time.monotonic() + ARRIVAL))
            for entry in list(arriving):
                if _answered(client, node, entry[0], handle, log):
                    arriving.remove(entry)
                elif time.monotonic() > entry[1]:
                    log.warning("a message did not arrive completely within %g seconds", ARRIVAL)
                    arriving.remove(entry)
            if not got.messages_list:
                time.sleep(POLL)
        return "the SuperLink no longer knows this node"
    except httpx.HTTPStatusError as error:
        return f"the SuperLink refused a call, {error.response.status_code}"
    except httpx.HTTPError as error:
        return type(error).__name__
    finally:
        stop.set()


def _answered(
    client: Any, node: Node, incoming: Incoming, handle: Callable[[bytes], bytes], log: logging.Logger
) -> bool:
    """Whether the message is finished: answered, or dropped because it can never be read."""
    try:
        try:
            message = incoming.fetch(client, node)
        except DataError as error:
            # the coordinator that waits for an answer gets a refusal
            log.error("%s", error)
            message = incoming.bare()
        if message is None:
            return False
        # missing or oversized content is passed on as empty bytes, which the desk refuses and logs
        out = Outgoing(Message(record_of(handle(bytes_in(message) or b"")), reply_to=message))
        sent = client.PushMessages(
            PushMessagesRequest(node=node, messages_list=[out.head], message_object_trees=[out.tree])
        )
        out.push_parts(client, node, sent)
    except DataError as error:
        log.error("%s", error)
    except httpx.HTTPStatusError as error:
        # the run is over, or the coordinator is gone: it will send the request again
        log.warning("a message could not be answered: the SuperLink returned %d", error.response.status_code)
    except httpx.HTTPError:
        raise
    except Exception as error:  # a hostile message can raise nearly anything
        log.error("a message cannot be answered: %s", type(error).__name__)
    return True


def _beat(client: Any, node: Node, stop: threading.Event, lost: threading.Event) -> None:
    """Send heartbeats; a lost one is made up by the next."""
    request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
    while not stop.wait(HEARTBEAT_DEFAULT_INTERVAL / 3.0):
        try:
            if client.SendNodeHeartbeat(request).success:
                continue
        except httpx.TransportError:
            continue
        except (httpx.HTTPStatusError, RuntimeError):
            pass
        lost.set()
        return


def _connect(
    address: str,
    authority: bytes,
    key: ec.EllipticCurvePrivateKey,
    folder: Path,
    report: Callable[[str], None],
    patience: float,
) -> tuple[Any, Node]:
    """(client, node) once the SuperLink accepts this node; reports why it does not, whenever the reason changes.

    A node that was killed still counts as online at the SuperLink, which then refuses its restart for a minute: so this
    node's last number is kept on disk, and signed off first.
    """
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    kept = folder / "node.id"
    reported, end = "", time.monotonic() + patience
    for pause in pauses():
        guards: Any = [RuntimeVersionHttpInterceptor(component_name="SuperNode")]
        guards += [NodeAuthHttpInterceptor(key, key.public_key())]
        client = FleetHttpClient.from_server_address(address, False, authority, interceptors=guards)
        try:
            # the last attempt also gets enough time to find the reason
            limit(client, max(end, time.monotonic() + LAST_CALL))
            with contextlib.suppress(OSError, ValueError):
                _leave(client, int(kept.read_text()))
            request = ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
            node = client.ActivateNode(request).node_id
            write_whole(kept, str(node).encode())
            return client, Node(node_id=node)
        except httpx.HTTPStatusError as error:
            why = f"the SuperLink at {address} does not accept this node: {' '.join(error.response.text.split())[:200]}"
        except httpx.ConnectError as error:
            why = f"{address} {WRONG_CERTIFICATE}" if _is_certificate(error) else f"there is no answer at {address}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = f"{address} cannot be reached ({type(error).__name__})"
        client.close()
        if why != reported:
            until = "" if patience == float("inf") else f", for {patience:g} seconds"
            report(f"{why}; trying again with pauses of up to {MAX_PAUSE:g} seconds{until}")
            reported = why
        left = end - time.monotonic()
        if left <= 0.0:
            break
        time.sleep(min(pause, left))
    raise NoAnswerError(f"Given up after {patience:g} seconds: {why}.")


def _leave(client: FleetHttpClient, node: int) -> None:
    # an error means that the node was not online, or that the SuperLink is gone
    with contextlib.suppress(httpx.HTTPError, RuntimeError):
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
        raise DataError(f"There is no node key {path}: enrol the party to make one.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise DataError(f"{path} is not a key in OpenSSH's format.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DataError(f"{path} is not an elliptic-curve key in OpenSSH's format.")
    return key
