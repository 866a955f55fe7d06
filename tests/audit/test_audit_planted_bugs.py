"""Every planted fault is detected, and the same attack does not refute the correct mechanism.

A refutation here means: at 95 %, and again on fresh trials at 99.9 %. The noise is fresh in every run of these tests;
the numbers of runs are such that a fault is missed with a chance of about 1e-6 at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from broken import (
    ExactClasses,
    ExactCounts,
    LargestIsOne,
    Quiet,
    QuietInside,
    QuietSketch,
    Repeating,
    Shuffled,
    TwoSided,
    Unclipped,
)

from privot.accounting import account
from privot.accounting.events import Gaussian, Sampled
from privot.accounting.sampling import FixedSize, Poisson
from privot.audit import audit
from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
from privot.audit.attacks.embedding_attack import EmbeddingAttack
from privot.audit.attacks.learned_attack import LearnedAttack
from privot.audit.attacks.projection_attack import ProjectionAttack
from privot.audit.attacks.sketch_attack import SketchAttack
from privot.audit.attacks.stated_claim import StatedClaim, wasserstein_claim
from privot.audit.findings import Claim, Finding
from privot.audit.simulation.neighbours import Neighbour
from privot.guarantee import Adjacency
from privot.mechanisms import RandomProjection
from privot.mechanisms.mechanism import Facts

pytestmark = pytest.mark.statistical

DELTA = 1e-5


def runs(attack: Any, count: int) -> Finding:
    """Runs of the mechanism alone."""
    return audit(attack, runs=count, trials=0)


def cores(attack: Any, count: int = 20_000) -> Finding:
    """Simulated trials."""
    return audit(attack, runs=0, trials=count)


class RatioOfProjection(ProjectionAttack):
    """Scores by the likelihood ratio alone: no runs are spent on learning a score, so half of them are judged."""

    def real(self, present: bool, trials: int) -> np.ndarray:
        return super().real(present, trials)[:, 0]


class RatioOfSketch(SketchAttack):
    """The same for a sketch."""

    def real(self, present: bool, trials: int) -> np.ndarray:
        return super().real(present, trials)[:, 0]


RUNS_OF_A_RATIO = 1700
"""Runs that tell 0.7 σ from σ at a claimed shift of 3, where the fewest runs do.

The scores are N(0, 1) and N(3/0.7, 1). A threshold is chosen on 850 runs per data set; given it, the judgement is two
binomial counts among the other 850. The mean chance of missing over 1500 simulated thresholds is 8e-8, nearly all of it
in the second set of trials, at 99.9 %. A learned score takes half of the runs for itself and needs twice as many.
"""


@pytest.mark.parametrize("attack", [
    ProjectionAttack(4, 4, 0.5, DELTA),
    DPSGDAttack(1.0, DELTA, Poisson(1.0)),
    EmbeddingAttack(1.0, DELTA, Adjacency.ADD_REMOVE),
    SketchAttack(2.0, DELTA, Adjacency.ADD_REMOVE),
], ids=lambda a: a.name)  # fmt: skip
def test_noise_of_seven_tenths_is_detected(attack: Any) -> None:
    assert cores(replace(attack, noise=Quiet())).refuted
    assert not cores(attack).refuted


def test_noise_of_seven_tenths_inside_a_mechanism_is_detected() -> None:
    attack = RatioOfProjection(4, 4, 1 / 3, DELTA)
    assert runs(replace(attack, make=QuietInside), RUNS_OF_A_RATIO).refuted
    assert cores(replace(attack, make=QuietInside)).refuted  # σ is read off what the code asks for
    assert not runs(attack, 300).refuted


def test_missing_clipping_is_detected() -> None:
    attack = DPSGDAttack(1.0, DELTA, Poisson(1.0))
    found = runs(replace(attack, make=Unclipped), 300)
    assert found.refuted
    assert found.epsilon() > 2.0
    assert not runs(attack, 300).refuted
    # simulated trials see it as well: the gap is read off the code, not off the claim
    assert cores(replace(attack, make=Unclipped)).refuted


def test_normalisation_by_the_largest_of_the_batch_is_detected() -> None:
    """The changed record's own row stays within its bound; the others give it away."""
    attack = ProjectionAttack(4, 4, 1.0, DELTA, records=100)
    assert runs(replace(attack, make=LargestIsOne), 400).refuted
    assert not runs(attack, 400).refuted


