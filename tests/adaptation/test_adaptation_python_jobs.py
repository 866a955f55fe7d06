"""`DomainAdapter.fit(vault, source, folder=…)`, called again after a kill with the same arguments, continues and pays
for nothing twice.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warm
from privot.adaptation import DomainAdapter, Embedding, Sliced, StandIn
from privot.errors import BudgetError, DataError, UsageError
from privot.ledger import Ledger
from privot.vault import Vault

BLOCKS = 3
CONFIGS = {
    "embedding": Embedding(batch=16, fit=40, finish=60, augment=False, frequencies=20),
    "stand-in": StandIn(
        batch=16, warmup=40, finish=40, check=20, members=2, samples=50, generator=40, fit=40, augment=False
    ),
    "sliced": Sliced(batch=16, warmup=20, blocks=BLOCKS, steps=20, finish=20, slices=7, augment=False),
}


class Killed(BaseException):
    """Stands for a power cut."""


def rows(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(records) % 2
    x = 0.25 + 0.4 * y[:, None] + shift + 0.05 * np.random.default_rng(seed).standard_normal((records, 2))
    return np.clip(x, 0.0, 1.0), y


SOURCE = rows(40)


def opened(folder: Path, name: str = "ledger") -> tuple[Ledger, Vault]:
    """The same target and ledger, as a new process would open them."""
    path = folder / name
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    target = rows(60, 0.1)[0]
    return ledger, Vault(target, clip=1.0, adjacency="replace-one", ledger=ledger, budget=(30.0, 1e-5), label="toy")


def asked(method: str, **changes: Any) -> DomainAdapter:
    return DomainAdapter(5.0, 1e-5, **{"method": CONFIGS[method], "device": "cpu", "seed": 3, **changes})


def killed_at(step: int) -> Any:
    def tell(now: int, steps: int, loss: float) -> None:
        if now >= step:
            raise Killed

    return tell


@pytest.mark.parametrize("method", CONFIGS)
def test_fit_called_again_after_a_kill_continues_and_pays_once(method: str, tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked(method).fit(vault, SOURCE, folder=tmp_path / "out", progress=killed_at(30))
    ledger, vault = opened(tmp_path)
    done = asked(method).fit(vault, SOURCE, folder=tmp_path / "out")
    charged = len(ledger.entries())
    assert charged == (BLOCKS if method == "sliced" else 1)
    assert done.guarantee_ is not None
    assert done.guarantee_.epsilon() <= 5.0
    # a finished job costs nothing more, and gives the same classifier
    again = asked(method).fit(opened(tmp_path)[1], SOURCE, folder=tmp_path / "out")
    assert len(ledger.entries()) == charged
    np.testing.assert_array_equal(again.predict_proba(SOURCE[0]), done.predict_proba(SOURCE[0]))


# the stand-in's stages: generator 40 steps, first network 40, check 20, members 40 and 80
@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("method", "steps"),
    [("embedding", (30,)), pytest.param("stand-in", (20, 60, 90, 130, 200), marks=pytest.mark.slow)],
)
def test_kills_after_the_release_change_nothing_of_the_result(
    method: str, steps: tuple[int, ...], tmp_path: Path
) -> None:
    """One job, killed in each of its stages."""
    for step in steps:
        with pytest.raises(Killed):
            asked(method).fit(opened(tmp_path)[1], SOURCE, folder=tmp_path / "out", progress=killed_at(step))
    # the same release, trained on without a kill
    whole = tmp_path / "whole"
    whole.mkdir()
    for name in ("job.json", "block-1.npz"):
        (whole / name).write_bytes((tmp_path / "out" / name).read_bytes())
    resumed = asked(method).fit(opened(tmp_path)[1], SOURCE, folder=tmp_path / "out")
    straight = asked(method).fit(opened(tmp_path)[1], SOURCE, folder=whole)
    np.testing.assert_array_equal(resumed.predict_proba(SOURCE[0]), straight.predict_proba(SOURCE[0]))


def test_a_lost_release_is_paid_for_again_only_if_that_is_allowed(tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.release.Release.save", lambda *a, **k: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            asked("embedding").fit(vault, SOURCE, folder=tmp_path / "out")
    # what makes the very same release is gone too
    (tmp_path / "out" / "block-1.salt").unlink()
    ledger, vault = opened(tmp_path)
    with pytest.raises(BudgetError, match="pay_again") as refused:
        asked("embedding").fit(vault, SOURCE, folder=tmp_path / "out")
    assert "--" not in str(refused.value)
    assert len(ledger.entries()) == 1
    asked("embedding").fit(vault, SOURCE, folder=tmp_path / "out", pay_again=True)
    assert len(ledger.entries()) == 2


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": 4.0}, "epsilon"),
        ({"seed": 2}, "seed"),
        ({"method": CONFIGS["sliced"]}, "method"),
        ({"method": replace(CONFIGS["embedding"], finish=61)}, "settings"),
        ({"method": "embedding"}, "settings"),
    ],
)
def test_fit_with_other_arguments_refuses_the_job(changes: Any, name: str, tmp_path: Path) -> None:
    ledger, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked("embedding").fit(vault, SOURCE, folder=tmp_path / "out", progress=killed_at(30))
    with pytest.raises(UsageError, match=f"another {name}"):
        asked("embedding").set_params(**changes).fit(vault, SOURCE, folder=tmp_path / "out")
    assert len(ledger.entries()) == 1


def test_a_job_continues_with_its_own_ledger_and_source_only(tmp_path: Path) -> None:
    ledger, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked("embedding").fit(vault, SOURCE, folder=tmp_path / "out", progress=killed_at(30))
    with pytest.raises(DataError, match="another ledger"):
        asked("embedding").fit(opened(tmp_path, "second")[1], SOURCE, folder=tmp_path / "out")
    with pytest.raises(DataError, match="source"):
        asked("embedding").fit(vault, rows(40, seed=9), folder=tmp_path / "out")
    assert len(ledger.entries()) == 1


LIVES = """
import json, os, signal, sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)]
import torch
from privot.errors import LostReleaseError
from test_adaptation_python_jobs import SOURCE, asked, opened
here, method, moments = Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])

