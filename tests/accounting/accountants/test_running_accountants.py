"""One interface for all accountants; each against closed forms, quadrature, Opacus and dp-accounting."""

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from every_accountant import every_accountant
from privot import Adjacency, Standing
from privot.accounting import (
    BayesianAccountant,
    FixedSize,
    Gaussian,
    GaussianLimitAccountant,
    Laplace,
    MomentsAccountant,
    Poisson,
    PrivacyLossAccountant,
    RenyiAccountant,
    Repeated,
    Sampled,
    WassersteinAccountant,
    gradient,
)
from privot.accounting.accountants.opacus_history import history_event
from privot.accounting.accountants.rdp_accountant import curve
from privot.accounting.accountants.running_accountant import all_pairs, gradient_distances
from privot.accounting.events import Downgraded, Projection
from privot.errors import DataError, NoTheoremError, UnprovenError, UsageError

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
HISTORIES = [
    [(1.0, 0.01, 1000)],
    [(0.8, 0.02, 300), (1.5, 0.05, 200)],
    [(4.0, 0.1, 50)],
]


def step(sigma=1.0, q=0.01, sensitivity=1.0):
    return Sampled(Gaussian(sigma, sensitivity, AR), Poisson(q))


@pytest.mark.gate(each="history")
@pytest.mark.slow
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_renyi_is_opacus_rdp_on_the_same_orders(history, delta):
    from opacus.accountants import RDPAccountant

    theirs = RDPAccountant()
    theirs.history = list(history)
    orders = tuple(sorted({float(a) for a in RDPAccountant.DEFAULT_ALPHAS}))
    ours = RenyiAccountant(orders)
    ours.step(history_event(history))
    assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), abs=1e-6)
    # more orders can only help
    usual = RenyiAccountant()
    usual.step(history_event(history))
    assert usual.epsilon(delta) <= ours.epsilon(delta) + 1e-12


@pytest.mark.parametrize("history", HISTORIES)
def test_renyi_is_dp_accountings_rdp_on_the_same_orders(history):
    import dp_accounting
    from dp_accounting import rdp

    # whole orders: between them dp-accounting takes a chord, where ours (and Opacus') is the integral
    orders = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0, 32.0, 63.0)
    theirs = rdp.RdpAccountant(orders)
    for multiplier, q, times in history:
        sampled = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(multiplier))
        theirs.compose(sampled, times)
    ours = RenyiAccountant(orders)
    ours.step(history_event(history))
    assert ours.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), abs=1e-6)


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize("history", [[(4.0, 0.1, 50)], [(2.0, 0.05, 10)]])
def test_privacy_losses_are_dp_accountings_pld(history):
    import dp_accounting
    from dp_accounting import pld

    theirs = pld.PLDAccountant(value_discretization_interval=1e-5)
    for multiplier, q, times in history:
        sampled = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(multiplier))
        theirs.compose(sampled, times)
    ours = PrivacyLossAccountant(fine=0.03)
    ours.step(history_event(history))
    assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)
    usual = PrivacyLossAccountant()
    usual.step(history_event(history))
    assert ours.epsilon(1e-5) - 1e-9 <= usual.epsilon(1e-5) <= ours.epsilon(1e-5) * 1.0005


def test_privacy_losses_lie_within_opacus_prv():
    from opacus.accountants import PRVAccountant

    theirs = PRVAccountant()
    theirs.history = [(1.0, 0.01, 200)]
    ours = PrivacyLossAccountant(fine=0.1)
    ours.step(history_event(theirs.history))
    # Opacus promises its number to within eps_error only, and answers the upper end
    assert 0.0 <= theirs.get_epsilon(1e-5, eps_error=1e-3) - ours.epsilon(1e-5) <= 2e-3


def test_the_limit_is_opacus_gdp_and_no_bound():
    from opacus.accountants import GaussianAccountant

    theirs = GaussianAccountant()
    theirs.history = [(1.0, 0.01, 1000)]
    ours, proven = GaussianLimitAccountant(), PrivacyLossAccountant()
    for accountant in (ours, proven):
        accountant.step(step(), times=1000)
    assert ours.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)
    assert ours.epsilon(1e-5) < proven.epsilon(1e-5) - 0.1
    assert ours.count(1e-5).standing is Standing.ASYMPTOTIC
    whole = GaussianLimitAccountant()
    whole.step(Gaussian(2.0, 1.0, AR), times=4)
    assert whole.shift() == pytest.approx(1.0)


