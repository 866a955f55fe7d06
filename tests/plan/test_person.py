"""What somebody with several records is promised: closed forms where there are some, and never less than the truth."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from privot.accounting import Composed, Gaussian, Laplace, Poisson, Repeated, Sampled, account, projection
from privot.guarantee import Adjacency
from privot.plan.person import _chained, epsilon_of_person

ADD = Adjacency.ADD_REMOVE


def gaussian_delta(epsilon: float, shift: float) -> float:
    """δ of a Gaussian whose mean moves by `shift` standard deviations (Balle & Wang 2018)."""
    a, b = norm.cdf(shift / 2 - epsilon / shift), norm.cdf(-shift / 2 - epsilon / shift)
    return float(a - math.exp(epsilon) * b)


@pytest.mark.parametrize("records", [1, 2, 5])
def test_gaussian_noise_has_its_closed_form(records: int) -> None:
    event = Gaussian(3.0, 1.0, ADD)
    found = epsilon_of_person(event, account(event, 1e-6), records)
    assert gaussian_delta(found, records / 3.0) == pytest.approx(1e-6, rel=1e-3)


def test_composed_gaussians_are_one_gaussian() -> None:
    event = Composed((Gaussian(3.0, 1.0, ADD), Repeated(Gaussian(5.0, 2.0, ADD), 4)))
    shift = 3 * math.sqrt((1 / 3.0) ** 2 + 4 * (2 / 5.0) ** 2)
    found = epsilon_of_person(event, account(event, 1e-6), 3)
    assert gaussian_delta(found, shift) == pytest.approx(1e-6, rel=1e-2)


def test_the_chain_of_pure_privacy_is_k_times_epsilon() -> None:
    event = Laplace(2.0, 1.0, ADD)
    # a δ so small that it buys nothing
    assert epsilon_of_person(event, account(event, 1e-12), 4) == pytest.approx(4 * 0.5, rel=1e-3)
    assert _chained(account(event, 1e-12), 4) == pytest.approx(4 * 0.5, rel=1e-2)


@pytest.mark.parametrize("records", [2, 3, 10])
def test_the_chain_is_an_upper_bound_and_not_absurd(records: int) -> None:
    """Of an unsampled Gaussian the truth is known, and the chain may not lie below it."""
    guarantee = account(Gaussian(20.0, 1.0, ADD), 1e-6)
    exact = epsilon_of_person(Gaussian(20.0, 1.0, ADD), guarantee, records)
    chained = _chained(guarantee, records)
    assert exact <= chained <= 4.0 * exact
    assert chained >= records * 0.9 * guarantee.epsilon()


@pytest.mark.slow
def test_sampled_steps_and_projections_are_chained() -> None:
    event = Repeated(Sampled(Gaussian(2.0, 1.0, ADD), Poisson(0.01)), 100)
    guarantee = account(event, 1e-6)
    two, three = (epsilon_of_person(event, guarantee, k) for k in (2, 3))
    assert guarantee.epsilon() * 2 < two < three
    # removing two records from a full batch, all steps, is worse than what sampling leaves
    assert two < epsilon_of_person(Repeated(Gaussian(2.0, 1.0, ADD), 100), account(event, 1e-6), 2)
    plan = projection(8, 4, adjacency="replace-one", delta=1e-6, epsilon=1.0)
    assert epsilon_of_person(plan.event, plan.guarantee, 2) > 2.0


def test_what_cannot_be_bounded_is_infinite() -> None:
    event = Sampled(Gaussian(0.05, 1.0, ADD), Poisson(0.5))
    assert epsilon_of_person(event, account(event, 1e-6), 50) == math.inf