def test_a_shuffled_epoch_counted_as_poisson_is_detected() -> None:
    attack = DPSGDAttack(0.42, DELTA, Poisson(0.25), records=40, steps=4, opposite=True)
    assert runs(replace(attack, make=Shuffled), 500).refuted
    assert not runs(attack, 200).refuted


def test_a_gradient_through_the_private_side_is_detected() -> None:
    without, with_ = np.zeros((4, 3)), np.zeros((4, 3))
    without[:, 0] = with_[:, 0] = 0.5
    with_[0] = [0.0, 0.5, 0.0]
    event = RandomProjection(3, 2.0).event(Facts(3, 4, 0.5, Adjacency.REPLACE_ONE))
    claim = Claim.of(account(event, DELTA))
    broken = LearnedAttack("two-sided", TwoSided(3, 2.0), Neighbour(without), Neighbour(with_), claim, 0.5)
    assert runs(broken, 250).refuted
    # one-sided: a public gradient of the noisy projections, 2·Uᵀ-images of them, is post-processing
    assert not runs(replace(broken, mechanism=RandomProjection(3, 2.0)), 400).refuted


def test_reused_noise_is_detected() -> None:
    attack = DPSGDAttack(2.0, DELTA, Poisson(0.5), steps=3)
    assert runs(replace(attack, noise=Repeating()), 300).refuted
    assert not runs(attack, 300).refuted


def test_class_counts_without_noise_are_detected() -> None:
    attack = EmbeddingAttack(2.0, DELTA, Adjacency.ADD_REMOVE, labels=True)
    assert runs(replace(attack, make=ExactCounts), 250).refuted
    assert not runs(attack, 400).refuted


@pytest.mark.parametrize(("adjacency", "relabelled"), [
    (Adjacency.ADD_REMOVE, False), (Adjacency.REPLACE_ONE, True),
], ids=str)  # fmt: skip
def test_class_counts_of_a_sketch_without_noise_are_detected(adjacency: Adjacency, relabelled: bool) -> None:
    attack = SketchAttack(8.0, DELTA, adjacency, classes=2, relabelled=relabelled)
    assert runs(replace(attack, make=ExactClasses), 250).refuted
    assert not runs(attack, 400).refuted


def test_a_sketch_with_noise_of_seven_tenths_is_detected(whole_run: bool) -> None:
    attack = RatioOfSketch(1.144, DELTA, Adjacency.REPLACE_ONE)
    assert attack.claim.shift == pytest.approx(3.0, rel=1e-3)
    assert cores(replace(attack, make=QuietSketch)).refuted
    assert not runs(attack, 300).refuted
    # in the gate, runs find it inside a projection
    assert not whole_run or runs(replace(attack, make=QuietSketch), RUNS_OF_A_RATIO).refuted


@pytest.mark.parametrize(("sampling", "adjacency"), [
    (Poisson(0.1), Adjacency.ADD_REMOVE), (FixedSize(2, 20), Adjacency.REPLACE_ONE),
], ids=str)  # fmt: skip
def test_the_claim_of_the_wasserstein_accountant_is_refuted(sampling: Any, adjacency: Adjacency) -> None:
    """At the published σ = 0.01·C, μ = 16, β = 32: ten steps, and a record that took part shows at once."""
    attack = DPSGDAttack(0.01, DELTA, sampling, records=20, steps=10)
    event = Sampled(Gaussian(0.01, adjacency.sensitivity(1.0), adjacency), sampling)
    claim = wasserstein_claim(event, 10, DELTA)
    found = cores(StatedClaim(attack, claim, "Wasserstein accountant"))
    assert found.refuted
    assert claim.epsilon() < 6.0 < found.epsilon()
    assert not cores(attack).refuted
