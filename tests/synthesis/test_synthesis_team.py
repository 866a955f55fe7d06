"""Several processes: the step of one, a release that is paid once, an end for everybody when the first one fails."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import secrets
import socket
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
from torch import distributed

import warm
from privot.ledger import Ledger
from privot.synthesis.neural.generator_training.distributed import Team

pytestmark = pytest.mark.slow

STEP = """
import sys, numpy as np, torch
from torch import distributed
from privot.synthesis.methods.embedding_training import Target, _Step
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generator_training.distributed import Team
from privot.synthesis.neural.generator_training.training_state import TrainingState

team = Team.join("cpu")
config = {"kind": "mlp", "dim": 3, "classes": 2, "latent": 2, "hidden": [], "segments": [[0, 3, "interval"]]}
training = TrainingState.start(Rules(config, 1, 4, 0.1), 5, "cpu")
training.optimizer = torch.optim.SGD(training.generator.parameters(), lr=1.0)
means = torch.linspace(-1, 1, 2 * 10).view(2, 10).numpy()
step = _Step(training, Target(Fourier(3, 5, [0.5], 1), means, np.array([0.3, 0.7]), np.ones(2)), team)
z = torch.linspace(-2, 2, 2 * 4 * 2).view(2, 4, 2)
rows = 4 // team.size
step._z = z[:, team.rank * rows : (team.rank + 1) * rows].reshape(-1, 2)
step._work()
if team.rank == 0:
    torch.save([p.detach() for p in training.generator.parameters()], sys.argv[1])
# it holds the group: freed after the group is left, it can wait for ever
del step
if team.size > 1:
    distributed.destroy_process_group()
"""


def _torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Two processes as people start them; each loads PyTorch anew, so one test does this."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


def _free_port() -> int:
    """Below those that the system hands out: other tests take such a port between this look and its use."""
    while True:
        port = secrets.choice(range(20_000, 30_000))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _team(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[tuple[int, str]]:
    """(exit code, standard error) of two processes with the environment that torchrun gives them, and no torchrun.

    Nobody ends a process that waits for the other: it would exceed the time limit.
    """
    port = _free_port()
    for name, value in {
        "WORLD_SIZE": 2,
        "LOCAL_WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }.items():
        monkeypatch.setenv(name, str(value))
    team = []
    for rank in range(2):
        for name in ("RANK", "LOCAL_RANK"):
            monkeypatch.setenv(name, str(rank))
        team.append(warm.Process(list(arguments)))
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name)
    ended = [process.communicate(120) for process in team]
    return [(int(process.returncode or 0), said) for process, (_, said) in zip(team, ended, strict=True)]


def test_two_processes_take_the_step_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "step.py"
    script.write_text(STEP, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "1.pt")])
    runpy.run_path(str(script))
    for code, said in _team(monkeypatch, str(script), str(tmp_path / "2.pt")):
        assert code == 0, said[-2000:]
    one, two = (torch.load(tmp_path / f"{n}.pt") for n in (1, 2))
    start = one[0].new_zeros(())
    for a, b in zip(one, two, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
        start = start + a.abs().sum()
    assert start > 0.0


def test_what_trained_is_freed_before_the_group_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trained:
        """A step holds its own method, and with it the model that averages gradients."""

        def __init__(self) -> None:
            self.work = self.__init__

    freed = []
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: freed.append(trained() is None))
    gc.disable()
    try:
        trained = weakref.ref(Trained())
        assert trained() is not None
        with Team(rank=1, size=2):
            pass
    finally:
        gc.enable()
    assert freed == [True]


SYNTH = [
    "--delta",
    "1e-5",
    "--adjacency",
    "replace-one",
    "--set",
    "steps=21",
    "--samples",
    "50",
    "--device",
    "cpu",
    "--json",
]


def test_a_team_pays_once_and_writes_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = _torchrun("-m", "privot", "synth", "digits", "--epsilon", "5", "--out", str(out), *SYNTH)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["samples"] == 50
    assert (out / "report.html").exists()
    with Ledger.open(tmp_path / "digits.ledger") as ledger:
        assert len(ledger.entries()) == 1


@pytest.mark.gate(1)
@pytest.mark.parametrize("wrong", [["--epsilon", "-1"], ["--epsilon", "5", "--method", "sinkhorn"]])
def test_when_the_first_refuses_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str]) -> None:
    command = ["-m", "privot", "synth", "digits", "--out", str(tmp_path / "out"), *wrong, *SYNTH]
    (first, said), (second, _) = _team(monkeypatch, *command)
    assert first == 2
    assert said.count("\n") == 1, said
    # the other one is told that there is nothing to do
    assert second == 0
    assert not (tmp_path / "out").exists()
