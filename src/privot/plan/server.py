"""The page's server: loopback only, a secret in the address, no request of another origin; it keeps and logs nothing.

The address is the key: whoever has it may ask for plans, and see what the ledger holds. So it is drawn anew for every
start, no page may frame or fetch this one, no address leaves by a referrer, and a name that an attacker points at
127.0.0.1 is refused because a browser then sends that name as the host. A browser that is started for the page is not
handed the address but a ticket (`privot.plan.entrance`), which is the one thing that may be followed from elsewhere: it
is good for one request within `TICKET_LIFE`.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from privot.errors import UsageError
from privot.opening import parse_json
from privot.plan.entrance import leading_page
from privot.plan.page import page, script, style
from privot.plan.plan_answers import answer

HOST = "127.0.0.1"
MAX_REQUEST = 10_000
"""Bytes of a request; a page sends about three hundred."""
PATIENCE = 15.0
"""Seconds that a connection may stay silent."""
TICKET_LIFE = 120.0
"""Seconds that a browser has to start and to follow a ticket."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class PlanServer(ThreadingHTTPServer):
    """Serves the page at `url` on this machine until it is shut down.

    Parameters
    ----------
    port
        0 for any free one.
    ledger
        A ledger whose budget is shown beside the plan; it is read anew for every answer and never charged.

    Raises
    ------
    UsageError
        If the port cannot be used.

    Examples
    --------
    >>> with PlanServer() as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, port: int = 0, ledger: Path | None = None) -> None:
        self.token = secrets.token_urlsafe(32)
        self.ledger = ledger
        self.turn = threading.Lock()
        """One answer at a time: each takes a core for up to seconds."""
        self._ticket: _Ticket | None = None
        self._door = threading.Lock()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError):
            raise UsageError(
                f"Port {port} of {HOST} cannot be used: choose another one with --port, or 0 for a free one."
            ) from None

    @property
    def url(self) -> str:
        """The address of the page, which is also its key."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def issue_ticket(self, when_used: Callable[[], None] = lambda: None) -> str:
        """An address that leads to the page once, within `TICKET_LIFE` seconds; an earlier ticket dies.

        Parameters
        ----------
        when_used
            Called as soon as the ticket is used.
        """
        ticket = _Ticket(secrets.token_urlsafe(32), time.monotonic() + TICKET_LIFE, when_used)
        with self._door:
            self._ticket = ticket
        return f"http://{HOST}:{self.server_port}/{ticket.word}/"

    def redeem(self, word: str) -> bool:
        """Whether `word` is the ticket and may still be used; it is dead afterwards."""
        with self._door:
            ticket = self._ticket
            if ticket is None or not _equal(word, ticket.word):
                return False
            # of two that come at once, one finds it gone
            self._ticket = None
        ticket.when_used()
        return time.monotonic() <= ticket.ends

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closed its connection is no error of ours, and a traceback would quote its address."""


class _Ticket(NamedTuple):
    word: str
    ends: float
    when_used: Callable[[], None]


def _equal(sent: str, secret: str) -> bool:
    """Compared as bytes, in a time that does not tell how many of them are right."""
    return hmac.compare_digest(sent.encode("utf-8", "replace"), secret.encode())


class _Handler(BaseHTTPRequestHandler):
    server: PlanServer
    timeout = PATIENCE
    server_version = "privot"
    sys_version = ""
    PAGES: ClassVar[dict[str, tuple[str, Callable[[], str]]]] = {
        "": ("text/html; charset=utf-8", page),
        "page.js": ("text/javascript; charset=utf-8", script),
        "page.css": ("text/css; charset=utf-8", style),
    }

    def do_GET(self) -> None:
        """The page and its two files."""
        if self._redeemed():
            # followed by the page itself, so the next request comes from this origin and is judged as any other
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", leading_page(f"/{self.server.token}/").encode())
            return
        name = self._admitted()
        if name is None:
            return
        if name not in self.PAGES:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There is no such page.\n")
            return
        kind, make = self.PAGES[name]
        self._send(HTTPStatus.OK, kind, make().encode())

    def do_POST(self) -> None:
        """One answer."""
        name = self._admitted()
        if name is None:
            return
        if name != "answer" or self.headers.get_content_type() != "application/json":
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There is no such page.\n")
            return
        try:
            size = int(self.headers.get("Content-Length", ""))
            if not 0 <= size <= MAX_REQUEST:
                raise ValueError
            asked = parse_json(self.rfile.read(size))
        except (ValueError, RecursionError):
            self._send(HTTPStatus.BAD_REQUEST, "text/plain; charset=utf-8", b"This is not a request of the page.\n")
            return
        with self.server.turn:
            try:
                found = answer(asked, self.server.ledger)
            except Exception as error:
                # its type alone, as on the command line
                found = {"refused": f"internal error ({type(error).__name__}): please report these settings."}
        self._send(HTTPStatus.OK, "application/json", json.dumps(found, allow_nan=False).encode())

    def _redeemed(self) -> bool:
        """Whether this is a window of the browser that follows a ticket, which the request then uses up."""
        sent = self.headers
        window = all(
            sent.get(name, value) == value
            for name, value in (("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document"))
        )
        word, _, name = self.path.removeprefix("/").partition("/")
        return window and not name and "Origin" not in sent and self._of_this_host() and self.server.redeem(word)

    def _hosts(self) -> set[str]:
        return {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}

    def _of_this_host(self) -> bool:
        return len(self.headers.get_all("Host", [])) == 1 and self.headers["Host"] in self._hosts()

    def _admitted(self) -> str | None:
        """What is asked for, below the token; None where the request was refused."""
        token, _, name = self.path.removeprefix("/").partition("/")
        sent = self.headers
        ok = (
            _equal(token, self.server.token)
            and self._of_this_host()
            and all(origin in {f"http://{host}" for host in self._hosts()} for origin in sent.get_all("Origin", []))
            and all(site in ("same-origin", "none") for site in sent.get_all("Sec-Fetch-Site", []))
        )
        if ok:
            return name
        self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", b"Refused: use the address that was printed.\n")
        return None

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the address is a key."""