@pytest.mark.gate(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "q", "sigma"), [(1.1, 0.01, 1.0), (2.5, 0.3, 0.7), (7.3, 1e-4, 3.0), (10.9, 0.02, 0.5)]
)
def test_fractional_orders_are_the_integral(alpha, q, sigma):
    with mpmath.workdps(30):
        s = 1 / mpmath.mpf(sigma)

        def integrand(x):
            return mpmath.npdf(x) * (1 - q + q * mpmath.exp(s * x - s * s / 2)) ** mpmath.mpf(alpha)

        moment = mpmath.quad(integrand, [-20, -5, 0, 5, 10, 15, 20, 30, 45])
        exact = float(mpmath.log(moment) / (alpha - 1))
    assert curve(step(sigma, q), (alpha,))[0] == pytest.approx(exact, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.2, 2.0)])
def test_moments_are_the_published_integrals(q, sigma):
    """α(λ) = ln max(E₁, E₂), both integrated, λ = 1 … 8."""
    powers = (1, 2, 5, 8)
    accountant = MomentsAccountant(powers)
    accountant.step(step(sigma, q), times=3)
    for power, found in zip(powers, accountant.totals()["log_moments"], strict=True):
        with mpmath.workdps(25):
            s = 1 / mpmath.mpf(sigma)

            def ratio(x, s=s):
                return 1 - q + q * mpmath.exp(s * x - s * s / 2)

            edges = [-20, -5, 0, 5, 10, 20, 30]
            e1 = mpmath.quad(lambda x, p=power: mpmath.npdf(x) * ratio(x) ** (-p), edges)
            e2 = mpmath.quad(lambda x, p=power: mpmath.npdf(x) * ratio(x) ** (p + 1), edges)
            assert found == pytest.approx(3 * float(mpmath.log(max(e1, e2))), rel=1e-9)
    assert accountant.epsilon(1e-5) == pytest.approx(
        min((m + math.log(1e5)) / p for p, m in zip(powers, accountant.totals()["log_moments"], strict=True))
    )


@pytest.mark.slow
@settings(max_examples=12)
@given(st.floats(0.6, 20), st.floats(1e-4, 0.3), st.integers(1, 2000))
def test_the_order_of_the_proven_accountants(sigma, q, times):
    """Composed losses are at most Rényi's, and those at most the moments' of 2016."""
    found = []
    for accountant in (PrivacyLossAccountant(), RenyiAccountant(), MomentsAccountant()):
        accountant.step(step(sigma, q), times=times)
        found.append(accountant.epsilon(1e-6))
    assert found[0] <= found[1] * (1 + 1e-6) + 1e-9
    assert found[1] <= found[2] * (1 + 1e-9)


def test_bayesian_with_all_pairs_at_the_worst_is_the_moments_accountant():
    bayes = BayesianAccountant(100, allow_unproven=True)
    moments = MomentsAccountant()
    bayes.step(step(), np.ones(5), times=100)
    moments.step(step(), times=100)
    assert bayes.epsilon(1e-5) == pytest.approx(moments.epsilon(1e-5), rel=1e-6)
    closer = BayesianAccountant(100, allow_unproven=True)
    closer.step(step(), np.full(5, 0.1), times=100)
    assert closer.epsilon(1e-5) < bayes.epsilon(1e-5)


def test_bayesian_as_written_in_plain_numbers():
    """A step small enough for exponentials: mean plus Student's margin, then the root."""
    d, q, sigma, steps, power, failure = np.array([0.1, 0.5, 0.9, 0.3]), 0.3, 2.0, 7, 3, 1e-6
    accountant = BayesianAccountant(steps, (power,), failure, allow_unproven=True)
    accountant.step(step(sigma, q), d)
    k = np.arange(power + 2)
    binomial = [math.comb(power + 1, int(i)) * q**i * (1 - q) ** (power + 1 - i) for i in k]
    samples = np.array([np.dot(binomial, np.exp((k * k - k) * x * x / (2 * sigma**2))) for x in d]) ** steps
    from scipy.stats import t

    margin = t.ppf(1 - failure, 3) * samples.std() / math.sqrt(3)
    cost = math.log(samples.mean() + margin) / steps
    assert accountant.epsilon(1e-5) == pytest.approx((cost - math.log(1e-5 - failure)) / power, rel=1e-9)


