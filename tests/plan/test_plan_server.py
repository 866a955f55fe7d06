"""Who the planner's server answers: its own page with the token in its address, and nobody else."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warm
from privot.accounting import Gaussian
from privot.cli import run
from privot.guarantee import Adjacency
from privot.ledger import Ledger
from privot.plan.plan_answers import answer
from privot.plan.server import MAX_REQUEST, PlanServer

ASKED = {"kind": "count", "adjacency": "add-remove", "epsilon": 1, "delta": 1e-6, "records": 1000, "person": 1}


@pytest.fixture(scope="module")
def server() -> Iterator[PlanServer]:
    with PlanServer() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def ask(
    server: PlanServer, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    """Status, body and headers of one request; a header called None is left out."""
    sent = {"Host": f"127.0.0.1:{server.server_port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value:
                line.putheader(name, value)
        if body:
            line.putheader("Content-Length", str(len(body)))
        line.endheaders(body or None)
        reply = line.getresponse()
        return reply.status, reply.read(), reply.headers
    finally:
        line.close()


def post(server: PlanServer, body: Any = ASKED, **headers: str) -> tuple[int, bytes, http.client.HTTPMessage]:
    sent = {"Content_Type": "application/json"} | headers
    return ask(server, "POST", f"/{server.token}/answer", json.dumps(body).encode(), **sent)


def test_the_page_and_its_files_come_with_a_strict_policy(server: PlanServer) -> None:
    for name, begins in (("", b"<!doctype html>"), ("page.js", b"//"), ("page.css", b":root")):
        status, body, headers = ask(server, "GET", f"/{server.token}/{name}")
        assert status == 200
        assert body.startswith(begins)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
        assert b"http://" not in body
        assert b"https://" not in body


def test_an_answer_is_that_of_the_library(server: PlanServer) -> None:
    own = f"http://127.0.0.1:{server.server_port}"
    status, body, _ = post(server, Origin=own, Sec_Fetch_Site="same-origin")
    assert status == 200
    assert json.loads(body) == json.loads(json.dumps(answer(ASKED)))


@pytest.mark.parametrize(
    "path",
    ["/", "/wrong/", "/wrong/answer", "/favicon.ico", "//", "/{short}/", "/{longer}/", "/?token={token}", "/%00/"],
)
def test_without_the_token_everything_is_refused(server: PlanServer, path: str) -> None:
    token = server.token
    wanted = path.format(token=token, short=token[:-1], longer=token + "A")
    assert ask(server, "GET", wanted)[0] == 403
    status, body, _ = ask(server, "POST", wanted, json.dumps(ASKED).encode(), Content_Type="application/json")
    assert status == 403
    assert b"sigma" not in body
    assert token.encode() not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}.example.org"},
        {"Host": "example.org"},
        {"Host": "example.org:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_another_origin_or_host_is_refused(server: PlanServer, headers: dict[str, str]) -> None:
    sent = {name: value.format(port=server.server_port) for name, value in headers.items()}
    assert post(server, **sent)[0] == 403
    assert ask(server, "GET", f"/{server.token}/", **sent)[0] == 403
    # the same request without that header is answered: it is what was refused
    assert post(server)[0] == 200


def test_a_token_of_other_letters_is_refused(server: PlanServer) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(f"GET /é/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert line.recv(100).split()[1] == b"403"


def test_two_hosts_are_refused(server: PlanServer) -> None:
    host = f"127.0.0.1:{server.server_port}"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: {host}\r\nHost: example.org\r\n\r\n".encode())
        assert line.recv(100).split()[1] == b"403"


def test_localhost_is_this_machine(server: PlanServer) -> None:
    name = f"localhost:{server.server_port}"
    assert post(server, Host=name, Origin=f"http://{name}")[0] == 200


def test_what_is_no_request_of_the_page_is_refused(server: PlanServer) -> None:
    address = f"/{server.token}/answer"
    kind = {"Content_Type": "application/json"}
    assert ask(server, "POST", address, b"{", **kind)[0] == 400
    assert ask(server, "POST", address, b"[" * 5000, **kind)[0] == 400
    assert ask(server, "POST", address, b" " * (MAX_REQUEST + 1), **kind)[0] == 400
    assert ask(server, "POST", address, **kind)[0] == 400  # no length
    assert ask(server, "POST", address, json.dumps(ASKED).encode(), Content_Type="text/plain")[0] == 404
    assert ask(server, "GET", address)[0] == 404
    assert ask(server, "GET", f"/{server.token}/../pyproject.toml")[0] == 404
    assert ask(server, "PUT", f"/{server.token}/")[0] == 501
    assert "refused" in json.loads(post(server, {"kind": "count"})[1])


def test_only_this_machine_can_connect(server: PlanServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 40
    with PlanServer() as other:
        assert other.token != server.token


def test_an_internal_error_is_one_sentence_without_its_words(server: PlanServer, monkeypatch: Any) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr("privot.plan.server.answer", fail)
    status, body, _ = post(server)
    assert status == 200
    assert json.loads(body) == {"refused": "internal error (ZeroDivisionError): please report these settings."}


def test_what_the_ledger_has_left_and_whether_it_would_admit_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as ledger:
        name = ledger.fingerprint({"x": np.zeros((2, 2))})
        ledger.set_budget(name, epsilon=1.5, delta=1e-6, adjacency="add-remove", label="patients <b>")
    rows = path.stat().st_size
    found = answer(ASKED, path)
    assert [(s["label"], s["spent"], s["refused"]) for s in found["ledger"]["datasets"]] == [
        ("patients <b>", 0.0, None)
    ]
    assert "would admit" in found["ledger"]["datasets"][0]["verdict"]
    assert f"--ledger {path}" in found["command"]
    assert path.stat().st_size == rows
    with Ledger.open(path) as ledger:
        ledger.charge(name, Gaussian(5.0, 1.0, Adjacency.ADD_REMOVE), "a count")
        spent = ledger.spent(name)
        assert spent is not None
        after = answer(ASKED, path)["ledger"]["datasets"][0]
        assert after["spent"] == spent.epsilon()
        assert after["refused"] is None
        more = answer(ASKED | {"epsilon": 1.4}, path)["ledger"]["datasets"][0]
        assert "above its budget" in more["refused"]
        assert len(ledger.entries()) == 1
    other = answer(ASKED | {"adjacency": "replace-one"}, path)["ledger"]["datasets"][0]
    assert "replace-one" in other["refused"]
    shutil.copy(path, tmp_path / "copy.ledger")
    assert "key" in answer(ASKED, tmp_path / "copy.ledger")["ledger"]["problem"]


def test_a_wrong_ledger_or_port_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--no-open", "--ledger", str(tmp_path / "none.ledger")]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    with PlanServer() as taken:
        assert run(["plan", "--no-open", "--port", str(taken.server_port)]) == 2
    assert "--port" in capsys.readouterr().err


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_cleanly(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "privot", "plan", "--json", "--no-open"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=warm.hear_interrupts,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        said = json.loads(text)
        line = http.client.HTTPConnection("127.0.0.1", said["port"], timeout=60)
        line.request("GET", said["url"].split(str(said["port"]))[1])
        assert line.getresponse().status == 200
        line.close()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", said["port"]), timeout=5)
