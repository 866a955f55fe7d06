"""`fit(vault, folder=…)`, called again after a kill with the same arguments, goes on and pays once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed_jobs import Killed, killed_at
from synthesis_samples import rules, toy

import warm
from privot.errors import BudgetError, DataError, UsageError
from privot.ledger import Ledger
from privot.synthesis import Synthesizer
from privot.vault import Vault
from synthesis_asked import flat

pytestmark = pytest.mark.slow

STREAMED = {"steps": 24, "blocks": 6, "batch": 20}


def opened(tmp_path: Path, budget: float = 20.0, name: str = "ledger", swap: bool = False) -> tuple[Ledger, Vault]:
    """The same records and ledger, as a new process would open them; `swap` exchanges the classes."""
    x, y = toy()
    y = 1 - y if swap else y
    path = tmp_path / name
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    return ledger, Vault(
        x, y, classes=2, clip=1.0, adjacency="replace-one", ledger=ledger, budget=(budget, 1e-5), label="toy"
    )


def asked(method: str, **changes: Any) -> Synthesizer:
    fields: dict[str, Any] = {"seed": 1, "device": "cpu", "method": method, "records": 400}
    fields |= {"rules": rules()} if method == "embedding" else {"options": STREAMED}
    return Synthesizer(**flat(**{"epsilon": 5.0, "delta": 1e-5, **fields, **changes}))


def killed_in(step: int) -> Any:
    def tell(now: int, steps: int, loss: float) -> None:
        if now >= step:
            raise Killed

    return tell


@pytest.mark.parametrize("method", ["embedding", "sinkhorn", "sliced"])
def test_fit_called_again_after_a_kill_goes_on_and_pays_once(method: str, tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked(method).fit(vault, folder=tmp_path / "out", progress=killed_in(8))
    ledger, vault = opened(tmp_path)
    done = asked(method).fit(vault, folder=tmp_path / "out")
    charged = len(ledger.entries())
    assert charged == (1 if method == "embedding" else STREAMED["blocks"])
    assert 4.9 < done.guarantee_.epsilon() <= 5.0
    assert done.sample(10)[0].shape == (10, 2)
    # done is done: once more costs nothing, and gives the same generator
    again = asked(method).fit(opened(tmp_path)[1], folder=tmp_path / "out")
    assert len(ledger.entries()) == charged
    np.testing.assert_array_equal(again.sample(10, seed=1)[0], done.sample(10, seed=1)[0])


def test_fit_that_was_stopped_before_it_paid_pays_when_called_again(tmp_path: Path) -> None:
    _, vault = opened(tmp_path, budget=20.0)
    with killed_at("privot.vault.Vault.release_once"):
        asked("embedding").fit(vault, folder=tmp_path / "out")
    ledger, vault = opened(tmp_path)
    asked("embedding").fit(vault, folder=tmp_path / "out")
    assert len(ledger.entries()) == 1


def test_a_lost_release_is_paid_for_again_only_where_that_is_said(tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    with killed_at("privot.release.Release.save"):
        asked("embedding").fit(vault, folder=tmp_path / "out")
    # what makes the very same release is gone too
    (tmp_path / "out" / "release.salt").unlink()
    ledger, vault = opened(tmp_path)
    with pytest.raises(BudgetError, match="pay_again") as refused:
        asked("embedding").fit(vault, folder=tmp_path / "out")
    assert "--" not in str(refused.value)
    assert len(ledger.entries()) == 1
    asked("embedding").fit(vault, folder=tmp_path / "out", pay_again=True)
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"epsilon": 4.0}, "epsilon"), ({"seed": 2}, "seed"), ({"rules": rules(61)}, "rules"), ({"high": 2.0}, "high")],
)
def test_fit_with_other_arguments_does_not_go_on_with_a_job(changes: Any, name: str, tmp_path: Path) -> None:
    ledger, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked("embedding").fit(vault, folder=tmp_path / "out", progress=killed_in(8))
    other = asked("embedding", **changes)
    with pytest.raises(UsageError, match=f"another {name}") as refused:
        other.fit(vault, folder=tmp_path / "out")
    assert "--" not in str(refused.value)
    assert len(ledger.entries()) == 1


def test_a_job_goes_on_with_its_own_ledger_and_records_only(tmp_path: Path) -> None:
    ledger, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked("embedding").fit(vault, folder=tmp_path / "out", progress=killed_in(8))
    with pytest.raises(DataError, match="another ledger") as refused:
        asked("embedding").fit(opened(tmp_path, name="second")[1], folder=tmp_path / "out")
    assert "--" not in str(refused.value)
    x, y = toy(seed=5)
    terms = {"ledger": ledger, "budget": (20.0, 1e-5), "label": "others", "new_records": True}
    others = Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", **terms)
    with pytest.raises(DataError, match="never paid for"):
        asked("embedding").fit(others, folder=tmp_path / "out")
    # a budget in memory is forgotten with its vault, and cannot say what was paid
    forgetful = Vault(*toy(), classes=2, clip=1.0, adjacency="replace-one", budget=(20.0, 1e-5))
    with pytest.raises(DataError, match="ledger"):
        asked("embedding").fit(forgetful, folder=tmp_path / "out")
    assert len(ledger.entries()) == 1


def test_a_folder_that_holds_something_else_is_refused_in_words_of_the_library(tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty") as refused:
        asked("embedding").fit(vault, folder=tmp_path / "out")
    assert "--" not in str(refused.value)


LIVES = """
import json, os, signal, sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)]
import torch
from privot.errors import LostReleaseError
from test_synthesis_python_jobs import asked, opened
here, method, moments = Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])

