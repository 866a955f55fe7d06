"""Kills a coordinator and its parties at random moments, on loopback with Flower, and counts what was lost.

    python tests/federation/kill_processes.py FOLDER [--kills 20] [--jobs 5] [--port 9391]
    python tests/federation/kill_processes.py FOLDER --ends 10

Three parties and a coordinator run as processes (`privot federate join`, `coordinate`). While a job for a sketch runs,
one of the four is killed (SIGKILL) after a random pause and started again, until the job is done and its share of the
kills is spent. In the end every ledger must hold one charge a job, every result must be complete and equal to the
comparison of the sketches the parties hold, and no secret may be left.

With --ends N nothing is started again: N times the SuperLink, and N times the coordinator, is killed at a random
moment, half of them while all is starting and half while the coordinator waits for a party that is absent. Every
process must end within its own deadline plus ten seconds and say why: the coordinator at once when its SuperLink dies,
the SuperLink when its coordinator dies, and the parties, which keep trying, when their patience ends.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from privot import Ledger
from privot.federation import Sketch, compare_sketches
from privot.federation.parties.enrolment import make_coordinator, make_party

PARTIES, D = 3, 5
POLICY = """version = 1
name = "party {k}"
[data]
file = "records.npz"
ledger = "records.ledger"
adjacency = "replace-one"
epsilon = 50.0
delta = 1e-5
[[allow]]
protocol = "sketch"
askers = ["{asker}"]
epsilon = 1.0
delta = 1e-5
requests = 1000
days = 1
"""


class Stage:
    """Folders, and the processes that work in them."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        asker = make_coordinator(folder / "hub", ["127.0.0.1"])
        self.members = []
        for k in range(PARTIES):
            home = folder / f"party{k}"
            self.members.append((f"party {k}", make_party(home, f"party {k}")))
            shutil.copy(home / "node.key.pub", folder / f"{k}.pub")
            rows = np.random.default_rng(k).normal(size=(200, D)) + k
            np.savez(home / "records.npz", x=rows)
            (home / "policy.toml").write_text(POLICY.format(k=k, asker=asker))

    def job(self, number: int, wait: float = 240.0) -> Path:
        """A job of its own design, so that each is a charge of its own."""
        text = f'version = 1\nprotocol = "sketch"\nwait = {wait}\n[sketch]\nepsilon = 1.0\ndelta = 1e-5\n'
        text += f'adjacency = "replace-one"\ndim = {D}\nradius = {5.0 + number}\n'
        for k, (name, signer) in enumerate(self.members):
            text += f'[[party]]\nname = "{name}"\nsigner = "{signer}"\nnode = "{k}.pub"\n'
        path = self.folder / f"job{number}.toml"
        path.write_text(text)
        return path

    def start(self, name: str, job: Path | None = None, patience: float = 3600.0) -> None:
        common = [sys.executable, "-m", "privot", "federate"]
        if name == "coordinator":
            command = [*common, "coordinate", str(self.folder / "hub"), str(job), "--port", str(self.port), "--json"]
        else:
            link = ["--link", f"127.0.0.1:{self.port}", "--authority", str(self.folder / "hub" / "ca.pem")]
            command = [*common, "join", str(self.folder / name), *link, "--patience", str(patience)]
        with (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(command, stdout=out, stderr=out, env=dict(os.environ))

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def charges(self) -> list[int]:
        out = []
        for k in range(PARTIES):
            with Ledger.open(self.folder / f"party{k}" / "records.ledger") as ledger:
                out.append(len(ledger.entries()))
        return out


def superlink_of(coordinator: int, seconds: float = 180.0) -> int:
    """The process that the coordinator started, once it listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said = Path(f"/proc/{coordinator}/task/{coordinator}/children")
        for child in said.read_text().split() if said.exists() else ():
            if b"superlink" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        time.sleep(0.1)
    raise RuntimeError("the coordinator started no SuperLink")


def gone(process: int) -> bool:
    """Whether it has ended; one that nobody has waited for yet has."""
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def last_line(path: Path) -> str:
    lines = [line for line in path.read_text().splitlines() if line.strip()] if path.exists() else []
    return lines[-1] if lines else ""


def connected(folder: Path, before: int, seconds: float = 180.0) -> None:
    """Wait until the party's log says so once more."""
    end = time.monotonic() + seconds
    while (folder / "party.log").read_text().count("connected to") <= before:
        if time.monotonic() > end:
            raise RuntimeError("a party did not connect")
        time.sleep(0.1)


def one_end(
    stage: Stage, number: int, victim: str, moment: float, wait: float, patience: float, waiting: bool
) -> dict[str, object]:
    """One trial of --ends; seconds from the kill to the end of each process, exit codes and last words."""
    parties = [f"party{k}" for k in range(PARTIES - 1)]  # the last one is absent, so the coordinator waits
    for name in ("coordinator", *parties):
        (stage.folder / f"{name}.out").unlink(missing_ok=True)
    job = stage.job(number, wait)
    stage.start("coordinator", job)
    link = superlink_of(stage.running["coordinator"].pid)
    logs = [stage.folder / name / "party.log" for name in parties]
    before = [log.read_text().count("connected to") if log.exists() else 0 for log in logs]
    while waiting:
        try:
            socket.create_connection(("127.0.0.1", stage.port), timeout=1.0).close()
            break
        except OSError:
            time.sleep(0.1)
    for name in parties:
        stage.start(name, patience=patience)
    if waiting:
        for log, count in zip(logs, before, strict=True):
            while not log.exists():
                time.sleep(0.1)
            connected(log.parent, count)
    time.sleep(moment)
    early = stage.running["coordinator"].poll() is not None
    os.kill(link if victim == "superlink" else stage.running["coordinator"].pid, signal.SIGKILL)
    began, ends, codes = time.monotonic(), {}, {}
    # a party that has only just lost its SuperLink has all its patience ahead; one that was still starting begins to
    # count when it first says that nobody is there
    limits = {"coordinator": 10.0, "superlink": 10.0, **dict.fromkeys(parties, patience + 10.0)}
    while len(ends) < len(limits) and time.monotonic() - began < max(limits.values()) + 5.0:
        for name in set(parties) - set(ends):
            if not last_line(stage.folder / f"{name}.out"):
                limits[name] = time.monotonic() - began + patience + 10.0
        for name in set(limits) - set(ends):
            over = gone(link) if name == "superlink" else stage.running[name].poll() is not None
            if over:
                ends[name] = time.monotonic() - began
                codes[name] = None if name == "superlink" else stage.running.pop(name).returncode
        time.sleep(0.05)
    for name in [name for name in stage.running if name in limits]:
        stage.kill(name)
    words = {name: last_line(stage.folder / f"{name}.out") for name in ("coordinator", *parties)}
    in_time = all(name in ends and ends[name] <= limits[name] for name in limits)
    reasons = all(codes.get(name) == 6 and "Given up after" in words[name] for name in parties)
    if victim == "superlink":
        reasons = reasons and codes.get("coordinator") == 6 and "SuperLink has ended" in words["coordinator"]
    return {
        "victim": victim, "moment": moment, "early": early, "ends": ends, "codes": codes, "words": words,
        "right": in_time and reasons and not early,
    }  # fmt: skip


def play_ends(stage: Stage, trials: int, wait: float, patience: float, dice: random.Random) -> None:
    """--ends: a table of all trials; fails if a process did not end in time, or not with a reason."""
    print("| killed | after, s | coordinator: s, code | SuperLink: s | parties: s, code |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    found = []
    for number in range(2 * trials):
        victim = ("superlink", "coordinator")[number % 2]
        waiting = number % 4 < 2
        t = one_end(stage, number, victim, dice.uniform(0.0, 10.0), wait, patience, waiting)
        t["moment"] = f"{t['moment']:.1f} {'of the wait' if waiting else 'from the start'}"
        found.append(t)
        e: dict[str, float] = t["ends"]  # type: ignore[assignment]
        c: dict[str, int] = t["codes"]  # type: ignore[assignment]
        parties = ", ".join(f"{e.get(f'party{k}', -1.0):.1f} ({c.get(f'party{k}')})" for k in range(PARTIES - 1))
        print(
            f"| {victim} | {t['moment']} | {e.get('coordinator', -1.0):.1f} ({c.get('coordinator')}) "
            f"| {e.get('superlink', -1.0):.1f} | {parties} |",
            flush=True,
        )
        if not t["right"]:
            print(t, flush=True)
    for name, words in found[0]["words"].items():  # type: ignore[attr-defined]
        print(f"{name}: {words}")
    assert all(t["right"] for t in found)
    print(f"{2 * trials} kills: every process ended within its deadline and ten seconds, with a reason")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--port", type=int, default=9391)
    parser.add_argument("--longest", type=float, default=12.0, help="the longest pause before a kill, in seconds")
    parser.add_argument("--ends", type=int, default=0, help="kill each of SuperLink and coordinator so many times")
    parser.add_argument("--wait", type=float, default=120.0, help="with --ends: the coordinator's deadline, in seconds")
    parser.add_argument("--patience", type=float, default=15.0, help="with --ends: that of the parties, in seconds")
    a = parser.parse_args()
    dice = random.SystemRandom()
    stage = Stage(a.folder, a.port)
    done = 0
    if a.ends:
        try:
            play_ends(stage, a.ends, a.wait, a.patience, dice)
        finally:
            stage.stop()
        return
    try:
        for k in range(PARTIES):
            stage.start(f"party{k}")
        for number in range(a.jobs):
            job = stage.job(number)
            stage.start("coordinator", job)
            share = (a.kills * (number + 1)) // a.jobs - done
            for _ in range(share):
                time.sleep(dice.uniform(0.0, a.longest))
                victim = dice.choice([*(f"party{k}" for k in range(PARTIES)), "coordinator"])
                over = stage.running["coordinator"].poll() is not None
                stage.kill(victim)
                stage.start(victim, job if victim == "coordinator" else None)
                if over and victim != "coordinator":
                    # the job was done before the kill: it is asked for again, and must cost nothing
                    stage.kill("coordinator")
                    stage.start("coordinator", job)
                done += 1
                print(f"job {number}: killed {victim}{' after its job' if over else ''}", flush=True)
            code = stage.running["coordinator"].wait(600)
            result = json.loads((job.with_suffix("") / "result.json").read_text())
            kept = [Sketch.load(job.with_suffix("") / "sketches" / f"{k}.sketch") for k in range(PARTIES)]
            right = all(
                abs(result["w2"][i][j] - compare_sketches(kept[i], kept[j], draws=0).w2.value) < 1e-9
                for i in range(PARTIES)
                for j in range(i)
            )
            print(
                f"job {number}: exit {code}, complete {result['complete']}, right {right}, charges {stage.charges()}",
                flush=True,
            )
            assert code == 0
            assert result["complete"]
            assert right
            assert stage.charges() == [number + 1] * PARTIES
    finally:
        stage.stop()
    left = list(a.folder.glob("party*/sketches/*.secret"))
    print(f"{done} kills, {a.jobs} jobs: every ledger holds {a.jobs} charges, {len(left)} secrets are left")
    assert not left


if __name__ == "__main__":
    main()
