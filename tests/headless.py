"""Drives a headless Chromium over the DevTools protocol: opens pages, listens for errors, measures what is shown."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60.0
"""Seconds that an answer of the browser may take."""


def browser() -> str | None:
    """The browser's program, where one is installed."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


ROOM = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""By how much a page is wider than its window."""
CONTRAST = """
(() => {
  const parse = text => { const m = text.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const linear = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
    if (!words || ['TITLE', 'DESC', 'STYLE', 'title', 'desc'].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const ink = parse(e.tagName === 'text' ? style.fill : style.color), paper = behind(e);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) weak.push([words.slice(0, 40), Math.round(100 * ratio) / 100]);
  }
  return weak.slice(0, 10);
})()
"""
"""Words whose contrast with what lies behind them is below 4.5 to 1."""
HEADINGS = "[...document.querySelectorAll('h1, h2, h3, h4')].map(e => Number(e.tagName[1]))"
"""The levels of all headings, in order."""


class Socket:
    """The few lines of a WebSocket that DevTools needs: text messages, one after another."""

    def __init__(self, address: str) -> None:
        found = re.fullmatch(r"ws://([\d.]+):(\d+)(/.*)", address.strip())
        assert found, address
        host, port, path = found[1], int(found[2]), found[3]
        self._line = socket.create_connection((host, port), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self._line.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._held = b""
        while b"\r\n\r\n" not in self._held:
            self._held += self._line.recv(4096)
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        assert b" 101 " in head.splitlines()[0], head

    def send(self, text: str) -> None:
        """One message, masked as clients must."""
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = bytes([0x81])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        self._line.sendall(head + mask + bytes(byte ^ mask[k % 4] for k, byte in enumerate(data)))

    def receive(self) -> str:
        """The next message, put together from its frames."""
        whole = b""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._take(8))
            whole += self._take(size)
            if first & 0x80:
                return whole.decode()

    def _take(self, count: int) -> bytes:
        while len(self._held) < count:
            more = self._line.recv(1 << 16)
            assert more, "the browser closed the connection"
            self._held += more
        out, self._held = self._held[:count], self._held[count:]
        return out

    def close(self) -> None:
        """Close the line."""
        self._line.close()


class Tab:
    """One page of the browser."""

    def __init__(self, line: Socket) -> None:
        self._line, self._number, self._session = line, 0, ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = 0
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.ask(f"{name}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what else arrives is noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        self._line.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if method == "Runtime.evaluate" and "navigated" in str(answer.get("error", "")):
                    # the page was left while it answered: the next one is asked
                    return self.ask(method, **params)
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, page: Path | str, width: int, scheme: str, height: int = 900) -> None:
        """Show a file or an address at this width, light or dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media="screen", features=features)
        before = self._loaded
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        end = time.monotonic() + PATIENCE
        while self._loaded == before:
            assert time.monotonic() < end, "the page did not load"
            self._next()

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is worth on the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press_tab(self) -> None:
        """One press of the Tab key."""
        key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
        self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **key)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **key)

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG file."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._line.receive())
        method, params = answer.get("method"), answer.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded += 1
        elif method == "Runtime.exceptionThrown" or (
            method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert")
        ):
            self.errors.append(json.dumps(params)[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"][:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"][:100])
        return answer


@contextmanager
def opened() -> Iterator[Tab]:
    """A tab of a browser of its own, which is ended afterwards."""
    program = browser()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-extensions", "--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"]
        started = subprocess.Popen([program, *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            assert started.stderr is not None
            address = ""
            for line in started.stderr:
                if "DevTools listening on" in line:
                    address = line.split("DevTools listening on")[1]
                    break
            assert address, "the browser did not start"
            line = Socket(address)
            try:
                yield Tab(line)
            finally:
                line.close()
        finally:
            started.terminate()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait(20)
            started.stderr.close()
