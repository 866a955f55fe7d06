"""Lower bounds: exact where a closed form exists, valid under simulation, and close to the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from privot.accounting import Gaussian, account
from privot.accounting.laws import gaussian
from privot.audit.attack import refutation
from privot.audit.findings import Claim, Finding
from privot.audit.statistics.discriminants import learned_scores
from privot.audit.statistics.epsilon_bounds import (
    Rates,
    check_confidence,
    epsilons,
    ideal_rates,
    one_run_epsilon,
    one_run_p_value,
    rate_above,
    rate_below,
    shift_epsilon,
)
from privot.audit.statistics.estimates import Measured, measure
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing, TabulatedCurve


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 50_000), (49_990, 50_000)])
def test_rates_are_clopper_and_pearsons(hits: int, trials: int) -> None:
    exact = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    assert float(rate_below(hits, trials, 0.025)) == pytest.approx(exact.low, abs=1e-12)
    assert float(rate_above(hits, trials, 0.025)) == pytest.approx(exact.high, abs=1e-12)


def test_both_rates_of_a_test_share_the_error() -> None:
    rates = Rates.of(70, 100, 20, 100, 0.95)
    assert rates.true == pytest.approx(stats.binomtest(70, 100).proportion_ci(0.95, method="exact").low)
    assert rates.false == pytest.approx(stats.binomtest(20, 100).proportion_ci(0.95, method="exact").high)


def test_trials_that_choose_the_threshold_are_not_counted() -> None:
    """The first halves are far apart, the second ones alike: nothing may be found."""
    generator = np.random.default_rng(7)
    alike = generator.standard_normal((2, 500))
    far = generator.standard_normal((2, 500)) + np.array([[-50.0], [50.0]])
    found = measure(np.concatenate([far[0], alike[0]]), np.concatenate([far[1], alike[1]]), 1e-5, 0.99)
    assert found.epsilon == found.shift == 0.0
    assert found.trials == 2000
    rows = [np.concatenate([f, a])[:, None] for f, a in zip(far, alike, strict=True)]
    assert measure(*learned_scores(*rows), 1e-5, 0.99).epsilon == 0.0
    assert [len(scores) for scores in learned_scores(*rows)] == [500, 500]


def test_perfect_knowledge_of_rates_gives_the_exact_epsilon_of_randomised_response() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        right = math.exp(epsilon) / (1.0 + math.exp(epsilon))
        assert Rates(right, 1.0 - right).epsilon(1e-12) == pytest.approx(epsilon, rel=1e-9)


def test_perfect_knowledge_of_rates_gives_the_shift_of_a_gaussian_and_touches_its_curve() -> None:
    curve = account(Gaussian(1.0, 1.3, Adjacency.ADD_REMOVE), 1e-5).curve
    below, above = (account(Gaussian(1.0, s, Adjacency.ADD_REMOVE), 1e-5).curve for s in (1.3 * 0.99, 1.3 * 1.01))
    for threshold in (-1.0, 0.65, 2.0, 3.5):
        p, q = ideal_rates(1.3, threshold)
        rates = Rates(float(p), float(q))
        assert rates.shift() == pytest.approx(1.3, rel=1e-9)
        assert rates.refute(below)
        assert not rates.refute(curve)
        assert not rates.refute(above)
        # no single test reaches ε at a given δ, and the best one comes close to it at a δ of its own
        assert rates.epsilon(1e-5) < gaussian.epsilon(1.3, 1e-5)
    assert shift_epsilon(1.3, 1e-5) == pytest.approx(account(Gaussian(1.0, 1.3, Adjacency.ADD_REMOVE), 1e-5).epsilon())


@pytest.mark.slow
def test_bounds_on_a_gaussian_hold_at_their_confidence_and_are_nearly_tight() -> None:
    generator = np.random.default_rng(1)
    delta, true = 0.05, gaussian.epsilon(1.0, 0.05)
    found = [
        measure(generator.standard_normal(2000), 1.0 + generator.standard_normal(2000), delta, 0.9) for _ in range(400)
    ]
    assert np.mean([m.epsilon > true or m.shift > 1.0 for m in found]) < 0.1 + 3 * math.sqrt(0.09 / 400)
    assert np.mean([m.shift for m in found]) > 0.75
    many = measure(generator.standard_normal(10**6), 1.0 + generator.standard_normal(10**6), 1e-5, 0.95)
    assert 0.98 < many.shift < 1.0
    assert 0.65 * gaussian.epsilon(1.0, 1e-5) < many.epsilon < gaussian.epsilon(1.0, 1e-5)


def test_choosing_and_judging_on_the_same_trials_would_give_false_refutations() -> None:
    """Equal laws: bounds that have to be wrong at about 1 % (both rates at their ends) are wrong several times that."""
    generator = np.random.default_rng(2)

    def dishonest(zeros: np.ndarray, ones: np.ndarray) -> float:
        cuts = np.concatenate([zeros, ones])
        hits, alarms = (ones[:, None] >= cuts).sum(0), (zeros[:, None] >= cuts).sum(0)
        return float(epsilons(rate_below(hits, 60, 0.05), rate_above(alarms, 60, 0.05), 1e-9).max())

    pairs = [generator.standard_normal((2, 60)) for _ in range(400)]
    assert np.mean([measure(a, b, 1e-9, 0.9).epsilon > 0.0 for a, b in pairs]) < 0.02
    assert np.mean([dishonest(a, b) > 0.0 for a, b in pairs]) > 0.05


@pytest.mark.slow
def test_one_run_bounds_randomised_response_validly_and_tightly() -> None:
    generator = np.random.default_rng(3)
    epsilon, canaries = 1.5, 1000
    right = generator.binomial(canaries, 1.0 / (1.0 + math.exp(-epsilon)), size=150)
    found = np.array([one_run_epsilon(canaries, canaries, int(v), 1e-12, 0.95) for v in right])
    assert np.mean(found > epsilon) < 0.05 + 3 * math.sqrt(0.0475 / 150)
    assert np.mean(found) > 0.85 * epsilon


def test_one_run_with_delta_is_the_published_sum() -> None:
    """Against the formula written out with SciPy's binomial."""
    for m, r, v, epsilon, delta in ((100, 80, 60, 0.5, 1e-3), (1000, 100, 99, 2.0, 1e-5), (10, 5, 1, 0.1, 0.01)):
        law = stats.binom(r, 1.0 / (1.0 + math.exp(-epsilon)))
        worst = max(sum(law.pmf(v - j) for j in range(1, i + 1)) / i for i in range(1, v + 1))
        wanted = min(1.0, law.sf(v - 1) + 2 * m * delta * worst)
        assert one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(wanted, rel=1e-9)
    assert one_run_p_value(10, 5, 0, 1.0, 1e-5) == 1.0
    with pytest.raises(UsageError, match="Expected right ≤ guesses ≤ canaries"):
        one_run_p_value(10, 11, 5, 1.0, 1e-5)


