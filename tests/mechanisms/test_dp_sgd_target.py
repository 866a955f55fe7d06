"""DP-SGD by a target ε: the noise that is chosen meets the target, hardly any less would, and the vault agrees."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

from privot import Adjacency, Standing, Vault
from privot.accounting import FixedSize, Gaussian, Poisson, Repeated, Sampled, account
from privot.errors import BudgetError, UsageError
from privot.mechanisms import ClippedGradients
from privot.mechanisms.gradients.dp_sgd import default_sampling, sigma_for_target
from privot.mechanisms.gradients.gradient_function import Query

TARGET = {"target_epsilon": 1.0, "target_delta": 1e-5}


class Rows:
    """Gradients that are the rows themselves."""

    def __init__(self, size: int) -> None:
        self.size = size

    def each(self, weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return rows

    def mean(self, weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return rows.mean(axis=0)


def mechanism(**changes: Any) -> ClippedGradients:
    stated = {"clip_norm": 1.0, "sampling": Poisson(0.1), "steps": 20, "adjacency": "add-remove", "labels": False}
    return ClippedGradients.for_target(Rows(2), Query(np.zeros(2)), **{**TARGET, **stated, **changes})


@pytest.mark.parametrize("steps", [1, 7, 100])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("clip_norm", [1e-3, 1.0, 40.0])
def test_without_sampling_it_is_dp_accountings_gaussian(steps: int, epsilon: float, clip_norm: float) -> None:
    sigma = sigma_for_target(
        target_epsilon=epsilon,
        target_delta=1e-5,
        clip_norm=clip_norm,
        sampling=Poisson(1.0),
        steps=steps,
        adjacency="add-remove",
    )
    # T steps of noise σ are one of noise σ/√T
    theirs = dp_accounting.get_epsilon_gaussian(sigma / clip_norm / math.sqrt(steps), 1e-5)
    ours = account(Repeated(Gaussian(sigma, clip_norm, Adjacency.ADD_REMOVE), steps), 1e-5).epsilon()
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert theirs <= epsilon + 1e-9
    exact = dp_accounting.get_sigma_gaussian(epsilon, 1e-5) * clip_norm * math.sqrt(steps)
    assert exact * (1.0 - 1e-9) <= sigma <= exact * (1.0 + 3e-4)


def test_with_poisson_sampling_dp_accounting_agrees_that_the_target_is_met() -> None:
    sigma = sigma_for_target(**TARGET, clip_norm=1.0, sampling=Poisson(0.01), steps=1000, adjacency="add-remove")
    theirs = pld.PLDAccountant(value_discretization_interval=1e-4)
    theirs.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma)), 1000)
    # theirs rounds privacy losses up to its grid
    assert theirs.get_epsilon(1e-5) == pytest.approx(1.0, abs=2e-3)
    less = sigma * (1.0 - 1e-3)
    one = Sampled(Gaussian(less, 1.0, Adjacency.ADD_REMOVE), Poisson(0.01))
    assert account(Repeated(one, 1000), 1e-5).epsilon() > 1.0


@pytest.mark.parametrize(
    ("adjacency", "sampling"),
    [("add-remove", Poisson(0.1)), ("add-remove", Poisson(1.0)), ("replace-one", FixedSize(2, 8))],
)
def test_the_vault_charges_what_was_counted_and_a_budget_of_the_target_covers_it(adjacency: str, sampling: Any) -> None:
    made = mechanism(adjacency=adjacency, sampling=sampling, clip_norm=0.3)
    vault = Vault(np.eye(8)[:, :2], clip=1.0, adjacency=adjacency, budget=(1.0, 1e-5))
    stream = vault.stream(made, purpose="test")
    counted = account(Repeated(made.event(vault.facts), 20), 1e-5).epsilon()
    assert stream.guarantee.epsilon() == pytest.approx(counted, abs=1e-6)
    assert 0.99 < stream.guarantee.epsilon() <= 1.0
    assert stream.guarantee.standing is Standing.PROVEN
    assert len(list(stream)) == 20
    with pytest.raises(BudgetError):
        vault.stream(made, purpose="once more")


def test_two_thirds_of_the_noise_costs_more_than_the_target() -> None:
    made = mechanism()
    one = Sampled(Gaussian(made.sigma * 2 / 3, 1.0, Adjacency.ADD_REMOVE), Poisson(0.1))
    assert account(Repeated(one, 20), 1e-5).epsilon() > 1.3


def test_the_noise_grows_with_the_clipping_norm_and_is_double_under_replace_one() -> None:
    one = mechanism(sampling=Poisson(1.0)).sigma
    assert mechanism(sampling=Poisson(1.0), clip_norm=7.0).sigma == pytest.approx(7.0 * one, rel=1e-12)
    both = mechanism(sampling=FixedSize(8, 8), adjacency="replace-one").sigma
    assert both == pytest.approx(2.0 * one, rel=5e-4)


def test_everything_else_is_kept() -> None:
    made = mechanism(steps=3, clip_norm=0.5, labels=False)
    assert (made.clip_norm, made.sampling, made.steps, made.labels) == (0.5, Poisson(0.1), 3, False)
    assert made.witnesses == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_epsilon": 0.0},
        {"target_epsilon": float("nan")},
        {"target_delta": 1.0},
        {"clip_norm": 0.0},
        {"clip_norm": "1"},
        {"steps": 0},
        {"steps": 2.5},
        {"sampling": 0.1},
        {"adjacency": "unknown"},
    ],
)
def test_wrong_terms_are_refused_in_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        mechanism(**wrong)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_the_default_sampling_is_the_one_that_has_a_theorem() -> None:
    assert default_sampling(Adjacency.ADD_REMOVE, sampling_rate=0.25, records=None) == Poisson(0.25)
    assert default_sampling(Adjacency.REPLACE_ONE, sampling_rate=0.25, records=10) == FixedSize(2, 10)
    with pytest.raises(UsageError, match="public number of records"):
        default_sampling(Adjacency.REPLACE_ONE, sampling_rate=0.25, records=None)
