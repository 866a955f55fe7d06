"""A job pays once: killed anywhere, it goes on with what was paid, or says that the payment is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import Killed, killed_at, spent
from synthesis_samples import rules, toy

from privot.errors import BudgetError, DataError, UsageError
from privot.jobs.job import Job
from privot.jobs.released_files import write_bytes
from privot.jobs.run import Run
from privot.ledger import Ledger
from privot.synthesis import Synthesizer, train
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.synthesis.output.html_report import write_report
from privot.synthesis.output.output_folder import write_folder
from privot.vault import Vault


def locked(tmp_path: Path, budget: tuple[float, float] | None = (5.0, 1e-5)) -> tuple[Ledger, Vault]:
    x, y = toy()
    path = tmp_path / "ledger"
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    return ledger, Vault(x, y, classes=2, clip=1.0, adjacency="add-remove", ledger=ledger, budget=budget)


@pytest.mark.slow
def test_training_goes_on_after_a_checkpoint_as_if_never_stopped(vault: Vault, small: Any, tmp_path: Path) -> None:
    release = small().fit(vault).release_
    plan = rules(80)
    straight = train(release, plan, seed=3)
    path = tmp_path / checkpoint.NAME

    def stop(training: TrainingState, now: bool = False) -> None:
        if training.step == 40:
            checkpoint.save(training, path, release=release.digest())
            raise Killed

    with pytest.raises(Killed):
        train(release, plan, seed=3, keep=stop)
    again = train(release, plan, training=checkpoint.load(path, plan, "cpu", release=release.digest()))
    assert again.step == 80
    assert again.losses == straight.losses
    for name, tensor in straight.generator.state_dict().items():
        assert torch.equal(tensor, again.generator.state_dict()[name]), name


def test_a_kill_during_training_costs_nothing_more(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    folder = tmp_path / "out"

    def kill(step: int, steps: int, loss: float) -> None:
        if step >= 20:
            raise Killed

    with pytest.raises(Killed):
        small().fit(vault, folder=folder, progress=kill)
    assert len(ledger.entries()) == 1

    def no_vault() -> Vault:
        raise AssertionError("the vault was opened again")

    job = Job.open(folder)
    done = Synthesizer.from_params(job.settings["params"], "cpu").run(
        Run(job, no_vault, spent(ledger), ledger.identity)
    )
    assert len(ledger.entries()) == 1
    assert done.guarantee_.epsilon() == pytest.approx(5.0, rel=1e-3)
    assert done.sample(10)[0].shape == (10, 2)


def test_a_release_lost_after_its_charge_is_said_and_paid_again_only_if_asked(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path, budget=(20.0, 1e-5))
    folder = tmp_path / "out"
    design = small().design(vault.facts)
    job = Job.start(folder, {"params": small().to_params(), "design": design.to_dict()})

    def lost(*_: Any, **__: Any) -> Any:
        # what makes it again is gone too
        (folder / "release.salt").unlink()
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.release.Release.save", lost)
        with pytest.raises(Killed):
            small().run(Run(job, lambda: vault, spent(ledger), ledger.identity))
    synthesizer = small()
    with pytest.raises(BudgetError, match="pay_again"):
        synthesizer.run(Run(Job.open(folder), lambda: vault, spent(ledger), ledger.identity))
    assert len(ledger.entries()) == 1
    synthesizer.run(Run(Job.open(folder), lambda: vault, spent(ledger), ledger.identity, True))
    assert len(ledger.entries()) == 2
    # and now that there is one, nobody pays a third time
    synthesizer.run(Run(Job.open(folder), lambda: vault, spent(ledger), ledger.identity, True))
    assert len(ledger.entries()) == 2


def test_a_job_killed_before_paying_pays_when_it_is_resumed(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    design = small().design(vault.facts)
    Job.start(tmp_path / "out", {"params": small().to_params(), "design": design.to_dict()})
    assert ledger.entries() == []
    small().run(Run(Job.open(tmp_path / "out"), lambda: vault, spent(ledger), ledger.identity))
    assert len(ledger.entries()) == 1


def test_the_release_is_on_disk_before_training_begins(small: Any, tmp_path: Path) -> None:
    _, vault = locked(tmp_path)

    with killed_at("privot.synthesis.methods.embedding_method.train"):
        small().fit(vault, folder=tmp_path / "out")
    assert (tmp_path / "out" / "release.npz").exists()


def test_what_runs_after_a_resume_is_what_was_decided_before(small: Any, tmp_path: Path) -> None:
    """Other rules given later change nothing: the job's own count."""
    ledger, vault = locked(tmp_path)
    design = small().design(vault.facts)
    Job.start(tmp_path / "out", {"params": small().to_params(), "design": design.to_dict()})
    other = small(rules=rules(500), seed=99)
    done = other.run(Run(Job.open(tmp_path / "out"), lambda: vault, spent(ledger), ledger.identity))
    assert done.release_.public["sigma"] == design.mechanism.sigma
    assert len(done.losses_) == 60