def test_bayesian_misses_an_unusual_record():
    """Why it is unproven as a worst case: gradients at hand are small, one absent record's is at the bound."""
    bayes, proven = BayesianAccountant(100, allow_unproven=True), PrivacyLossAccountant()
    bayes.step(step(0.5), np.full(20, 0.01), times=100)
    proven.step(step(0.5), times=100)
    assert bayes.epsilon(1e-5) < 0.5 < proven.epsilon(1e-5)


def test_wasserstein_step_by_step_and_in_closed_form():
    closed, stepped = (WassersteinAccountant(allow_unproven=True) for _ in range(2))
    closed.step(step(0.5), times=50)
    for _ in range(50):
        stepped.step(step(0.5), [1.0, 2.0, 3.0])  # the least exposed pair is at the sensitivity
    assert stepped.epsilon(1e-5) == pytest.approx(closed.epsilon(1e-5), rel=1e-12)
    assert closed.delta(closed.epsilon(1e-7)) == pytest.approx(1e-7, rel=1e-9)
    summed = WassersteinAccountant(pairs="sum", allow_unproven=True)
    summed.step(step(0.5), [1.0] * 28, times=50)
    assert summed.loss == pytest.approx(closed.loss * 28 ** (1 / 16))


def test_wasserstein_at_order_two_is_a_root_mean_square():
    accountant = WassersteinAccountant(2.0, 4.0, allow_unproven=True)
    q, d, sigma = 0.25, 3.0, 0.7
    accountant.step(step(sigma, q), [d], times=10)
    loss = 10 * math.sqrt((q * d) ** 2 + (2 - 2 * q + 2 * q * q) * sigma**2)
    assert accountant.loss == pytest.approx(loss, rel=1e-12)
    assert accountant.epsilon(1e-3) == pytest.approx(loss + math.log(1e3) / 4)


def oracle(alpha, q, s):
    """1/(α−1)·ln E[(1 − q + q·e^{sx − s²/2})^α], x standard normal, by mpmath.

    30 digits: the answers agree with those of 60 digits to 1e-14 and take a third of the time.
    """
    with mpmath.workdps(30):
        a, q, s = mpmath.mpf(alpha), mpmath.mpf(q), mpmath.mpf(s)

        def density(x):
            return mpmath.npdf(x) * (1 - q + q * mpmath.exp(s * x - s * s / 2)) ** a

        kink = s / 2 + mpmath.log((1 - q) / q) / s
        ends = sorted({-40, 0, 8, float(kink), float(a * s) - 12, float(a * s), float(a * s) + 40})
        return float(mpmath.log(mpmath.quad(density, ends)) / (a - 1))


@pytest.mark.gate(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "s"),
    [
        (1e-6, 100.0),
        (1e-9, 4.0),
        (1e-5, 20.0),
        (1e-5, 30.0),
        (1e-4, 1.0),
        (1e-6, 0.01),
    ],
)
def test_fractional_orders_are_never_understated(q, s):
    """Steps with little noise and a rare record, whose moment lies far out, where floats end."""
    orders = (1.01, 1.5, 2.0, 5.5)
    found = curve(step(1.0 / s, q), orders)
    for alpha, e in zip(orders, found, strict=True):
        exact = oracle(alpha, q, s)
        assert e >= exact * (1.0 - 1e-6) - 1e-15
        if s <= 1.0 and alpha % 1.0:
            assert e == pytest.approx(exact, rel=1e-5)
    # a divergence rises with its order; what is said at the first may be a chord
    assert all(a <= b * (1.0 + 1e-9) for a, b in itertools.pairwise(found[1:]))