def test_one_run_survives_a_mechanism_that_fails_with_probability_delta() -> None:
    """With probability δ everything is shown: a bound that forgot δ would be wrong that often."""
    epsilon, delta, canaries = 1.0, 0.02, 50
    generator = np.random.default_rng(4)
    right = np.where(
        generator.random(600) < delta,
        canaries,
        generator.binomial(canaries, 1.0 / (1.0 + math.exp(-epsilon)), size=600),
    )
    wrong = np.mean([one_run_epsilon(canaries, canaries, int(v), delta, 0.95) > epsilon for v in right])
    assert wrong < 0.05 + 3 * math.sqrt(0.0475 / 600)


def test_learned_scores_find_the_one_column_that_has_no_noise() -> None:
    generator = np.random.default_rng(5)
    zeros, ones = generator.standard_normal((2, 2000, 6))
    zeros[:, 3], ones[:, 3] = 10.0, 10.001
    assert measure(*learned_scores(zeros, ones), 1e-5, 0.95).epsilon > 3.0
    # and find nothing where there is nothing
    zeros, ones = generator.standard_normal((2, 2000, 6))
    assert measure(*learned_scores(zeros, ones), 1e-5, 0.999).epsilon == 0.0


def test_learned_scores_find_a_difference_of_columns_under_common_noise() -> None:
    generator = np.random.default_rng(6)
    common = generator.standard_normal((2, 4000, 1))
    zeros, ones = common[0] + np.array([0.0, 0.0]), common[1] + np.array([1.0, 0.5])
    assert measure(*learned_scores(zeros, ones), 1e-5, 0.95).epsilon > 4.0


