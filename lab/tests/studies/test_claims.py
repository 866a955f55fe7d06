"""Each refutation fails if the refuted inequality were true; the verdicts follow from what is computed."""

import math

import numpy as np
import pytest

from privot import Adjacency, Standing
from privot.accounting import Gaussian, Poisson, Sampled, WassersteinAccountant
from privot.accounting.wasserstein import published
from privot.accounting.wasserstein.distance import distance, sampled_distance
from privot.accounting.wasserstein.line_laws import LineLaw
from privot.errors import UnprovenError, UsageError
from privot_lab.studies.wdp.wdp_claims import CLAIMS, Verdict, claim
from privot_lab.studies.wdp.wdp_comparison import compare_accountants
from privot_lab.studies.wdp.wdp_counterexamples import Counterexample

AR = Adjacency.ADD_REMOVE
REFUTED = [c for c in CLAIMS if c.verdict is not Verdict.HOLDS]


@pytest.mark.parametrize("one", REFUTED, ids=lambda c: c.key)
def test_the_counterexample_refutes(one):
    assert one.counter is not None
    assert one.counter().refutes
    assert one.standing is Standing.UNPROVEN
    assert one.to_dict()["counterexample"]["actual"] > one.to_dict()["counterexample"]["claimed"]


def test_thirteen_propositions_three_theorems_a_lemma_and_a_corollary():
    keys = {c.key for c in CLAIMS}
    assert {str(n) for n in range(1, 14)} <= keys
    assert {"Theorem 1", "Theorem 2", "Theorem 3", "Lemma 1", "Corollary 1"} <= keys
    holds = {c.key for c in CLAIMS if c.verdict is Verdict.HOLDS}
    assert holds == {"1", "2", "3", "4", "13", "Lemma 1"}
    assert not Counterexample("", 1.0, 1.0, "").refutes


def sorted_distance(mu, first, second, count=400_000):
    """W_μ by matching sorted draws: shares nothing with the exact code."""
    return float(np.mean(np.abs(np.sort(first) - np.sort(second)) ** mu) ** (1 / mu))


@pytest.mark.parametrize(("scale", "mu"), [(1.0, 1.0), (3.0, 1.0), (1.0, 2.0), (5.0, 10.0)])
def test_7_and_8_are_below_what_draws_show(scale, mu):
    generator = np.random.default_rng(1)
    draws = generator.normal(size=200_000) * scale, generator.laplace(size=200_000) * scale
    claimed = (
        published.gaussian(1.0, scale, mu, AR, allow_unproven=True).epsilon,
        published.laplace(1.0, scale, mu, AR, allow_unproven=True).epsilon,
    )
    for noise, bound in zip(draws, claimed, strict=True):
        # the same noise on both sides is the best coupling of a translation; any sample shows at least the mean shift
        assert abs(float(np.mean(noise + 1.0) - np.mean(noise))) > bound
        assert sorted_distance(mu, noise, noise + 1.0) == pytest.approx(1.0)


def test_8_is_a_bound_only_where_the_table_says():
    for mu, shift in [(1.0, 1.0), (2.0, 1.0), (4.0, 0.3)]:
        turn = shift / (2 * shift) ** mu
        below = published.gaussian(shift, turn * 0.99, mu, AR, allow_unproven=True).epsilon
        above = published.gaussian(shift, turn * 1.01, mu, AR, allow_unproven=True).epsilon
        assert below > shift > above


def test_published_formulas_are_as_printed():
    wdp = published.gaussian(2.0, 8.0, 2.0, AR, allow_unproven=True)
    assert (wdp.epsilon, wdp.standing) == (0.25, Standing.UNPROVEN)
    lap = published.laplace(3.0, 0.5, 1.0, AR, allow_unproven=True).epsilon
    assert lap == pytest.approx(1.5 * math.sqrt(2 * (2 + math.exp(-2) - 1)))
    assert published.from_dp(1.0, 1.0, 1.0, AR, allow_unproven=True).epsilon == pytest.approx(
        0.5 * math.sqrt(2 * (math.e - 1))
    )
    assert published.from_rdp(0.5, 4.0, 3.0, AR, allow_unproven=True).epsilon == pytest.approx(2.0)
    assert published.to_dp(wdp, 3.0, allow_unproven=True) == pytest.approx(3 * 0.25 ** (2 / 3))
    assert published.to_rdp(wdp, 3.0, 2.0, allow_unproven=True) == pytest.approx(6 * 0.25 ** (2 / 3))
    assert published.to_zcdp(wdp, 3.0, allow_unproven=True) == pytest.approx(4.5 * 0.25 ** (4 / 3))
    printed = {2.2: 0.898, 0.95: 0.721, 0.76: 0.681, 0.52: 0.627, 0.87: 0.705, 0.40: 0.599, 0.91: 0.713, 0.45: 0.611}
    for epsilon, probability in printed.items():
        # the paper cuts or rounds the third digit
        assert published.attack_probability(epsilon) == pytest.approx(probability, abs=3e-3)