@pytest.mark.parametrize(("q", "s", "delta"), [(1e-6, 100.0, 1e-10), (1e-5, 20.0, 1e-8), (1e-5, 15.0, 1e-8)])
def test_renyi_does_not_fall_below_the_privacy_loss_where_noise_is_little(q, s, delta):
    ours, exact = RenyiAccountant(), PrivacyLossAccountant()
    for a in (ours, exact):
        a.step(step(1.0 / s, q))
    assert ours.epsilon(delta) >= exact.epsilon(delta) * (1.0 - 1e-3)


@pytest.mark.parametrize("failure", [0.5, 1e-3, 1e-9])
def test_renyi_charges_the_failure_of_published_bounds(failure):
    event = Projection(784, 200, 5.0, 1.0, RO, "independent", "bernstein", failure)
    ours = RenyiAccountant()
    ours.step(event, times=100)
    at = 1e-5
    if 100 * failure >= at:
        assert ours.epsilon(at) == math.inf
    else:
        free = RenyiAccountant()
        free.step(Gaussian(event.sigma, math.sqrt(event.squared_sensitivity), RO), times=100)
        assert ours.epsilon(at) == pytest.approx(free.epsilon(at - 100 * failure), rel=1e-9)


def test_moments_that_the_steps_do_not_have_are_refused():
    counted, again = MomentsAccountant(), MomentsAccountant()
    counted.step(step(), times=10_000)
    state = counted.state_dict()
    again.load_state_dict(json.loads(json.dumps(state)))
    for factor in (0.0, 0.99, 1.01):
        less = [factor * m for m in state["totals"]["log_moments"]]
        with pytest.raises(DataError, match="moments"):
            MomentsAccountant().load_state_dict({**state, "totals": {"log_moments": less}})


def test_everything_goes_on_from_its_state():
    for fresh in (
        lambda: every_accountant(30, allow_unproven=True),
        lambda: [WassersteinAccountant(pairs="sum", allow_unproven=True), PrivacyLossAccountant(fine=0.5)],
    ):
        for accountant, again in zip(fresh(), fresh(), strict=True):
            accountant.step(step(), [0.1, 0.2, 0.4], times=10)
            again.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
            for a in (accountant, again):
                a.step(step(2.0), [0.3, 0.2, 0.4], times=5)
            assert again.epsilon(1e-5) == accountant.epsilon(1e-5)
            assert again.steps == 15
            with pytest.raises(DataError):
                again.load_state_dict({**accountant.state_dict(), "accountant": "another"})
            with pytest.raises(DataError):
                again.load_state_dict({"accountant": accountant.name})
            with pytest.raises(DataError):
                again.load_state_dict({**accountant.state_dict(), "totals": {"loss": -1.0, "log_moments": [-1.0]}})


def test_a_refused_step_changes_nothing():
    for accountant in every_accountant(10, allow_unproven=True):
        accountant.step(step(), [0.5, 0.5, 0.5])
        before = accountant.state_dict()
        with pytest.raises((UsageError, NoTheoremError)):
            accountant.step(Sampled(Gaussian(1.0, 1.0, RO), FixedSize(1, 10)), [0.5, 0.5, 0.5])
        with pytest.raises(UsageError):
            accountant.step(step(), times=0)
        assert accountant.state_dict() == before
        assert accountant.adjacency is AR
        assert accountant.count(1e-5).to_dict()["adjacency"] == "add-remove"


def test_before_the_first_step_nothing_is_spent():
    for accountant in every_accountant(10, allow_unproven=True):
        assert accountant.epsilon(1e-5) == 0.0
        assert str(accountant.standing) in repr(accountant)
        with pytest.raises(UsageError):
            accountant.count(1e-5)
        with pytest.raises(UsageError):
            accountant.epsilon(0.0)


def test_an_event_that_stands_less_firmly_weakens_the_count():
    accountant = RenyiAccountant()
    accountant.step(Downgraded(step(), Standing.UNPROVEN, "seeded noise"))
    assert accountant.count(1e-5).standing is Standing.UNPROVEN
    again = RenyiAccountant()
    again.load_state_dict(accountant.state_dict())
    assert again.count(1e-5).standing is Standing.UNPROVEN
    clt = PrivacyLossAccountant()
    clt.step(Projection(64, 4, 5.0, 1.0, RO, "independent", "clt", 1e-7))
    assert clt.count(1e-5).standing is Standing.ASYMPTOTIC


