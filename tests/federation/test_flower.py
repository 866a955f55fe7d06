"""Three SuperNodes and a SuperLink as processes on loopback, with TLS and node keys: results as in one process."""

from __future__ import annotations

import io
import re
import shutil
import signal
import socket
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from federation_folders import DESIGN, ORDER, D, coordinator, job, party, records

import warm
from privot import Ledger
from privot.federation import Sketch, compare_sketches, triangle
from privot.federation.coordination.answers import Answer
from privot.federation.coordination.coordinator import Coordinator
from privot.federation.coordination.requests import Request
from privot.federation.flower import quiet
from privot.federation.parties.enrolment import make_coordinator, make_party
from privot.federation.protocols.answering import drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import decode_any, encode
from privot.federation.wire.signing import read_key
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign

pytestmark = [pytest.mark.federation, pytest.mark.slow]
LOADED = ("httpx", "ot", "pydantic", "requests", "privot.cli.app", "privot.federation", "privot.vault")
"""Not Flower: a node loads it after it has turned off its telemetry."""
OPEN = [records(k)[:30] for k in range(3)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Nodes:
    """Processes of parties; whatever still runs at the end is ended."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port, self.running = folder, port, {}

    def start(self, name: str, authority: Path | None = None, patience: float = 300.0) -> None:
        command = ["-m", "privot", "federate", "join", str(self.folder / name)]
        command += ["--link", f"127.0.0.1:{self.port}", "--patience", str(patience)]
        command += ["--authority", str(authority or self.folder / "hub" / "ca.pem")]
        # what a node imports takes three seconds of a core: six nodes share them
        self.running[name] = warm.Process(command, preloaded=LOADED)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def log(self, name: str) -> str:
        path = self.folder / name / "party.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, name: str, words: str, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not re.search(words, self.log(name)):
            assert time.monotonic() < end, f"{name}: {self.log(name)}"
            time.sleep(0.2)

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)
        for process in self.running.values():
            process.wait()


def charges(folder: Path) -> int:
    with Ledger.open(folder / "records.ledger") as ledger:
        return len(ledger.entries())


def test_three_nodes_and_a_superlink(tmp_path: Path) -> None:
    asker = coordinator(tmp_path / "hub")
    members = [party(tmp_path / str(k), k, asker) for k in range(3)]
    key = read_key(tmp_path / "hub" / "signing.key")
    nodes = Nodes(tmp_path, free_port())
    # one who was never enrolled with the coordinator, and one who expects another coordinator
    party(tmp_path / "stranger", 7, asker)
    party(tmp_path / "misled", 8, asker)
    make_coordinator(tmp_path / "elsewhere", ["127.0.0.1"])
    try:
        for name in ("0", "1", "2"):
            nodes.start(name)
        nodes.start("stranger", patience=25.0)
        nodes.start("misled", tmp_path / "elsewhere" / "ca.pem", patience=25.0)
        quiet(tmp_path / "hub" / "flower")
        from privot.federation.flower.serverapp import FlowerChannel
        from privot.federation.flower.superlink import SuperLink

        def run(channel: FlowerChannel, protocol: str, folder: str) -> dict:
            at = Coordinator(tmp_path / folder, key, channel)
            try:
                return at.run(job(members, protocol, wait=120.0))
            finally:
                at.close()

        with SuperLink(tmp_path / "hub", "127.0.0.1", nodes.port) as link:
            with FlowerChannel(tmp_path / "hub", link.address, members, link.check) as channel:
                check_sketches(tmp_path, members, run(channel, "sketch", "s"))
                check_triangle(run(channel, "triangle", "t"))
                # a node that is killed when it has been asked comes back, and the job goes on
                nodes.kill("0")
                nodes.start("0")
                check_fedwad(run(channel, "fedwad", "f"))
                check_refusals(nodes, channel, members, key)
            # neither is let in, neither stops at once, and both end when their patience does
            assert nodes.running["misled"].wait(60) == 6
            assert nodes.running["stranger"].wait(60) == 6
            # a coordinator that dies takes its SuperLink along; the next one goes on with the same nodes
            link._process.kill()
        assert "did not sign" in nodes.log("misled")
        assert "does not accept this node" in nodes.log("stranger")
        assert "2004" in (tmp_path / "hub" / "superlink.log").read_text()
        # whatever Flower writes is for its owner's eyes
        for path in (tmp_path / "hub").rglob("*"):
            if path.suffix not in (".pem", ".pub"):
                assert path.stat().st_mode & 0o077 == 0, path
        assert (tmp_path / "hub" / "superlink.db").exists()
        shutil.rmtree(tmp_path / "t" / "got")
        with (
            SuperLink(tmp_path / "hub", "127.0.0.1", nodes.port) as link,
            FlowerChannel(tmp_path / "hub", link.address, members, link.check) as channel,
        ):
            check_triangle(run(channel, "triangle", "t"))
            check_sketches(tmp_path, members, run(channel, "sketch", "s"))
        assert [charges(tmp_path / str(k)) for k in range(3)] == [1, 1, 1]
    finally:
        nodes.stop()


def check_sketches(folder: Path, members: list, result: dict) -> None:
    assert result["complete"], result["missing"]
    stored = [next((folder / str(k) / "sketches").glob("*.sketch")) for k in range(3)]
    sketches = [Sketch.load(path, (m.signer,)) for path, m in zip(stored, members, strict=True)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        alone = compare_sketches(sketches[i], sketches[j], draws=0)
        assert result["w2"][i][j] == pytest.approx(alone.w2.value, abs=1e-9)
        assert result["sliced"][i][j] == pytest.approx(alone.sliced.value, abs=1e-9)
    assert all(g["epsilon"] <= 1.0 and g["standing"] == "proven" for g in result["guarantees"].values())


def check_triangle(result: dict) -> None:
    assert result["complete"], result["missing"]
    gamma = np.random.default_rng(0).standard_normal((30, D))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        alone = triangle(OPEN[i], OPEN[j], defence=gamma).value
        assert result["distances"][i][j] == pytest.approx(alone, abs=1e-9)


def check_fedwad(result: dict) -> None:
    assert result["complete"], result["missing"]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        generator = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(i, j)))
        steps = fedwad_steps(generator.standard_normal((30, D)), 2, generator=generator)
        alone = drive(steps, local_party(OPEN[i]), local_party(OPEN[j])).value
        assert result["distances"][i][j] == pytest.approx(alone, abs=1e-9)


def tampered(data: bytes) -> bytes:
    """The request with another ε inside, in a container that is in order."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.startswith("payload"):
                facts, arrays, _ = decode_any(content, "request", {"centre": 1, "knots": 1})
                facts["order"]["epsilon"] = 0.5
                content = encode("request", facts, arrays)
            new.writestr(name, content)
    return out.getvalue()


def check_refusals(nodes: Nodes, channel, members: list, key) -> None:
    """An altered message, one over the budget and one against the policy, each to another party, at once."""

    def request(k: int, order: Order) -> bytes:
        return Request("sketch", "ef" * 16, 0, members[k].signer, order=order).sealed(key)

    altered = tampered(request(0, ORDER))
    over = Order(SketchDesign.plain(D, 7.0), 1.0, 1e-5, Adjacency.REPLACE_ONE)
    dear = Order(DESIGN, 2.0, 1e-5, Adjacency.REPLACE_ONE)
    sent = {members[0].signer: altered, members[1].signer: request(1, over), members[2].signer: request(2, dear)}
    answers = {who: Answer.opened(data, who) for who, data in channel.exchange(sent, 120.0)}
    reasons = [str(answers[m.signer].refusal) for m in members]
    for k, (reason, why) in enumerate(
        zip(reasons, ("valid signature", "budget", "policy allows a sketch at"), strict=True)
    ):
        assert re.search(why, reason)
        assert re.search(f"refused.*({why})", nodes.log(str(k)))


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    from privot.errors import UsageError

    make_party(tmp_path, "one")
    with pytest.raises(UsageError, match="never overwritten"):
        make_party(tmp_path, "one")
    assert (tmp_path / "node.key").stat().st_mode & 0o077 == 0