def life(seconds=None, again=False):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        try:
            made = asked(method).fit(opened(here)[1], SOURCE, folder=here / "out", pay_again=again)
            print(json.dumps([made.guarantee_.epsilon(), made.charged_]), flush=True)
            os._exit(0)
        except LostReleaseError:
            os._exit(4)
        finally:
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]

for moment in moments:
    life(moment)
lost = os.waitstatus_to_exitcode(life()) == 4
if lost:
    assert life(again=True) == 0
print(json.dumps({"lost": lost}))
"""


@pytest.mark.gate(1)
@pytest.mark.kills
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("method", CONFIGS)
def test_fit_killed_at_any_moment_continues_with_the_same_call(method: str, tmp_path: Path, whole_run: bool) -> None:
    opened(tmp_path)
    moments = json.dumps(np.random.default_rng(4).uniform(0.0, 0.5, 5 if whole_run else 2).tolist())
    ended = warm.run(["-c", LIVES, str(Path(__file__).parent), str(tmp_path), method, moments])
    assert ended.returncode == 0, ended.stderr
    *_, (epsilon, counted), last = map(json.loads, ended.stdout.splitlines())
    assert epsilon <= 5.0 * (1 + last["lost"])
    with Ledger.open(tmp_path / "ledger") as book:
        charges = [entry.purpose for entry in book.entries()]
    name = json.loads((tmp_path / "out" / "job.json").read_text())["job"]
    assert all(name in purpose for purpose in charges)
    # a single release that was lost is charged twice, a block that was lost is not; the guarantee counts all charges
    assert len(charges) == counted == (BLOCKS if method == "sliced" else 1 + last["lost"])