def test_unproven_accountants_need_an_opt_in():
    with pytest.raises(UnprovenError):
        WassersteinAccountant()
    with pytest.raises(UnprovenError):
        BayesianAccountant(10)
    assert {a.standing for a in every_accountant(10)} == {Standing.PROVEN, Standing.ASYMPTOTIC}


def test_what_cannot_be_counted_is_refused():
    fixed = Sampled(Gaussian(1.0, 2.0, RO), FixedSize(10, 100))
    for accountant in (MomentsAccountant(), GaussianLimitAccountant()):
        with pytest.raises(NoTheoremError):
            accountant.step(fixed)
        with pytest.raises(NoTheoremError):
            accountant.step(Laplace(1.0, 1.0, AR))
    proven = PrivacyLossAccountant()
    proven.step(fixed, times=10)
    assert proven.epsilon(1e-5) > 0
    bayes = BayesianAccountant(2, allow_unproven=True)
    for wrong in (None, [1.0, 2.0], [1.0, 2.0, -3.0], [1.0, math.nan, 2.0], ["a", "b", "c"]):
        with pytest.raises(UsageError):
            bayes.step(step(), wrong)
    with pytest.raises(UsageError):
        bayes.step(step(), [1.0, 1.0, 1.0], times=3)
    bayes = BayesianAccountant(2, failure=1e-4, allow_unproven=True)
    bayes.step(step(), [1.0, 0.5, 0.2])
    assert bayes.epsilon(1e-5) == math.inf
    for make in (
        lambda: RenyiAccountant((1.0, 2.0)),
        lambda: RenyiAccountant(()),
        lambda: MomentsAccountant((0,)),
        lambda: PrivacyLossAccountant(fine=0.0),
        lambda: WassersteinAccountant(beta=0.0, allow_unproven=True),
        lambda: WassersteinAccountant(mu=0.5, allow_unproven=True),
        lambda: WassersteinAccountant(pairs="most", allow_unproven=True),
        lambda: BayesianAccountant(0, allow_unproven=True),
        lambda: BayesianAccountant(5, (), allow_unproven=True),
    ):
        with pytest.raises(UsageError):
            make()


def test_pairs_of_gradients():
    g = np.random.default_rng(0).normal(size=(6, 9))
    pairs = all_pairs(g)
    assert pairs.shape == (15,)
    assert pairs[0] == pytest.approx(np.linalg.norm(g[0] - g[1]))
    assert gradient_distances(g[:2], g[2:4])[1] == pytest.approx(np.linalg.norm(g[1] - g[3]))
    wide = np.random.default_rng(1).normal(size=(3, 400_000))
    assert all_pairs(wide)[2] == pytest.approx(np.linalg.norm(wide[1] - wide[2]))
    for wrong in (g[0], g[:1]):
        with pytest.raises(UsageError):
            all_pairs(wrong)
    with pytest.raises(UsageError):
        gradient_distances(g, g[:2])


def test_histories_are_read_as_add_remove_in_units_of_the_clip():
    event = history_event([(1.5, 0.02, 7)])
    plan = gradient(
        adjacency="add-remove", delta=1e-5, sigma=3.0, clip=2.0, clipping="per-example", records=50, batch=1, steps=7
    )
    accountant = PrivacyLossAccountant()
    accountant.step(event)
    assert accountant.epsilon(1e-5) == pytest.approx(plan.guarantee.epsilon(), rel=1e-9)
    assert event.to_dict()["events"][0]["times"] == 7
    for wrong in ([], [(1.0, 0.1)], [(0.0, 0.1, 5)], [(1.0, 2.0, 5)], [(1.0, 0.1, 0)], 7):
        with pytest.raises((UsageError, DataError)):
            history_event(wrong)


def test_repeated_events_are_the_same_as_many_steps():
    pair = [every_accountant(6, allow_unproven=True) for _ in range(2)]
    for one, two in zip(*pair, strict=True):
        one.step(Repeated(step(), 6), [0.1, 0.2, 0.3])
        for _ in range(6):
            two.step(step(), [0.1, 0.2, 0.3])
        assert one.epsilon(1e-5) == pytest.approx(two.epsilon(1e-5), rel=1e-12)