@pytest.mark.parametrize("formula", ["laplace", "gaussian", "from_dp", "from_rdp"])
def test_published_formulas_need_an_opt_in(formula):
    with pytest.raises(UnprovenError):
        getattr(published, formula)(1.0, 1.0, 1.0, AR)
    with pytest.raises(UnprovenError):
        getattr(published, formula)(1.0, 1.0, 1.0, AR, allow_unproven="yes")


def test_published_conversions_refuse_nonsense():
    wdp = published.gaussian(1.0, 1.0, 1.0, AR, allow_unproven=True)
    with pytest.raises(UsageError):
        published.to_rdp(wdp, 1.0, 1.0, allow_unproven=True)
    with pytest.raises(UnprovenError):
        published.to_zcdp(wdp, 1.0)
    with pytest.raises(UsageError):
        published.from_dp(1000.0, 1.0, 1.0, AR, allow_unproven=True)
    with pytest.raises(UsageError):
        published.attack_probability(-1.0)


def test_12_a_map_that_stretches():
    p, q = LineLaw((0.0,), (1.0,), 1.0), LineLaw((1.0,), (1.0,), 1.0)
    hundred = LineLaw((0.0,), (1.0,), 100.0), LineLaw((100.0,), (1.0,), 100.0)
    assert distance(1.0, *hundred) == pytest.approx(100 * distance(1.0, p, q))


def test_theorem_1_by_simulation():
    """Pr[W ≥ ε] for a W that is 0 or 2: the claimed bound is far below the frequency."""
    w = np.random.default_rng(3).integers(0, 2, 10_000) * 2.0
    assert float(np.mean(w >= 1.5)) > 50 * math.exp(10 * (1.0 - 1.5))
    # Jensen the right way round
    assert float(np.mean(np.exp(10 * w))) > math.exp(10 * float(np.mean(w)))


def test_theorem_2_by_simulation():
    generator = np.random.default_rng(5)
    n, q, d, sigma = 400_000, 0.01, 1.0, 1e-3
    noise, mixture = (sigma * generator.normal(size=n) for _ in range(2))
    mixture[: int(q * n)] += d  # exactly the share q, so that sampling does not blur it
    accountant = WassersteinAccountant(mu=2.0, allow_unproven=True)
    accountant.step(Sampled(Gaussian(sigma, d, AR), Poisson(q)))
    measured = sorted_distance(2.0, mixture, noise)
    assert measured > 5 * accountant.loss
    assert measured == pytest.approx(sampled_distance(2.0, q, d, sigma), rel=0.01)


def test_the_accounted_number_grows_with_the_noise():
    accounted = []
    for sigma in (1e-4, 1e-2, 1.0, 100.0):
        accountant = WassersteinAccountant(allow_unproven=True)
        accountant.step(Sampled(Gaussian(sigma, 1.0, AR), Poisson(0.01)), times=10)
        accounted.append(accountant.epsilon(1e-5))
    assert accounted == sorted(accounted)
    assert claim("noise").counter().actual > 100 * claim("noise").counter().claimed


def test_beta_is_free():
    cheap = []
    for beta in (1.0, 32.0, 1e6):
        accountant = WassersteinAccountant(beta=beta, allow_unproven=True)
        accountant.step(Sampled(Gaussian(0.01, 1.0, AR), Poisson(0.01)))
        cheap.append(accountant.epsilon(1e-300) - accountant.loss)
    assert cheap[0] == pytest.approx(690.775, rel=1e-4)
    assert cheap[2] < 1e-3


def test_comparison_shows_the_unproven_only_where_allowed():
    sizes = {"rate": 0.01, "steps": 100, "delta": 1e-5, "smallest": 0.7, "largest": 7.0, "points": 3}
    honest = compare_accountants(**sizes)
    assert [c.name for c in honest.curves] == ["privacy loss", "Rényi", "moments", "Gaussian limit"]
    for c in honest.curves:
        assert list(c.epsilons) == sorted(c.epsilons, reverse=True)
    everyone = {c.name: c for c in compare_accountants(**sizes, allow_unproven=True).curves}
    assert list(everyone["Wasserstein"].epsilons) == sorted(everyone["Wasserstein"].epsilons)
    with pytest.raises(UsageError):
        compare_accountants(**{**sizes, "largest": 0.1})
