"""Kills a coordinator and its parties at random moments, on loopback with Flower, and counts what was lost.

    python benchmarks/federation_kills.py FOLDER [--kills 20] [--jobs 5] [--port 9391]

Three parties and a coordinator run as processes (`privot federate join`, `coordinate`). While a job for a sketch runs,
one of the four is killed (SIGKILL) after a random pause and started again, until the job is done and its share of the
kills is spent. In the end every ledger must hold one charge a job, every result must be complete and equal to the
comparison of the sketches the parties hold, and no secret may be left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from privot import Ledger
from privot.federation import Sketch, compare_sketches
from privot.federation.enrolling import make_coordinator, make_party

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

    def job(self, number: int) -> Path:
        """A job of its own design, so that each is a charge of its own."""
        text = 'version = 1\nprotocol = "sketch"\nwait = 240\n[sketch]\nepsilon = 1.0\ndelta = 1e-5\n'
        text += f'adjacency = "replace-one"\ndim = {D}\nradius = {5.0 + number}\n'
        for k, (name, signer) in enumerate(self.members):
            text += f'[[party]]\nname = "{name}"\nsigner = "{signer}"\nnode = "{k}.pub"\n'
        path = self.folder / f"job{number}.toml"
        path.write_text(text)
        return path

    def start(self, name: str, job: Path | None = None) -> None:
        common = [sys.executable, "-m", "privot", "federate"]
        if name == "coordinator":
            command = [*common, "coordinate", str(self.folder / "hub"), str(job), "--port", str(self.port), "--json"]
        else:
            link = ["--link", f"127.0.0.1:{self.port}", "--authority", str(self.folder / "hub" / "ca.pem")]
            command = [*common, "join", str(self.folder / name), *link]
        with (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(command, stdout=out, stderr=out, env=dict(os.environ))  # noqa: S603

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def charges(self) -> list[int]:
        out = []
        for k in range(PARTIES):
            with Ledger.open(self.folder / f"party{k}" / "records.ledger") as ledger:
                out.append(len(ledger.entries()))
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--port", type=int, default=9391)
    parser.add_argument("--longest", type=float, default=12.0, help="the longest pause before a kill, in seconds")
    a = parser.parse_args()
    dice = random.SystemRandom()
    stage = Stage(a.folder, a.port)
    done = 0
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
        for process in stage.running.values():
            process.kill()
            process.wait()
    left = list(a.folder.glob("party*/sketches/*.secret"))
    print(f"{done} kills, {a.jobs} jobs: every ledger holds {a.jobs} charges, {len(left)} secrets are left")
    assert not left


if __name__ == "__main__":
    main()
