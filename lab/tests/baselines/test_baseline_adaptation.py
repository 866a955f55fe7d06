"""Baselines of adaptation plug in by entry points: each pays for what runs, and none runs that nobody allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privot.accounting import FixedSize, Gaussian, Repeated, Sampled, account
from privot.accounting.events import Projection
from privot.adaptation import DomainAdapter
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.adaptation_methods import choose
from privot.adaptation.adaptation_request import AdaptationRequest
from privot.adaptation.alignment.adversarial import discriminator, domain_loss
from privot.adaptation.learner import Learner
from privot.adaptation.model_folder import write_report
from privot.adaptation.networks import FrozenRepresentation, build, weights_of
from privot.cli import run
from privot.common.privacy_unit import Unit
from privot.errors import BudgetError, UnprovenError, UsageError
from privot.guarantee import Adjacency
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.kinds import Images
from privot.ledger import Ledger
from privot.vault import Vault
from privot_lab.baselines.dp_dann import DomainGradients, DpDann, Judged
from privot_lab.baselines.published_alignment import AlignmentQuery, PublishedAlignment
from privot_lab.baselines.published_dp_swd import Published

ONE = Adjacency.REPLACE_ONE
PLAIN = {"kind": "features", "columns": 2, "shape": None, "classes": 2, "low": 0.0, "high": 1.0}
DANN = DpDann(batch=16, warmup=0, blocks=2, releases_per_block=3, finish=0, sample=8, clip=1.0)
PUBLISHED = Published(batch=8, warmup=0, sample=8, blocks=2, releases_per_block=3, finish=2, slices=7)


def toy(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(records) % 2
    x = 0.25 + 0.4 * y[:, None] + shift + 0.05 * np.random.default_rng(seed).standard_normal((records, 2))
    return np.clip(x, 0.0, 1.0), y


def adapter(settings: AdaptationConfig, **more: Any) -> DomainAdapter:
    return DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=3, **more)


def opened(ledger: Ledger | None = None, budget: float = 5.0) -> Vault:
    return Vault(toy(60, 0.1)[0], clip=1.0, adjacency="replace-one", ledger=ledger, budget=(budget, 1e-5))


@pytest.mark.parametrize(
    ("settings", "event", "standing"),
    [
        (DANN, lambda s: Repeated(Sampled(Gaussian(s, 2.0, ONE), FixedSize(8, 60)), 6), "proven"),
        (
            PUBLISHED,
            lambda s: Repeated(Sampled(Projection(50, 7, s, 1.0, ONE, "independent"), FixedSize(8, 60)), 6),
            "unproven",
        ),
    ],
    ids=["dp-dann", "published"],
)
def test_the_guarantee_is_that_of_the_events_that_ran(
    settings: AdaptationConfig, event: Callable[[float], Any], standing: str
) -> None:
    vault = opened()
    made = adapter(settings, allow_unproven=True).fit(vault, toy(40))
    assert made.guarantee_ is not None
    assert made.design_.sigma is not None
    assert made.guarantee_.epsilon() == pytest.approx(account(event(made.design_.sigma), 1e-5).epsilon(), rel=1e-9)
    assert 4.9 < made.guarantee_.epsilon() <= 5.0
    assert (made.guarantee_.standing, made.charged_) == (standing, 2)
    # all of the budget is gone: nothing of the same kind is left to buy
    with pytest.raises(BudgetError):
        adapter(settings, allow_unproven=True).fit(vault, toy(40))


def test_defaults_are_few_steps_of_small_samples() -> None:
    found: Any = choose("dp-dann", True, 2000)
    assert (found.blocks, found.releases_per_block, found.sample, found.clip) == (10, 50, 128, 1.0)
    found = choose("published", False, 40)
    assert (found.blocks, found.releases_per_block, found.sample, found.slices) == (4, 20, 10, 100)
    assert found.frame == "independent"


def test_what_no_theorem_covers_is_refused_before_it_is_designed(tmp_path: Path) -> None:
    vault = opened()
    with pytest.raises(UnprovenError, match="published has no privacy proof"):
        adapter(PUBLISHED).fit(vault, toy(40), folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for name in ("source", "target"):
        x, y = toy(40)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    words = ["adapt", str(tmp_path / "source.npz"), str(tmp_path / "target.npz"), "--method", "published", "--out"]
    terms = "--epsilon 5 --delta 1e-5 --range 0,1 --device cpu --set warmup=2 --set blocks=1".split()
    assert run([*words, str(tmp_path / "out"), *terms]) == 5
    assert not (tmp_path / "target.npz.ledger").exists()
    assert run([*words, str(tmp_path / "out"), *terms, "--allow-unproven"]) == 0
    # and the folder is read by the same package
    loaded = DomainAdapter.load(tmp_path / "out")
    assert loaded.guarantee_ is not None
    assert (loaded.guarantee_.standing, loaded.design_.settings.name) == ("unproven", "published")


def test_the_gradient_as_published_needs_an_explicit_permission_and_stands_unproven() -> None:
    networks = build(PLAIN, 1)
    mechanism = PublishedAlignment(FrozenRepresentation(networks, "cpu"), 4, 1.0, 60)
    vault = opened(budget=1e4)
    with pytest.raises(UnprovenError):
        vault.stream(mechanism, purpose="a test")
    stream = vault.stream(mechanism, purpose="a test", allow_unproven=True)
    assert stream.guarantee.standing == "unproven"
    answer: Any = stream.answer(AlignmentQuery(weights_of(networks.g), torch.rand(60, 2)))
    assert set(answer.value) == {name for name, _ in networks.g.named_parameters()}


@pytest.mark.filterwarnings("error")
def test_a_record_beyond_single_precision_is_not_told_by_a_warning() -> None:
    networks, records = build(PLAIN, 1), toy(30)[0]
    records[3] = [1e300, -1e300]
    vault = Vault(records, clip=1.0, adjacency="replace-one", budget=(1e4, 1e-5))
    mechanism = PublishedAlignment(FrozenRepresentation(networks, "cpu"), 3, 1.0, 30)
    stream = vault.stream(mechanism, purpose="a test", allow_unproven=True)
    stream.answer(partial(AlignmentQuery, source=torch.rand(30, 2))(weights_of(networks.g)))


def test_per_record_gradients_of_the_discriminator_are_those_of_each_record_alone() -> None:
    judged = Judged(build({**PLAIN, "columns": 3}, 1).double().g, discriminator(50, "features", 1).double())
    gradients = DomainGradients(judged)
    rows = np.random.default_rng(0).uniform(size=(4, 3))
    each = np.asarray(gradients.each(gradients.weights(), rows, np.zeros(4, dtype=np.int64)))
    for row, found in zip(rows, each, strict=True):
        judged.zero_grad()
        domain_loss(judged(torch.as_tensor(row[None])), source=False).backward()
        alone = torch.cat([p.grad.reshape(-1) for p in judged.parameters() if p.grad is not None])
        np.testing.assert_allclose(found, alone.numpy(), atol=1e-12)


class Killed(BaseException):
    """Stands for a power cut."""


def kill(*_: object) -> None:
    raise Killed


def spent(book: Ledger) -> Callable[[str], int]:
    return lambda mark: sum(mark in entry.purpose for entry in book.entries())


@pytest.mark.parametrize(("settings", "standing"), [(DANN, "proven"), (PUBLISHED, "unproven")])
def test_a_job_that_lost_every_block_still_states_what_was_charged(
    tmp_path: Path, settings: AdaptationConfig, standing: str
) -> None:
    book, folder = Ledger.create(tmp_path / "book.ledger"), tmp_path / "out"
    vault, made = opened(book), partial(adapter, settings, allow_unproven=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "run_block", kill)
        for _ in range(2):
            with pytest.raises(Killed):
                made().fit(vault, toy(40), folder=folder)
    ended = made().fit(vault, toy(40), folder=folder)
    assert (ended.charged_, ended.lost_, len(book.entries())) == (2, 2, 2)
    assert ended.guarantee_ is not None
    assert ended.guarantee_.standing == standing
    assert 4.9 < ended.guarantee_.epsilon() <= 5.0
    ended.save(folder)
    assert "No private record was looked at" not in write_report(folder).read_text()


def test_the_one_release_of_an_unproven_block_that_was_kept_is_used_after_a_kill(tmp_path: Path) -> None:
    book, settings = Ledger.create(tmp_path / "book.ledger"), replace(PUBLISHED, releases_per_block=1)
    vault, made = opened(book), partial(adapter, settings, allow_unproven=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot_lab.baselines.published_dp_swd.PublishedLearner.learn", kill)
        with pytest.raises(Killed):
            made().fit(vault, toy(40), folder=tmp_path / "out")
    job = Job.open(tmp_path / "out")
    ended = made().run(Run(job, lambda: vault, spent(book), book.identity), toy(40))
    assert (ended.charged_, ended.lost_, len(book.entries())) == (2, 0, 2)


def mixing_networks(columns: int, shape: object, classes: int) -> tuple[nn.Module, nn.Module]:
    # batch statistics, also in evaluation mode
    norm = nn.BatchNorm1d(3, track_running_stats=False)
    return nn.Sequential(nn.Linear(columns, 3), norm), nn.Linear(3, classes)


class Drawing(nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(rows, 0.5, training=True)


def drawing_networks(columns: int, shape: object, classes: int) -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(nn.Linear(columns, 3), Drawing()), nn.Linear(3, classes)


@pytest.mark.parametrize("made", ["mixing", "drawing"])
def test_networks_whose_gradients_are_not_one_records_are_refused_unpaid(made: str, tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book.ledger")
    with pytest.raises(UsageError, match="group" if made == "mixing" else "one per record"):
        adapter(DANN, network=f"{__name__}:{made}_networks").fit(opened(book), toy(40))
    assert not book.entries()


@pytest.mark.parametrize("settings", [DANN, PUBLISHED])
def test_a_unit_and_a_request_are_refused_unpaid(settings: AdaptationConfig) -> None:
    held = Vault(
        toy(60)[0],
        clip=1.0,
        adjacency="add-remove",
        budget=(5.0, 1e-5),
        units=np.arange(60) % 20,
        unit=Unit("child", 3),
    )
    made = adapter(settings, allow_unproven=True)
    with pytest.raises(UsageError, match="one child, at most 3 rows"):
        made.fit(held, toy(40))
    with pytest.raises(UsageError, match="one mean embedding"):
        AdaptationRequest.of(made.design(opened().facts, toy(40), by_request=True))
    # a sample is of records that there are
    with pytest.raises(UsageError, match="A sample of 100 cannot be drawn from 60"):
        adapter(replace(settings, sample=100), allow_unproven=True).design(opened().facts, toy(40))


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("settings", [DANN, PUBLISHED])
def test_both_run_to_their_end_on_a_gpu(settings: AdaptationConfig) -> None:
    x, y = np.random.default_rng(0).uniform(size=(80, 256)), np.arange(80) % 2
    vault = Vault(x[:60], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    made = DomainAdapter(
        5.0, 1e-5, method=replace(settings, sample=16), kind=Images((16, 16)), device="cuda", seed=1,
        allow_unproven=True,
    ).fit(vault, (x, y))  # fmt: skip
    assert made.guarantee_ is not None
    assert made.guarantee_.epsilon() <= 5.0 * (1 + 1e-9)
    assert made.predict(x).shape == (80,)


@pytest.mark.slow
def test_neighbours_cannot_be_told_apart_by_dp_dann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "tests" / "game"))
    from neighbour_game import play
    from played_jobs import RANGE, adapt, pair, settings

    result = play(adapt("dp-dann", pair, *RANGE, "--method", "dp-dann", *settings(warmup=3)), tmp_path)
    assert result.held, result.line()