@pytest.mark.gate(2)
@pytest.mark.parametrize("damage", ["cut", "flip", "text", "other", "release"])
def test_a_corrupt_checkpoint_is_refused(vault: Vault, small: Any, tmp_path: Path, damage: str) -> None:
    plan = rules(20)
    path = tmp_path / checkpoint.NAME
    checkpoint.save(train(small().fit(vault).release_, plan), path, release="ab12")
    held = bytearray(path.read_bytes())
    if damage == "cut":
        held = held[:-10]
    elif damage == "flip":
        held[-200] ^= 4
    elif damage == "text":
        held = bytearray(b"not a checkpoint")
    path.write_bytes(held)
    with pytest.raises(DataError):
        checkpoint.load(
            path, rules(30) if damage == "other" else plan, "cpu", release="cd34" if damage == "release" else "ab12"
        )


def test_a_checkpoint_is_replaced_whole(vault: Vault, small: Any, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / checkpoint.NAME
    training = train(small().fit(vault).release_, rules(20))
    checkpoint.save(training, path, release="ab12")
    held = path.read_bytes()

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="space"):
        checkpoint.save(training, path, release="ab12")
    assert path.read_bytes() == held
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_folder_in_use_is_refused_before_paying(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        small().fit(vault, folder=tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        small().fit(vault, folder=tmp_path / "file" / "out")
    assert ledger.entries() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 9, "job": "0123456789abcdef", "settings": {}}',
        '{"schema": 2, "job": "0123456789abcdef", "settings": {}}',
        '{"version": 1, "job": "0123456789abcdef", "settings": {}}',
        '{"version": 3, "job": "0123456789abcdef", "settings": {}}',
        '{"job": "0123456789abcdef", "settings": {}}',
        '{"schema": 1, "job": "(", "settings": {}}',
        '{"schema": 1}',
    ],
)
def test_a_damaged_job_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(DataError):
        Job.open(tmp_path)


@pytest.mark.parametrize("version", [{"schema": 1}, {"version": 2}])
def test_both_versions_of_a_job_are_read(tmp_path: Path, version: dict[str, int]) -> None:
    job = Job.start(tmp_path, {"design": {}})
    written = json.loads((tmp_path / "job.json").read_text())
    assert written.pop("version") == 2
    (tmp_path / "job.json").write_text(json.dumps({**version, **written}))
    assert Job.open(tmp_path) == job


def started(small: Any, vault: Vault, folder: Path) -> Job:
    design = small().design(vault.facts)
    return Job.start(folder, {"params": small().to_params(), "design": design.to_dict()})