def life(seconds=None, again=False):
    # what a life loads is loaded before, so that it is spent on the job
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        try:
            made = asked(method).fit(opened(here, budget=30.0)[1], folder=here / "out", pay_again=again)
            print(json.dumps([made.guarantee_.epsilon(), len(made.sample(5)[0])]), flush=True)
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
@pytest.mark.parametrize("method", ["embedding", "sinkhorn"])
def test_fit_killed_at_any_moment_goes_on_with_the_same_call(method: str, tmp_path: Path, whole_run: bool) -> None:
    opened(tmp_path, budget=30.0)
    moments = json.dumps(np.random.default_rng(3).uniform(0.0, 0.6, 4 if whole_run else 2).tolist())
    ended = warm.run(["-c", LIVES, str(Path(__file__).parent), str(tmp_path), method, moments])
    assert ended.returncode == 0, ended.stderr
    *_, (epsilon, drawn), last = map(json.loads, ended.stdout.splitlines())
    assert epsilon <= 5.0
    assert drawn == 5
    with Ledger.open(tmp_path / "ledger") as book:
        charges = [entry.purpose for entry in book.entries()]
    name = json.loads((tmp_path / "out" / "job.json").read_text())["job"]
    assert all(name in purpose for purpose in charges)
    # a release that was lost is charged twice, a block that was lost is not
    assert len(charges) == (1 + last["lost"] if method == "embedding" else STREAMED["blocks"])


def private(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "ledger.jobs").iterdir()]


@pytest.mark.parametrize(("method", "place"), [("embedding", "save"), ("embedding", "train"), ("sinkhorn", "train")])
def test_a_fit_without_a_folder_loses_nothing_that_a_ledger_paid_for(method: str, place: str, tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    if place == "save":
        with killed_at("privot.release.Release.save"):
            asked(method, seed=None).fit(vault)
    else:
        with pytest.raises(Killed):
            asked(method, seed=None).fit(vault, progress=killed_in(8))
    assert len(private(tmp_path)) == 1
    # what lies there is its owner's alone
    assert (tmp_path / "ledger.jobs").stat().st_mode & 0o077 == 0
    ledger, vault = opened(tmp_path)
    done = asked(method, seed=None).fit(vault)
    charged = 1 if method == "embedding" else STREAMED["blocks"]
    assert len(ledger.entries()) == charged
    assert done.sample(10)[0].shape == (10, 2)
    assert private(tmp_path) == []
    # it ended: the next one is another one, and pays
    asked(method, seed=None).fit(vault)
    assert len(ledger.entries()) == 2 * charged


def test_a_refused_fit_leaves_nothing_behind_and_another_one_is_another_job(tmp_path: Path) -> None:
    _, vault = opened(tmp_path, budget=8.0)
    with pytest.raises(Killed):
        asked("embedding").fit(vault, progress=killed_in(8))
    ledger, vault = opened(tmp_path, budget=8.0)
    (held,) = private(tmp_path)
    with pytest.raises(BudgetError):
        asked("embedding", epsilon=7.0).fit(vault)
    assert private(tmp_path) == [held]
    asked("embedding").fit(vault)
    assert len(ledger.entries()) == 1


def test_a_fit_without_a_folder_is_not_answered_by_that_of_other_labels(tmp_path: Path) -> None:
    _, vault = opened(tmp_path)
    with pytest.raises(Killed):
        asked("embedding").fit(vault, progress=killed_in(8))
    (held,) = private(tmp_path)
    ledger, vault = opened(tmp_path, swap=True)
    asked("embedding").fit(vault)
    assert len(ledger.entries()) == 2
    assert private(tmp_path) == [held]
