"""Our own mechanisms: never measured above what is claimed, and measured close enough for that to mean something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privot.accounting import Composed, Gaussian, Laplace, Repeated, Sampled, account
from privot.accounting.events import Projection
from privot.accounting.laws import gaussian
from privot.accounting.sampling import FixedSize, Poisson
from privot.audit import audit
from privot.audit.attack import refutes
from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
from privot.audit.attacks.embedding_attack import EmbeddingAttack
from privot.audit.attacks.event_attack import EventAttack
from privot.audit.attacks.gradient_attack import GradientAttack
from privot.audit.attacks.one_run import one_run
from privot.audit.attacks.projection_attack import ProjectionAttack
from privot.audit.attacks.sketch_attack import SketchAttack
from privot.audit.findings import Claim, broken
from privot.audit.simulation.direction_capture import captured
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.transport.slice_directions import draw_directions

pytestmark = pytest.mark.statistical

DELTA = 1e-5
ADD, ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE

SINGLE = [
    ProjectionAttack(8, 8, 1.0, DELTA),
    ProjectionAttack(8, 4, 0.7, DELTA),
    ProjectionAttack(8, 4, 1.5, DELTA, frame="independent"),
    DPSGDAttack(1.0, DELTA, Poisson(1.0)),
    DPSGDAttack(2.0, DELTA, FixedSize(4, 4), records=4),
    EmbeddingAttack(2.0, DELTA, ONE),
    EmbeddingAttack(1.0, DELTA, ADD),
    EmbeddingAttack(1.0, DELTA, ADD, labels=True, count_weight=0.9, title="counts"),
    GradientAttack(0.02, DELTA, Poisson(1.0)),
    GradientAttack(0.02, DELTA, FixedSize(12, 12)),
    SketchAttack(2.0, DELTA, ADD),
    SketchAttack(4.0, DELTA, ONE),
    SketchAttack(2.0, DELTA, ADD, classes=3),
    SketchAttack(4.0, DELTA, ONE, classes=3),
    SketchAttack(3.0, DELTA, ONE, public=False),
]


@pytest.mark.parametrize("attack", SINGLE, ids=lambda a: a.name)
def test_single_releases_are_never_refuted_and_nearly_reached(attack: Any) -> None:
    # so sure that a bound above the truth is no accident
    found = audit(attack, runs=60, trials=150_000, confidence=0.9999)
    assert not found.refuted
    assert found.epsilon() <= found.claim.epsilon()
    # few trials and high confidence: `privot audit all` reaches 0.66 and more with two million at 95 %
    assert found.ratio > 0.25
    if found.if_gaussian is not None:
        assert 0.85 * found.claim.epsilon() < found.if_gaussian <= found.claim.epsilon()


@pytest.mark.parametrize("attack", [
    DPSGDAttack(0.7, DELTA, Poisson(0.1), steps=10),
    DPSGDAttack(1.4, DELTA, FixedSize(1, 5), steps=10),
    ProjectionAttack(4, 4, 0.7, DELTA, records=10, batch=1, steps=10),
    GradientAttack(0.02, DELTA, Poisson(0.3), records=12, steps=5),
], ids=lambda a: a.name)  # fmt: skip
def test_composed_samples_are_never_refuted_and_reached_by_two_fifths(attack: Any) -> None:
    found = audit(attack, runs=0, trials=200_000)
    assert not found.refuted
    assert 0.3 < found.ratio <= 1.0


def test_runs_of_a_mechanism_agree_with_its_core(whole_run: bool) -> None:
    """The same law from the whole code and from noise, sampler and gap alone."""
    from scipy.stats import ks_2samp

    runs = 1500 if whole_run else 500
    attack = DPSGDAttack(0.8, DELTA, Poisson(0.4), steps=3)
    for present in (False, True):
        whole, simulated = attack.real(present, runs)[:, 0], attack.simulated(present, 20_000)
        assert simulated is not None
        assert ks_2samp(whole, simulated).pvalue > 1e-4
    attack2 = ProjectionAttack(6, 3, 0.5, DELTA, frame="independent")
    simulated = attack2.simulated(True, 20_000)
    assert simulated is not None
    # without a batch real scores leave out ‖a‖²/2σ², which depends on the directions alone and is public
    assert np.mean(attack2.real(True, runs)[:, 0]) == pytest.approx(np.mean(simulated), rel=0.2)


@pytest.mark.gate(3)
@pytest.mark.parametrize("adjacency", [ADD, ONE])
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("public", [True, False])
def test_the_canary_of_a_sketch_reaches_its_bound_and_stays_within(
    adjacency: Adjacency, classes: int, public: bool
) -> None:
    attack = SketchAttack(2.0, DELTA, adjacency, classes, public=public)
    direction, sigma = attack.change
    bound = attack.design.sensitivity(adjacency)
    assert (1.0 - 2e-6) * bound < np.linalg.norm(direction) < bound
    assert sigma == 2.0
    if classes and adjacency is ONE:
        moved = SketchAttack(2.0, DELTA, adjacency, classes, True, public).change[0]
        # another class: features are √2 apart instead of 2
        less = 2.0 * attack.design.weights["features"] ** 2
        assert np.linalg.norm(moved) == pytest.approx(np.sqrt(bound**2 - less), rel=1e-5)


def test_the_share_that_directions_capture_has_the_law_of_directions() -> None:
    from scipy.stats import ks_2samp

    for orthogonal, frame in ((True, "orthogonal"), (False, "independent")):
        drawn = [float((draw_directions(5, 7, frame, seed)[0] ** 2).sum()) for seed in range(2000)]  # type: ignore[arg-type]
        assert ks_2samp(drawn, captured(20_000, 5, 7, orthogonal)).pvalue > 1e-4


def test_guarantees_are_audited_by_their_events() -> None:
    event = Composed((Gaussian(2.0, 1.0, ONE), Repeated(Sampled(Gaussian(1.0, 1.0, ONE), FixedSize(1, 10)), 4)))
    found = audit(EventAttack(account(event, DELTA)), runs=0, trials=200_000)
    assert not found.refuted
    # few trials and high confidence: `privot audit all` reaches 0.66 and more with two million at 95 %
    assert found.ratio > 0.25
    projection = account(Projection(6, 3, 0.5, 1.0, ONE), DELTA)
    assert audit(EventAttack(projection), runs=0, trials=200_000).ratio > 0.4
    alone = EventAttack(account(Repeated(Gaussian(2.0, 1.0, ADD), 4), DELTA))
    assert alone.claim.shift == pytest.approx(1.0)


@pytest.mark.parametrize("bound", ["bernstein", "clt"])
def test_projections_with_a_published_bound_are_simulated_like_exact_ones(bound: str) -> None:
    # in one dimension every direction catches all of a record: Gaussian noise at a shift of √slices·Δ/σ
    guarantee = account(Projection(1, 4, 2.0, 1.0, ONE, "independent", bound, 1e-6), DELTA)  # type: ignore[arg-type]
    exact = account(Gaussian(2.0, 2.0, ONE), DELTA).epsilon()
    found = audit(EventAttack(guarantee), runs=0, trials=200_000)
    assert not found.refuted
    assert 0.4 * exact < found.epsilon() < exact


def test_a_guarantee_below_the_cost_of_its_events_is_refuted() -> None:
    honest = account(Gaussian(1.0, 1.0, ADD), DELTA)
    attack = EventAttack(honest)
    low = Claim(2.0, DELTA, ADD, honest.standing)
    from privot.audit.attacks.stated_claim import StatedClaim

    assert audit(StatedClaim(attack, low, "too low"), runs=0, trials=200_000).refuted
    assert not audit(attack, runs=0, trials=200_000).refuted


def test_events_that_cannot_be_simulated_are_refused() -> None:
    with pytest.raises(UsageError, match="sampled Laplace event cannot be simulated"):
        audit(EventAttack(account(Sampled(Laplace(1.0, 1.0, ADD), Poisson(0.5)), DELTA)), runs=0, trials=100)
    with pytest.raises(UsageError, match="too many"):
        audit(EventAttack(account(Repeated(Gaussian(100.0, 1.0, ADD), 5000), DELTA)), runs=0, trials=100)
    with pytest.raises(UsageError, match="no mechanism that could be run"):
        audit(EventAttack(account(Gaussian(1.0, 1.0, ADD), DELTA)), runs=50, trials=0)
    with pytest.raises(UsageError, match="needs runs"):
        audit(SINGLE[0], runs=0, trials=0)


def test_one_run_of_dp_sgd_is_below_its_claim_and_above_zero() -> None:
    found = one_run(0.3, DELTA, canaries=600)
    assert 1.0 < found.epsilon() <= found.claim.epsilon()
    assert (found.epsilon(DELTA / 10), found.epsilon(DELTA * 10)) == (found.epsilon(), 0.0)
    assert not found.refuted
    sampled = one_run(0.5, DELTA, rate=0.5, steps=4, canaries=300)
    assert sampled.epsilon() <= sampled.claim.epsilon()
    assert sampled.to_dict()["measured"]["adjacency"] == "add-remove"


def test_one_run_detects_missing_noise() -> None:
    from broken import Quiet

    found = one_run(2.0, DELTA, canaries=600, noise=Quiet(factor=0.05))
    assert found.refuted


def test_a_finding_never_shows_a_number_without_adjacency_and_standing() -> None:
    found = audit(SINGLE[3], runs=40, trials=5000)
    stated = found.to_dict()
    assert stated["claimed"]["adjacency"] == stated["measured"]["adjacency"] == "add-remove"
    assert stated["claimed"]["standing"] == "proven"
    assert stated["measured"]["confidence"] == pytest.approx(0.95)
    assert stated["measured"]["delta"] == DELTA
    assert broken([found]) == []
    assert found.real is not None
    assert not refutes(found.real, found.claim)
    assert gaussian.epsilon(1.0, DELTA) == pytest.approx(found.claim.epsilon())