@pytest.mark.slow
def test_what_was_learned_from_a_lost_release_is_not_continued_on_another(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path, budget=(20.0, 1e-5))
    folder = tmp_path / "out"
    job = started(small, vault, folder)
    first = small().run(Run(job, lambda: vault, spent(ledger), ledger.identity), every=0.0)
    write_folder(first, folder, 20, 1)
    old = {name: t.clone() for name, t in first.generator_.state_dict().items()}
    kept = (folder / checkpoint.NAME).read_bytes()
    (folder / "release.npz").unlink()
    seen: list[set[str]] = []

    class Watched:
        facts = vault.facts

        def repeats(self, mechanism: Any) -> bool:
            return False

        def release(self, *arguments: Any, **named: Any) -> Any:
            seen.append({p.name for p in folder.iterdir()})
            return vault.release(*arguments, **named)

        def forget_sums(self) -> None:
            vault.forget_sums()

    (folder / "generator.safetensorsab12.part").write_bytes(b"half")
    second = small().run(Run(Job.open(folder), lambda: Watched(), spent(ledger), ledger.identity, True))  # type: ignore[arg-type,return-value]
    # whoever pays starts in a folder with nothing but the job
    assert seen == [{"job.json"}]
    assert second.release_.digest() != first.release_.digest()
    assert any(not torch.equal(old[name], t) for name, t in second.generator_.state_dict().items())
    # and a checkpoint that comes back from somewhere is noticed
    (folder / checkpoint.NAME).write_bytes(kept)
    with pytest.raises(DataError, match="another release"):
        small().run(Run(Job.open(folder), lambda: vault, spent(ledger), ledger.identity))


def test_a_refusal_before_paying_removes_nothing(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path, budget=(20.0, 1e-5))
    folder = tmp_path / "out"
    done = small().run(Run(started(small, vault, folder), lambda: vault, spent(ledger), ledger.identity))
    write_folder(done, folder, 20, 1)
    (folder / "release.npz").unlink()
    held = {p.name for p in folder.iterdir()}
    with pytest.raises(DataError, match="requested"):
        small(epsilon=1.0).run(Run(Job.open(folder), lambda: vault, spent(ledger), ledger.identity, True))
    assert {p.name for p in folder.iterdir()} == held
    assert len(ledger.entries()) == 1


def test_one_process_at_a_time(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    job = started(small, vault, tmp_path / "out")
    with job.alone(), job.alone():
        with pytest.raises(UsageError, match="Another process"):
            small().run(Run(Job.open(tmp_path / "out"), lambda: vault, spent(ledger), ledger.identity))
        assert ledger.entries() == []
        small().run(Run(job, lambda: vault, spent(ledger), ledger.identity))
    small().run(Run(Job.open(tmp_path / "out"), lambda: vault, spent(ledger), ledger.identity))
    assert len(ledger.entries()) == 1


def test_a_folder_takes_one_job_even_if_two_come_at_once(small: Any, tmp_path: Path, monkeypatch: Any) -> None:
    _, vault = locked(tmp_path)
    job = started(small, vault, tmp_path / "out")
    # the second looked when the folder was still empty
    monkeypatch.setattr("privot.jobs.job.prepare", lambda folder: None)
    with pytest.raises(UsageError, match="not empty"):
        started(small, vault, tmp_path / "out")
    assert Job.open(tmp_path / "out").name == job.name
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["job.json"]


def test_a_job_killed_while_it_was_written_down_can_be_started_again(small: Any, tmp_path: Path) -> None:
    _, vault = locked(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "job.jsonab12.part").write_text("{")
    small().fit(vault, folder=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.part"))


def test_a_job_pays_from_the_ledger_it_was_started_with(small: Any, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    settings = {"params": small().to_params(), "design": small().design(vault.facts).to_dict()}
    Job.start(tmp_path / "out", {**settings, "ledger": ledger.identity})
    for other in (None, "ab12"):
        with pytest.raises(DataError, match="another ledger"):
            small().run(Run(Job.open(tmp_path / "out"), lambda: vault, spent(ledger), other))
    assert ledger.entries() == []
    small().run(Run(Job.open(tmp_path / "out"), lambda: vault, spent(ledger), ledger.identity))


def test_settings_survive_json(small: Any, vault: Vault) -> None:
    params = small(shape=(1, 2), low=[0.0, 1.0], high=np.array([1.0, 2.0])).to_params()
    again = Synthesizer.from_params(json.loads(json.dumps(params)))
    assert again.to_params() == params
    with pytest.raises(DataError):
        Synthesizer.from_params({"epsilon": 1.0})


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"nowhere/more\.npz'$"):
        write_bytes(tmp_path / "nowhere" / "more.npz", b"1")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="give a folder that privot synth made"):
        write_report(tmp_path / "file")
