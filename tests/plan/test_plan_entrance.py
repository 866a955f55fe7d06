"""A browser is led to the planner's page by a file for its owner alone: no command line holds a key to the page."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import warm
from headless import Tab, browser, opened
from privot.plan import server as server_module
from privot.plan.entrance import entrance
from privot.plan.server import PlanServer

LINK = re.compile(r'href="([^"]+)"')
WINDOW = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
"""What a browser says of a window that a file of this machine leads elsewhere."""


@pytest.fixture
def server() -> Iterator[PlanServer]:
    with PlanServer() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def get(address: str, **more: str | None) -> tuple[int, str]:
    """Status and body of a request by a window that was led to the address."""
    place = urlsplit(address)
    sent = {k: v for k, v in (WINDOW | {k.replace("_", "-"): v for k, v in more.items()}).items() if v is not None}
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    try:
        line.request("GET", place.path, headers=sent)
        reply = line.getresponse()
        return reply.status, reply.read().decode()
    finally:
        line.close()


def link(page: str) -> str:
    found = LINK.search(page)
    assert found
    return unescape(found[1])


def test_the_file_is_for_its_owner_alone_and_leads_to_the_page_once(server: PlanServer, home: Path) -> None:
    old = os.umask(0)  # modes are not left to the user's settings
    try:
        with entrance(server.issue_ticket) as path:
            assert path.parent.parent == home
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            page = path.read_text()
            address = link(page)
            assert server.token not in page
            assert server.token not in str(path)
            assert urlsplit(address).path.strip("/") not in str(path)
            status, body = get(address)
            assert (status, link(body)) == (200, f"/{server.token}/")
            assert f'content="0; url=/{server.token}/"' in body
            assert not path.parent.exists()
            status, body = get(address)
            assert status == 403
            assert server.token not in body
    finally:
        os.umask(old)
    assert list(home.iterdir()) == []


def test_an_unused_file_goes_with_the_page(server: PlanServer, home: Path) -> None:
    def stopped() -> None:
        with entrance(server.issue_ticket) as path:
            assert path.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(home.iterdir()) == []


def test_a_home_that_cannot_be_written_to_is_no_hindrance(
    server: PlanServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    with entrance(server.issue_ticket) as path:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert get(link(path.read_text()))[0] == 200


def test_a_ticket_dies_with_time_and_with_the_next_one(server: PlanServer, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = server.issue_ticket(), server.issue_ticket()
    assert get(first)[0] == 403
    monkeypatch.setattr(server_module, "TICKET_LIFE", -1.0)
    late = server.issue_ticket()
    assert get(second)[0] == 403
    assert get(late)[0] == 403
    monkeypatch.undo()
    assert get(server.issue_ticket())[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.org"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": "https://example.org"},
        {"Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"},
        {"Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"},
    ],
    ids=str,
)
def test_what_is_no_window_of_a_browser_is_refused_and_uses_nothing(server: PlanServer, headers: Any) -> None:
    address = server.issue_ticket()
    status, body = get(address, **headers)
    assert status == 403
    assert server.token not in body
    assert get(address + "answer")[0] == 403
    assert get(address)[0] == 200


def test_a_ticket_opens_nothing_else_and_the_token_is_no_ticket(server: PlanServer) -> None:
    # a page elsewhere that knows the address still may not lead a window to it
    assert get(server.url)[0] == 403
    address = server.issue_ticket()
    line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    line.request("POST", urlsplit(address).path, b"{}", {"Content-Type": "application/json"})
    assert line.getresponse().status == 403
    line.close()
    assert get(address)[0] == 200


def test_of_many_at_once_one_is_led_to_the_page(server: PlanServer) -> None:
    used: list[int] = []
    for round_ in range(5):
        address = server.issue_ticket(lambda: used.append(1))
        with ThreadPoolExecutor(16) as many:
            found = [status for status, _ in many.map(get, [address] * 16)]
        assert sorted(found) == [200] + [403] * 15
        assert len(used) == round_ + 1


@pytest.mark.slow
def test_the_command_hands_a_browser_no_key(tmp_path: Path) -> None:
    """A program that stands for the browser notes its own command line, and follows the file as a browser does."""
    seen = tmp_path / "seen.json"
    program = tmp_path / "browser"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, re, sys, urllib.request\n"
        "from html import unescape\n"
        "place = sys.argv[1].removeprefix('file://')\n"
        "page = open(place).read()\n"
        "def get(address):\n"
        "    return urllib.request.urlopen(address, timeout=60).read().decode()\n"
        'ticket = unescape(re.search(\'href="([^"]+)"\', page)[1])\n'
        'own = unescape(re.search(\'href="([^"]+)"\', get(ticket))[1])\n'
        "shown = get(ticket.rsplit('/', 2)[0] + own)\n"
        "words = open('/proc/self/cmdline').read().split('\\0') if sys.platform == 'linux' else sys.argv\n"
        f"open({str(seen)!r}, 'w').write(json.dumps([words, place, ticket, shown]))\n"
    )
    program.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{program} %s", "PYTHONUNBUFFERED": "1"}
    words = [sys.executable, "-m", "privot", "plan", "--json", "--open"]
    pipe: Any = {"stdout": subprocess.PIPE, "text": True, "preexec_fn": warm.hear_interrupts}
    with subprocess.Popen(words, **pipe, env=environment) as process:
        try:
            assert process.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                text += process.stdout.readline()
            token = urlsplit(json.loads(text)["url"]).path.strip("/")
            end = time.monotonic() + 60
            while not seen.exists() or not seen.read_text():
                assert time.monotonic() < end, "the browser was not led to the page"
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
    handed, place, ticket, shown = json.loads(seen.read_text())
    assert any(place in word for word in handed)
    assert not any(token in word or urlsplit(ticket).path.strip("/") in word for word in handed)
    assert "<title>privot plan</title>" in shown
    assert "What is released" in shown
    assert not Path(place).exists()


@pytest.mark.slow
@pytest.mark.skipif(browser() is None, reason="no Chromium is installed: apt-get install chromium")
def test_chromium_is_led_to_the_page_and_its_processes_name_no_key(server: PlanServer) -> None:
    with opened() as tab, entrance(server.issue_ticket) as path:
        secrets = [server.token, urlsplit(link(path.read_text())).path.strip("/")]
        tab.open(path, 768, "light")
        assert where(tab, server) == server.url
        assert not path.exists()
        assert tab.value("document.querySelectorAll('select#kind option').length") > 3
        assert tab.errors == []
        lines = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # a process that ended meanwhile
                lines.append(file.read_bytes())
        assert any(b"remote-debugging-port" in line for line in lines)
        assert not any(secret.encode() in line for line in lines for secret in secrets)


def where(tab: Tab, server: PlanServer) -> str:
    """Where the window ends up."""
    end = time.monotonic() + 60
    while tab.value("location.href + document.readyState") != f"{server.url}complete":
        assert time.monotonic() < end, tab.value("location.href")
        time.sleep(0.05)
    return str(tab.value("location.href"))
