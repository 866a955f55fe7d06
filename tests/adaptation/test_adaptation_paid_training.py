"""What is charged is what runs; it stops when spent; a kill never leads to paying twice, or to stating less."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privot.accounting import FixedSize, Gaussian, Repeated, Sampled, account
from privot.accounting.events import Projection
from privot.adaptation import DomainAdapter, Embedding, Sliced
from privot.adaptation import model_folder as folder_module
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.adaptation_design import source_digest
from privot.adaptation.adaptation_methods.sliced_alignment import SlicedLearner
from privot.adaptation.adaptation_methods.source_alone import Source
from privot.adaptation.adaptation_methods.transformed_source import EmbeddingLearner
from privot.adaptation.learner import Learner
from privot.adaptation.model_folder import write_report
from privot.adaptation.paid_training import CHECKPOINT
from privot.errors import BudgetError, DataError, UsageError
from privot.guarantee import Adjacency
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.ledger import Ledger
from privot.mechanisms import RandomProjection
from privot.release import Release
from privot.vault import Vault

pytestmark = pytest.mark.slow

ONE = Adjacency.REPLACE_ONE
SMALL = Sliced(batch=16, warmup=2, blocks=3, steps=2, finish=2, slices=7, augment=False)


def toy(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(records) % 2
    x = 0.25 + 0.4 * y[:, None] + shift + 0.05 * np.random.default_rng(seed).standard_normal((records, 2))
    return np.clip(x, 0.0, 1.0), y


def adapter(settings: AdaptationConfig, **more: object) -> DomainAdapter:
    return DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=3, **more)  # type: ignore[arg-type]


CASES: list[tuple[AdaptationConfig, Callable[[float], object]]] = [
    # the latent dimension of the network for features is 50, whatever the records have
    (SMALL, lambda s: Repeated(Projection(50, 7, s, 1.0, ONE), 3)),
    (
        replace(SMALL, sample=8, blocks=2, releases_per_block=4, frame="independent"),
        lambda s: Repeated(Sampled(Projection(50, 7, s, 1.0, ONE, "independent"), FixedSize(8, 60)), 8),
    ),
    (
        Embedding(batch=16, fit=3, finish=4, augment=False, frequencies=20),
        lambda s: Gaussian(s, 2.0, ONE),
    ),
]


@pytest.mark.parametrize(("settings", "event"), CASES, ids=["sliced", "sampled", "embedding"])
def test_the_guarantee_is_that_of_the_events_that_ran(
    settings: AdaptationConfig, event: Callable[[float], object]
) -> None:
    vault = Vault(toy(60, 0.1)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    made = adapter(settings).fit(vault, toy(40))
    assert made.guarantee_ is not None
    assert made.design_.sigma is not None
    wanted = account(event(made.design_.sigma), 1e-5)  # type: ignore[arg-type]
    assert made.guarantee_.epsilon() == pytest.approx(wanted.epsilon(), rel=1e-9)
    assert 4.9 < made.guarantee_.epsilon() <= 5.0
    assert made.guarantee_.standing == "proven"
    assert made.charged_ == made.design_.settings.blocks
    # all of the budget is gone: nothing of the same kind is left to buy
    with pytest.raises(BudgetError):
        adapter(settings).fit(vault, toy(40))


def test_what_somebody_else_spends_meanwhile_is_refused_and_not_the_rest_of_a_run() -> None:
    vault = Vault(toy(60)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    asked: list[int] = []

    made = adapter(SMALL)
    run_block = Learner.run_block

    def spend(self: Learner, *args: object) -> None:
        run_block(self, *args)  # type: ignore[arg-type]
        asked.append(1)
        if len(asked) == 1:
            # the whole run was reserved before its first block
            with pytest.raises(BudgetError):
                vault.release(RandomProjection(2, 2.86), purpose="another")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "run_block", spend)
        made.fit(vault, toy(40))
    assert made.charged_ == len(asked) == SMALL.blocks


class Killed(BaseException):
    """Stands for a power cut."""


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "target.ledger")


def start(made: DomainAdapter, book: Ledger, folder: Path) -> tuple[Job, Vault]:
    vault = Vault(toy(60, 0.1)[0], clip=1.0, adjacency="replace-one", ledger=book, budget=(5.0, 1e-5))
    design = made.design(vault.facts, toy(40))
    return Job.start(folder, {"design": design.to_dict(), "ledger": book.identity}), vault


def go_on(made: DomainAdapter, job: Job, vault: Vault, book: Ledger, **more: object) -> DomainAdapter:
    def spent(mark: str) -> int:
        return sum(mark in entry.purpose for entry in book.entries())

    run = Run(job, lambda: vault, spent, book.identity, bool(more.pop("pay_again", False)))
    return made.run(run, toy(40), **more)  # type: ignore[arg-type]


@pytest.mark.gate(each="where")
@pytest.mark.parametrize("where", ["before the release", "after the release", "after training"])
@pytest.mark.parametrize("block", [0, 1])
def test_a_killed_job_goes_on_without_paying_twice_and_counts_what_was_lost(
    tmp_path: Path, book: Ledger, where: str, block: int
) -> None:
    made = adapter(SMALL)
    job, vault = start(made, book, tmp_path / "out")
    seen: list[int] = []
    run_block = Learner.run_block

    def killing(self: Learner, stream: object, kept: object, save: object, tell: object) -> None:
        if self.done == block and not seen:
            seen.append(1)
            if where == "before the release":
                raise Killed
            if where == "after the release":

                def once(release: Release) -> None:
                    save(release)  # type: ignore[operator]
                    raise Killed

                run_block(self, stream, kept, once, tell)  # type: ignore[arg-type]
            run_block(self, stream, kept, save, tell)  # type: ignore[arg-type]
            raise Killed
        run_block(self, stream, kept, save, tell)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "run_block", killing)
        with pytest.raises(Killed):
            go_on(made, job, vault, book)
    assert len(book.entries()) == block + 1
    ended = go_on(adapter(SMALL), Job.open(tmp_path / "out"), vault, book)
    # three charges in all, whatever happened, and a guarantee of all three
    assert len(book.entries()) == 3
    assert ended.charged_ == 3
    assert ended.lost_ == (1 if where == "before the release" else 0)
    whole = account(Repeated(Projection(50, 7, ended.design_.sigma or 0.0, 1.0, ONE), 3), 1e-5)
    assert ended.guarantee_ is not None
    assert ended.guarantee_.epsilon() == pytest.approx(whole.epsilon(), rel=1e-9)
    # what is finished pays nothing more and states no less
    again = go_on(adapter(SMALL), Job.open(tmp_path / "out"), vault, book)
    assert len(book.entries()) == 3
    assert again.guarantee_ is not None
    assert again.guarantee_.epsilon() == pytest.approx(whole.epsilon(), rel=1e-9)


def test_the_only_release_of_a_job_is_bought_again_only_when_told_to(tmp_path: Path, book: Ledger) -> None:
    settings = Embedding(batch=16, fit=2, finish=2, augment=False)
    job, vault = start(adapter(settings), book, tmp_path / "out")

    def kill(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.release.Release.save", kill)
        with pytest.raises(Killed):
            go_on(adapter(settings), job, vault, book)
    # what makes the very same release is gone too
    (tmp_path / "out" / "block-1.salt").unlink()
    with pytest.raises(BudgetError, match="pay_again"):
        go_on(adapter(settings), job, vault, book)
    # and then only from a budget that has room for it
    with pytest.raises(BudgetError, match=r"ε"):
        go_on(adapter(settings), job, vault, book, pay_again=True)
    assert len(book.entries()) == 1


def test_a_release_that_cannot_be_written_is_said_to_be_paid_for(tmp_path: Path, book: Ledger) -> None:
    settings = Embedding(batch=16, fit=2, finish=2, augment=False)
    job, vault = start(adapter(settings), book, tmp_path / "out")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "save", full)
        with pytest.raises(DataError, match=r"block-1.npz .*No space left.* costs nothing more"):
            go_on(adapter(settings), job, vault, book)
    go_on(adapter(settings), job, vault, book)
    assert len(book.entries()) == 1


def test_what_lies_in_a_folder_is_not_believed(tmp_path: Path, book: Ledger) -> None:
    settings = Embedding(batch=16, fit=2, finish=2, augment=False)
    job, vault = start(adapter(settings), book, tmp_path / "out")
    other = Vault(toy(60)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    elsewhere = adapter(settings).design(other.facts, toy(40))
    mechanism = EmbeddingLearner(elsewhere, *toy(40), "cpu").mechanism()
    other.release(mechanism, purpose="elsewhere").save(tmp_path / "out" / "block-1.npz")
    with pytest.raises(DataError, match="never paid for"):
        go_on(adapter(settings), job, vault, book)
    with pytest.raises(DataError, match="another ledger"):
        adapter(settings).run(Run(job, lambda: vault, lambda mark: 0, "another"), toy(40))


def test_noise_that_costs_more_than_was_asked_for_is_refused_before_paying(tmp_path: Path, book: Ledger) -> None:
    made = adapter(SMALL)
    job, vault = start(made, book, tmp_path / "out")
    fields = {**job.settings["design"], "sigma": 0.5}
    with pytest.raises(DataError, match="nothing was paid"):
        go_on(made, replace(job, settings={**job.settings, "design": fields}), vault, book)
    assert not book.entries()


def test_a_job_is_not_run_on_another_source(tmp_path: Path, book: Ledger) -> None:
    """What its design was made for counts, whoever started it."""
    job, vault = start(adapter(SMALL), book, tmp_path / "out")
    x, y = toy(40)
    for other in ((x, 1 - y), (x[::-1], y), (x[:39], y[:39]), (x[:, :1], y), (x, y * 2)):
        with pytest.raises(DataError, match="not the source"):
            adapter(SMALL).run(Run(job, lambda: vault, lambda mark: 0, book.identity), other)
    assert not book.entries()
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["job.json"]


def test_a_source_is_known_by_its_numbers_in_their_order() -> None:
    x, y = np.array([[0.0, 1.0], [2.0, 0.1]]), np.array([0, 1])
    known = source_digest(x, y)
    assert source_digest(np.asfortranarray(x), y) == known
    assert source_digest(x.astype(np.float32), y) == known
    assert source_digest(np.array([[-0.0, 1.0], [2.0, 0.1]]), y) == known
    others = [(x[::-1], y), (x, y[::-1]), (x[::-1], y[::-1]), (x + 1e-6, y), (x.reshape(1, 4), y), (x.T, y)]
    assert len({known, *(source_digest(*other) for other in others)}) == 7


def test_a_stream_that_somebody_else_paid_for_is_asked_until_it_is_used_up() -> None:
    vault = Vault(toy(60)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    made = adapter(SMALL)
    design = made.design(vault.facts, toy(40))
    stream = vault.stream(
        replace(SlicedLearner(design, *toy(40), "cpu").mechanism(), steps=3),  # type: ignore[type-var]
        purpose="for a colleague",
    )
    made.fit_stream(stream, vault.facts, toy(40))
    assert made.guarantee_ is not None
    assert made.guarantee_.epsilon() <= 5.0
    with pytest.raises(BudgetError, match="used up"):
        made.fit_stream(stream, vault.facts, toy(40))
    with pytest.raises(UsageError, match="embedding learns from no stream"):
        adapter(CASES[2][0]).fit_stream(stream, vault.facts, toy(40))


def test_checkpoints_are_written_while_training(tmp_path: Path, book: Ledger) -> None:
    settings = replace(SMALL, warmup=60)
    made = adapter(settings)
    job, vault = start(made, book, tmp_path / "out")
    go_on(made, job, vault, book, every=0.0)
    assert (tmp_path / "out" / CHECKPOINT).exists()
    assert not list((tmp_path / "out").glob("block-*.npz"))


def kill(*_: object) -> None:
    raise Killed


def test_a_job_that_lost_every_block_still_states_what_was_charged(tmp_path: Path, book: Ledger) -> None:
    settings, folder = replace(SMALL, blocks=2, releases_per_block=4, sample=8), tmp_path / "sliced"
    job, vault = start(adapter(settings), book, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "run_block", kill)
        for _ in range(2):
            with pytest.raises(Killed):
                go_on(adapter(settings), Job.open(folder), vault, book)
    ended = go_on(adapter(settings), job, vault, book)
    assert (ended.charged_, ended.lost_, len(book.entries())) == (2, 2, 2)
    assert ended.guarantee_ is not None
    assert ended.guarantee_.standing == "proven"
    assert 4.9 < ended.guarantee_.epsilon() <= 5.0
    ended.save(folder)
    assert "No private record was looked at" not in write_report(folder).read_text()


def test_a_ledger_that_forgot_a_charge_is_refused_even_if_a_block_was_lost(tmp_path: Path, book: Ledger) -> None:
    job, vault = start(adapter(SMALL), book, tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "run_block", kill)
        with pytest.raises(Killed):
            go_on(adapter(SMALL), job, vault, book)
    ended = go_on(adapter(SMALL), job, vault, book)
    assert (ended.charged_, ended.lost_) == (3, 1)

    def older(mark: str) -> int:
        return sum(mark in entry.purpose for entry in list(book.entries())[:2])

    with pytest.raises(DataError, match="more"):
        adapter(SMALL).run(Run(job, lambda: vault, older, book.identity), toy(40))


def test_a_finished_job_read_again_assumes_no_less_and_costs_what_its_blocks_did(tmp_path: Path, book: Ledger) -> None:
    job, vault = start(adapter(SMALL), book, tmp_path / "out")
    first = go_on(adapter(SMALL), job, vault, book)
    again = go_on(adapter(SMALL), job, vault, book)
    assert first.guarantee_ is not None
    assert again.guarantee_ is not None
    assert again.guarantee_.assumptions == first.guarantee_.assumptions
    first.save(tmp_path / "model")
    loaded = DomainAdapter.load(tmp_path / "model").guarantee_
    assert loaded is not None
    assert loaded.assumptions == first.guarantee_.assumptions
    # blocks were paid for with less noise than the job says now
    fields = {**job.settings["design"], "sigma": 100.0}
    with pytest.raises(DataError, match="charged as another event"):
        go_on(adapter(SMALL), replace(job, settings={**job.settings, "design": fields}), vault, book)


def mixing_networks(columns: int, shape: object, classes: int) -> tuple[nn.Module, nn.Module]:
    # batch statistics, also in evaluation mode
    norm = nn.BatchNorm1d(3, track_running_stats=False)
    return nn.Sequential(nn.Linear(columns, 3), norm), nn.Linear(3, classes)


def test_a_network_that_mixes_records_is_refused_before_anything_is_paid(book: Ledger) -> None:
    vault = Vault(toy(60)[0], clip=1.0, adjacency="replace-one", ledger=book, budget=(5.0, 1e-5))
    with pytest.raises(UsageError, match="group"):
        adapter(SMALL, network=f"{__name__}:mixing_networks").fit(vault, toy(40))
    assert not book.entries()


class Drawing(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(rows, 0.5, training=True)


def drawing_networks(columns: int, shape: object, classes: int) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(nn.Linear(columns, 3), Drawing()), nn.Linear(3, classes)


def test_a_network_that_draws_is_refused_before_anything_is_paid(book: Ledger) -> None:
    vault = Vault(toy(60)[0], clip=1.0, adjacency="replace-one", ledger=book, budget=(5.0, 1e-5))
    with pytest.raises(UsageError):
        adapter(SMALL, network=f"{__name__}:drawing_networks").fit(vault, toy(40))
    assert not book.entries()


def test_a_sketch_has_one_release_a_charge() -> None:
    assert Embedding(blocks=3).releases == 3
    with pytest.raises(TypeError, match="releases_per_block"):
        Embedding(releases_per_block=2)  # type: ignore[call-arg]


def test_a_folder_never_holds_a_new_model_beside_an_old_guarantee(tmp_path: Path) -> None:
    vault = Vault(toy(60, 0.1)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    adapter(replace(SMALL, blocks=1)).fit(vault, toy(40)).save(tmp_path)
    source = adapter(Source(batch=16, finish=2, augment=False)).fit(vault, toy(40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_module, "write_json", kill)
        with pytest.raises(Killed):
            source.save(tmp_path)
    with pytest.raises(DataError):
        DomainAdapter.load(tmp_path)
    source.save(tmp_path)
    assert not (tmp_path / "guarantee.json").exists()
    assert DomainAdapter.load(tmp_path).guarantee_ is None


def test_what_is_written_of_a_stream_somebody_else_paid_for_is_the_streams_own() -> None:
    vault = Vault(toy(60)[0], clip=1.0, adjacency="replace-one", budget=(50.0, 1e-5))
    design = adapter(SMALL).design(vault.facts, toy(40))
    mechanism = replace(SlicedLearner(design, *toy(40), "cpu").mechanism(), steps=5, sigma=0.9)  # type: ignore[type-var]
    made = adapter(SMALL).fit_stream(vault.stream(mechanism, purpose="for a colleague"), vault.facts, toy(40))
    assert made.guarantee_ is not None
    assert made.design_.sigma == 0.9
    assert made.design_.epsilon == pytest.approx(made.guarantee_.epsilon())
    # other slices and a sample are the colleague's to choose; releases of another kind are refused
    other = vault.stream(replace(mechanism, slices=3, batch=8), purpose="for a colleague")  # type: ignore[type-var]
    settings: Any = adapter(SMALL).fit_stream(other, vault.facts, toy(40)).design_.settings
    assert (settings.slices, settings.sample, settings.releases_per_block, settings.clip) == (3, 8, 5, 0.5)
    wrong = vault.stream(RandomProjection(2, 5.0, steps=2), purpose="for a colleague")
    with pytest.raises(UsageError, match="projections of a representation"):
        adapter(SMALL).fit_stream(wrong, vault.facts, toy(40))