def test_curves_from_files_are_refuted_like_computed_ones() -> None:
    claimed = account(Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE), 1e-5).to_dict()["curve"]
    table = TabulatedCurve(tuple((p["delta"], p["epsilon"]) for p in claimed))
    p, q = ideal_rates(1.3, 1.0)
    assert Rates(float(p), float(q)).refute(table)
    p, q = ideal_rates(1.0, 1.0)
    assert not Rates(float(p), float(q)).refute(table)


def test_arguments_are_checked() -> None:
    for confidence in (0.0, 1.0, float("nan")):
        with pytest.raises(UsageError, match="confidence"):
            check_confidence(confidence)
    with pytest.raises(UsageError, match="at least 20 trials"):
        measure(np.zeros(3), np.zeros(3), 1e-5, 0.95)
    with pytest.raises(UsageError, match="each with a score"):
        measure(np.full(30, np.nan), np.zeros(30), 1e-5, 0.95)


def test_a_refuted_claim_is_said_to_be_broken_where_it_is() -> None:
    """Three times the sensitivity, few trials: nothing at the claim's δ exceeds its ε, but its curve is broken."""
    claim = Claim.of(account(Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE), 1e-5))
    rates = Rates(0.9, 0.1)
    seen = Measured(rates.epsilon(1e-5), rates.shift(), rates, rates, 1e-5, 0.95, 100)
    assert seen.epsilon < claim.epsilon()
    assert claim.curve is not None
    epsilon, claimed, shown = rates.broken_at(claim.curve)  # type: ignore[misc]
    assert claimed == pytest.approx(claim.curve.delta(epsilon))
    assert shown == pytest.approx(0.9 - math.exp(epsilon) * 0.1)
    assert shown > claimed
    said = f"at ε = {epsilon:.3g}, δ ≤ {claimed:.3g} is claimed and δ ≥ {shown:.3g} was measured"
    assert refutation(seen, claim) == said
    weak = Rates(0.5, 0.4)
    assert weak.broken_at(claim.curve) is None
    assert refutation(Measured(weak.epsilon(1e-5), weak.shift(), weak, weak, 1e-5, 0.95, 100), claim) == ""


def test_epsilon_is_asked_of_claims_and_findings_as_of_guarantees() -> None:
    guarantee = account(Gaussian(2.0, 1.0, Adjacency.ADD_REMOVE), 1e-5)
    claim = Claim.of(guarantee)
    assert claim.epsilon() == claim.epsilon(1e-5) == guarantee.epsilon()
    # its curve was tabulated: at other δ it is a little above, never below
    for delta in (1e-9, 3e-7, 2e-3):
        assert guarantee.epsilon(delta) <= claim.epsilon(delta) <= 1.1 * guarantee.epsilon(delta)
    # of one number alone, what is claimed at δ is at any larger one, and nothing is at a smaller
    number = Claim(1.0, 1e-5, Adjacency.ADD_REMOVE, Standing.PROVEN)
    assert (number.epsilon(), number.epsilon(1e-4), number.epsilon(1e-6)) == (1.0, 1.0, math.inf)
    rates = Rates(0.9, 0.1)
    seen = Measured(rates.epsilon(1e-5), rates.shift(), rates, rates, 1e-5, 0.95, 100)
    found = Finding("a", claim, "", None, seen, False, 0.0)
    assert found.epsilon() == found.epsilon(1e-5) == seen.epsilon > 0.0
    # a lower bound at δ is one at every smaller δ
    assert (found.epsilon(1e-9), found.epsilon(1e-3)) == (seen.epsilon, 0.0)
    assert found.ratio == seen.epsilon / guarantee.epsilon()
    for asked in (claim, found):
        with pytest.raises(UsageError, match="strictly between 0 and 1"):
            asked.epsilon(2.0)
