"""Audits at δ = 0: of one's own Laplace mechanism, and of what a pure guarantee says happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privot.accounting import Gaussian, Laplace, Repeated, account
from privot.audit import audit
from privot.audit.attacks.event_attack import EventAttack
from privot.audit.statistics.epsilon_bounds import epsilons
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts, Needs
from weaker_noise import WeakerNoise

A = Adjacency.ADD_REMOVE
FACTS = Facts(dim=1, records=None, clip=1.0, adjacency=A)


class LaplaceCount:
    """How many records there are, with Laplace noise of `scale`, where `claimed` is stated."""

    needs, steps, seed, standing = Needs(), 1, None, Standing.PROVEN

    def __init__(self, scale: float, claimed: float) -> None:
        self.scale, self.claimed = scale, claimed

    def event(self, facts: Facts) -> Laplace:
        return Laplace(self.claimed, 1.0, facts.adjacency)

    def run(self, records: Any, noise: Any, event: Any, step: int) -> tuple[np.ndarray, dict[str, Any]]:
        z = noise.normal((4,), 1.0) ** 2
        return np.array([records.count + self.scale * 0.5 * (z[0] + z[1] - z[2] - z[3])]), {}


@pytest.mark.statistical
def test_a_laplace_mechanism_is_measured_at_delta_zero() -> None:
    honest = audit(LaplaceCount(1.0, 1.0), FACTS, delta=0.0, runs=4000)
    assert honest.claim.delta == 0.0
    assert honest.claim.epsilon() == pytest.approx(1.0)
    assert not honest.refuted
    assert 0.6 < honest.epsilon() <= 1.0
    # ε = 2.5, which 1500 runs tell from 1
    weak = audit(LaplaceCount(0.4, 1.0), FACTS, delta=0.0, runs=1500)
    assert weak.refuted
    assert weak.epsilon() > 1.0


def test_gaussian_noise_has_no_claim_at_delta_zero() -> None:
    class Sum(LaplaceCount):
        def event(self, facts: Facts) -> Any:
            return Gaussian(1.0, 1.0, facts.adjacency)

    with pytest.raises(UsageError, match="At δ = 0 nothing is promised"):
        audit(Sum(1.0, 1.0), FACTS, delta=0.0, runs=100)


@pytest.mark.statistical
def test_the_events_of_a_pure_guarantee_are_simulated() -> None:
    guarantee = account(Repeated(Laplace(4.0, 1.0, A), 4), 0.0)
    found = audit(EventAttack(guarantee), runs=0, trials=200_000)
    assert not found.refuted
    assert 0.8 < found.epsilon() <= guarantee.epsilon() == pytest.approx(1.0)
    # normals of ⅔ the deviation make Laplace noise of 4/9 the scale
    assert audit(EventAttack(guarantee, WeakerNoise(2 / 3)), runs=0, trials=50_000).refuted


def test_bounds_at_delta_zero_are_logarithms_of_rates() -> None:
    assert float(epsilons(0.6, 0.2, 0.0)) == pytest.approx(np.log(3.0))
    assert float(epsilons(0.9, 0.8, 0.0)) == pytest.approx(np.log(2.0))
