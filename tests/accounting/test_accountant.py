"""What `account` answers: trees composed three ways, adjacency read one way, refusals, and files not taken on trust."""

from __future__ import annotations

import json
import math
import random
from functools import lru_cache

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.pld import privacy_loss_distribution as theirs
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privot.accounting import (
    Composed,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Repeated,
    Sampled,
    account,
    rdp,
    read_guarantee,
)
from privot.accounting.accountant import _compositions
from privot.accounting.events import Downgraded, Event, Projection, Renyi, Unbounded, leaves
from privot.accounting.laws import gaussian
from privot.errors import DataError, NoTheoremError, UsageError
from privot.guarantee import Adjacency, Guarantee, Standing

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning:privot")

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
DELTA = 1e-5


# --- trees, three ways -------------------------------------------------------------------------------------------


def steps(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    """One step under `adjacency`, from a short list of noises so that equal steps meet each other."""
    noises = st.sampled_from([0.8, 2.0, 5.0])
    base = [
        noises.map(lambda s: Gaussian(s, 1.0, adjacency)),
        noises.map(lambda s: Laplace(4.0 * s, 1.0, adjacency)),
    ]
    if adjacency is ADD:
        base.append(noises.map(lambda s: Sampled(Gaussian(s, 1.0, ADD), Poisson(0.05))))
    else:
        base.append(noises.map(lambda s: Sampled(Gaussian(s, 1.0, REPLACE), FixedSize(50, 1000))))
        base.append(noises.map(lambda s: Projection(20, 7, s, 1.0, REPLACE)))
        base.append(noises.map(lambda s: Sampled(Projection(20, 7, s, 1.0, REPLACE), FixedSize(50, 1000))))
    return st.one_of(base)


def trees(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    return st.recursive(
        steps(adjacency),
        lambda inner: st.one_of(
            st.tuples(inner, st.integers(1, 6)).map(lambda p: Repeated(*p)),
            st.lists(inner, min_size=1, max_size=3).map(lambda e: Composed(tuple(e))),
            inner.map(lambda e: Downgraded(e, Standing.UNPROVEN, "for the test")),
        ),
        max_leaves=5,
    )


def unfold(event: Event) -> list[Event]:
    """Every single step, written out; written again here so that it does not lean on `leaves`."""
    if isinstance(event, Repeated):
        return unfold(event.event) * event.times
    if isinstance(event, Composed):
        return [leaf for child in event.events for leaf in unfold(child)]
    if isinstance(event, Downgraded):
        return unfold(event.event)
    return [event]


@lru_cache
def their_pld(event: Event) -> theirs.PrivacyLossDistribution | None:
    """dp-accounting's distribution for what it can count."""
    grid = {"value_discretization_interval": 5e-4}
    if isinstance(event, Gaussian):
        return theirs.from_gaussian_mechanism(event.sigma / event.sensitivity, **grid)
    if isinstance(event, Laplace):
        return theirs.from_laplace_mechanism(event.scale / event.sensitivity, **grid)
    if isinstance(event, Sampled) and isinstance(event.sampling, Poisson) and isinstance(event.event, Gaussian):
        return theirs.from_gaussian_mechanism(event.event.sigma, sampling_prob=event.sampling.rate, **grid)
    return None


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([ADD, REPLACE]).flatmap(trees), st.integers(0, 2**31))
def test_a_tree_costs_the_same_however_it_is_composed(tree: Event, seed: int) -> None:
    """As a tree; flat and shuffled, and as a composition of guarantees; and by another accountant."""
    whole = account(tree, DELTA).epsilon()
    singles = unfold(tree)
    assert sorted(map(repr, singles)) == sorted(repr(e) for e, t in leaves(tree) for _ in range(t))

    random.Random(seed).shuffle(singles)
    flat = account(Composed(tuple(singles)), DELTA).epsilon()
    first, *others = [account(event, DELTA) for event in singles[:40]]
    joined = first.compose(*others, *([account(Composed(tuple(singles[40:])), DELTA)] if singles[40:] else []))
    assert flat == pytest.approx(whole, rel=1e-6, abs=1e-9)
    assert joined.epsilon() == pytest.approx(whole, rel=1e-6, abs=1e-9)

    assert whole <= rdp.epsilon(np.sum([rdp.curve(e, rdp.ORDERS) for e in singles], axis=0), DELTA) * (1 + 1e-9)
    distributions = [(their_pld(event), times) for event, times in leaves(tree)]
    if all(d is not None for d, _ in distributions) and len(singles) < 60:
        total = None
        for distribution, times in distributions:
            power = distribution.self_compose(times)
            total = power if total is None else total.compose(power)
        assert whole == pytest.approx(total.get_epsilon_for_delta(DELTA), rel=3e-3, abs=2e-3)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(trees(REPLACE), trees(REPLACE))
def test_more_events_never_cost_less(first: Event, second: Event) -> None:
    alone = account(first, DELTA)
    together = alone.compose(account(second, DELTA))
    assert together.epsilon() >= alone.epsilon() * (1 - 1e-3) - 1e-6


def test_equal_steps_are_merged() -> None:
    step = Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.1))
    tree = Composed((Repeated(Composed((step, Laplace(1.0, 1.0, ADD))), 3), step))
    assert leaves(tree) == [(step, 4), (Laplace(1.0, 1.0, ADD), 3)]


# --- one meaning of a multiplier ---------------------------------------------------------------------------------


def their_epsilon(accountant: type, event: dp_accounting.DpEvent) -> float:
    one = dp_accounting.NeighboringRelation.REPLACE_ONE
    # losses of ten: a grid of a thousandth is fine enough
    grid = {"value_discretization_interval": 1e-3} if accountant is pld_privacy_accountant.PLDAccountant else {}
    kind = accountant(neighboring_relation=one, **grid)
    kind.compose(event)
    return float(kind.get_epsilon(DELTA))


@pytest.mark.slow
def test_replace_one_means_the_same_to_both_accountants() -> None:
    """Records clipped to C = ½ and σ = ½: replacing one moves the sum by Δ = 2C = 1, so σ/Δ = ½ and σ/C = 1.

    dp-accounting's PLD reads its multiplier as σ/C under replace-one, its RDP as σ/Δ. Fed with the right one of the
    two, each must agree with ours; fed with the other, each is off by far.
    """
    clip, sigma = 0.5, 0.5
    sensitivity = REPLACE.sensitivity(clip)
    event = Gaussian(sigma, sensitivity, REPLACE)
    exact = account(event, DELTA).epsilon()
    assert exact == pytest.approx(gaussian.epsilon(sensitivity / sigma, DELTA), rel=1e-12)
    through_renyi = rdp.epsilon(rdp.curve(event, rdp.ORDERS), DELTA)
    assert exact < through_renyi < 1.15 * exact

    their_pld, their_rdp = pld_privacy_accountant.PLDAccountant, rdp_privacy_accountant.RdpAccountant
    assert their_epsilon(their_pld, dp_accounting.GaussianDpEvent(sigma / clip)) == pytest.approx(exact, rel=1e-3)
    assert their_epsilon(their_rdp, dp_accounting.GaussianDpEvent(sigma / sensitivity)) == pytest.approx(
        through_renyi, rel=0.01
    )
    # the trap this guards against
    assert their_epsilon(their_pld, dp_accounting.GaussianDpEvent(sigma / sensitivity)) > 1.5 * exact
    assert their_epsilon(their_rdp, dp_accounting.GaussianDpEvent(sigma / clip)) < 0.7 * exact


def test_add_remove_and_replace_one_differ_by_the_sensitivity_alone() -> None:
    for clip, sigma in ((1.0, 2.0), (0.5, 0.7)):
        added = account(Gaussian(sigma, ADD.sensitivity(clip), ADD), DELTA).epsilon()
        replaced = account(Gaussian(2.0 * sigma, REPLACE.sensitivity(clip), REPLACE), DELTA).epsilon()
        assert added == replaced


def test_their_rdp_agrees_for_a_sampled_step() -> None:
    """Poisson, add/remove, where both libraries read the multiplier alike."""
    kind = rdp_privacy_accountant.RdpAccountant(orders=[float(a) for a in rdp.ORDERS])
    kind.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 500)
    ours = rdp.epsilon(rdp.total([(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.01)), 500)]), DELTA)
    assert ours == pytest.approx(kind.get_epsilon(DELTA), rel=0.01)


# --- single answers ----------------------------------------------------------------------------------------------


def test_whole_frames_are_a_gaussian_mechanism() -> None:
    """k = b·d orthonormal directions catch all of a record b times: shift √b·Δ/σ, exactly."""
    for dim, frames in ((784, 1), (10, 4)):
        event = Projection(dim, frames * dim, 1.7, 1.0, REPLACE)
        assert account(event, DELTA).epsilon() == gaussian.epsilon(math.sqrt(frames) / 1.7, DELTA)
        assert account(Repeated(event, 3), DELTA).epsilon() == gaussian.epsilon(math.sqrt(3 * frames) / 1.7, DELTA)
        assert account(event, DELTA).delta(0.5) == float(gaussian.delta(math.sqrt(frames) / 1.7, 0.5))


def test_frames_beat_independent_directions_and_the_published_bounds() -> None:
    def cost(frame: str, bound: str = "exact") -> float:
        failure = None if bound == "exact" else DELTA / 2
        return account(Projection(784, 200, 1.0, 1.0, REPLACE, frame, bound, failure), DELTA).epsilon()

    assert cost("orthogonal") < cost("independent") < cost("independent", "clt") < cost("independent", "bernstein")


@pytest.mark.parametrize("times", [1, 50])
def test_exact_projections_cost_less_than_their_renyi_curve(times: int) -> None:
    for frame in ("orthogonal", "independent"):
        event = Projection(784, 200, 1.0, 1.0, REPLACE, frame)
        steps = [(event, times)]
        assert account(Repeated(event, times), DELTA).epsilon() <= rdp.epsilon(rdp.total(steps), DELTA)


def test_large_losses_take_the_smaller_of_the_two_bounds() -> None:
    event = Repeated(Sampled(Gaussian(0.2, 1.0, ADD), Poisson(0.5)), 200)
    cost = account(event, DELTA).epsilon()
    assert 30.0 < cost <= rdp.epsilon(rdp.total([(event.event, 200)]), DELTA)


def test_both_directions_of_a_poisson_step_are_composed() -> None:
    """Adding never cost more than removing wherever it was tried, but no theorem says so: both are counted."""
    compositions = _compositions(((Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.1)), 3), (Laplace(2.0, 1.0, ADD), 2)))
    assert compositions is not None
    removing, adding = compositions
    assert removing.ceiling == math.inf
    assert adding.ceiling == pytest.approx(-3 * math.log1p(-0.1) + 2 * 0.5)
    symmetric = _compositions(((Sampled(Gaussian(1.0, 1.0, REPLACE), FixedSize(1, 10)), 3),))
    assert symmetric is not None
    assert len(symmetric) == 1


def test_a_curve_alone_is_counted_by_renyi() -> None:
    event = Renyi((2.0, 8.0), (0.1, 0.4), ADD, Standing.ASYMPTOTIC)
    guarantee = account(Repeated(event, 3), DELTA)
    assert guarantee.epsilon() == pytest.approx(rdp.epsilon(3 * rdp.curve(event, rdp.ORDERS), DELTA))
    assert guarantee.standing is Standing.ASYMPTOTIC
    assert guarantee.delta(2.0) == pytest.approx(rdp.delta(3 * rdp.curve(event, rdp.ORDERS), 2.0))


def test_no_noise_is_never_private() -> None:
    guarantee = account(Composed((Gaussian(1.0, 1.0, REPLACE), Unbounded("fedwad", REPLACE))), DELTA)
    assert guarantee.epsilon() == math.inf
    assert guarantee.delta(100.0) == 1.0
    assert guarantee.standing is Standing.UNPROVEN


def test_delta_and_epsilon_of_a_guarantee_agree() -> None:
    for event in (
        Gaussian(2.0, 1.0, ADD),
        Repeated(Laplace(8.0, 1.0, ADD), 20),
        Repeated(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.02)), 300),
        Projection(784, 200, 1.0, 1.0, REPLACE, "independent"),
        Repeated(Sampled(Projection(784, 200, 0.8, 1.0, REPLACE), FixedSize(100, 10_000)), 300),
    ):
        guarantee = account(event, DELTA)
        assert guarantee.delta(guarantee.epsilon()) == pytest.approx(DELTA, rel=0.02)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(st.sampled_from([ADD, REPLACE]).flatmap(steps), st.integers(1, 40))
def test_epsilon_falls_as_delta_grows(event: Event, times: int) -> None:
    guarantee = account(Repeated(event, times), DELTA)
    costs = [guarantee.epsilon(d) for d in (1e-9, 1e-6, 1e-3, 0.1)]
    assert costs == sorted(costs, reverse=True)
    assert min(costs) >= 0.0


@pytest.mark.slow
def test_mixing_published_bounds_with_others_still_charges_the_failure() -> None:
    published = Projection(784, 200, 5.0, 1.0, REPLACE, "independent", "bernstein", 1e-7)
    alone = account(Gaussian(2.0, 1.0, REPLACE), DELTA)
    both = account(Composed((published, Gaussian(2.0, 1.0, REPLACE))), DELTA)
    assert alone.epsilon() < both.epsilon() < math.inf
    assert account(Composed((Repeated(published, 101), Gaussian(2.0, 1.0, REPLACE))), DELTA).epsilon() == math.inf
    assert both.delta(1000.0) >= 1e-7


# --- words -------------------------------------------------------------------------------------------------------


def test_standing_is_the_weakest_in_the_tree() -> None:
    proven, clt = Gaussian(1.0, 1.0, REPLACE), Projection(9, 3, 1.0, 1.0, REPLACE, "independent", "clt", 1e-6)
    assert account(proven, DELTA).standing is Standing.PROVEN
    assert account(Composed((proven, clt)), DELTA).standing is Standing.ASYMPTOTIC
    assert account(Sampled(clt, FixedSize(2, 9)), DELTA).standing is Standing.ASYMPTOTIC
    seeded = Repeated(Downgraded(proven, Standing.UNPROVEN, "the noise was seeded"), 2)
    assert account(seeded, DELTA).standing is Standing.UNPROVEN
    assert "the noise was seeded" in account(seeded, DELTA).assumptions
    assert account(seeded, DELTA).epsilon() == account(Repeated(proven, 2), DELTA).epsilon()


def test_a_guarantee_says_how_records_were_chosen_and_what_it_assumes() -> None:
    event = Composed(
        (
            Repeated(Sampled(Projection(9, 3, 1.0, 1.0, REPLACE), FixedSize(2, 9)), 4),
            Laplace(1.0, 1.0, REPLACE),
        )
    )
    guarantee = account(event, DELTA)
    assert guarantee.sampling == "fixed-size sampling without replacement, 2 of 9; none"
    text = " ".join(guarantee.assumptions)
    for words in ("the number of records is public", "directions", "fresh sample", "Laplace", "fresh randomness"):
        assert words in text
    assert account(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.25)), DELTA).sampling == "Poisson sampling at rate 0.25"
    assert "no noise" in account(Unbounded("x", ADD), DELTA).assumptions[0]
    assert "Rényi" in account(Renyi((2.0,), (1.0,), ADD, Standing.PROVEN), DELTA).assumptions[0]


# --- refusals ----------------------------------------------------------------------------------------------------


def test_combinations_without_a_theorem_are_refused() -> None:
    with pytest.raises(NoTheoremError, match="Poisson sampling is counted under add-remove only"):
        Sampled(Gaussian(1.0, 1.0, REPLACE), Poisson(0.1))
    with pytest.raises(NoTheoremError, match="Fixed-size sampling is counted under replace-one only"):
        Sampled(Gaussian(1.0, 1.0, ADD), FixedSize(1, 10))
    with pytest.raises(NoTheoremError, match="how many records took part"):
        Projection(9, 3, 1.0, 1.0, ADD)
    with pytest.raises(NoTheoremError, match="independent directions only"):
        Projection(9, 3, 1.0, 1.0, REPLACE, "orthogonal", "bernstein", 1e-6)
    with pytest.raises(NoTheoremError, match="do not compose"):
        account(Composed((Gaussian(1.0, 1.0, ADD), Gaussian(1.0, 1.0, REPLACE))), DELTA)
    for compound in (
        Repeated(Gaussian(1.0, 1.0, ADD), 2),
        Composed((Gaussian(1.0, 1.0, ADD),)),
        Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.1)),
        Unbounded("x", ADD),
        Downgraded(Gaussian(1.0, 1.0, ADD), Standing.UNPROVEN, "x"),
    ):
        with pytest.raises(NoTheoremError, match="sampling a"):
            Sampled(compound, Poisson(0.1))
    with pytest.raises(UsageError, match="do not compose"):
        account(Gaussian(1.0, 1.0, ADD), DELTA).compose(account(Gaussian(1.0, 1.0, REPLACE), DELTA))


# --- files -------------------------------------------------------------------------------------------------------

WRITTEN = [
    Gaussian(1.0, 1.0, ADD),
    Repeated(Sampled(Projection(20, 7, 1.0, 1.0, REPLACE), FixedSize(10, 1000)), 5),
    Composed((Laplace(3.0, 1.0, REPLACE), Renyi((2.0, 8.0), (0.1, math.inf), REPLACE, Standing.PROVEN))),
    Projection(9, 3, 2.0, 1.0, REPLACE, "independent", "clt", 1e-7),
    Unbounded("triangle", REPLACE),
]


@pytest.mark.slow
@pytest.mark.parametrize("event", WRITTEN, ids=lambda e: e.kind)
def test_a_guarantee_reads_back_and_composes(event: Event) -> None:
    guarantee = account(event, DELTA)
    read = read_guarantee(guarantee.to_json())
    assert read.epsilon() == guarantee.epsilon()
    assert (read.adjacency, read.standing, read.sampling) == (
        guarantee.adjacency,
        guarantee.standing,
        guarantee.sampling,
    )
    assert read.to_dict() == guarantee.to_dict()
    twice = read.compose(read)
    assert twice.epsilon() == account(Repeated(event, 2), DELTA).epsilon()
    assert read_guarantee(twice.to_json()).epsilon() == twice.epsilon()


def forged(**changes: object) -> str:
    fields = account(Repeated(Gaussian(3.0, 1.0, REPLACE), 5), DELTA).to_dict()
    return json.dumps({**fields, **changes})


def test_a_forged_guarantee_is_refused() -> None:
    honest = json.loads(forged())
    cheaper = [{**point, "epsilon": point["epsilon"] * 0.9} for point in honest["curve"]]
    with pytest.raises(DataError, match="its events cost"):
        read_guarantee(forged(curve=cheaper, epsilon=honest["epsilon"] * 0.9))
    with pytest.raises(DataError, match="less than its own curve says"):
        read_guarantee(forged(epsilon=honest["epsilon"] * 0.9))
    with pytest.raises(DataError, match="counted under replace-one"):
        read_guarantee(forged(adjacency="add-remove"))
    fewer = [{**honest["events"][0], "times": 500}]
    with pytest.raises(DataError, match="its events cost"):
        read_guarantee(forged(events=fewer))
    with pytest.raises(DataError, match="names no events"):
        read_guarantee(forged(events=[]))
    with pytest.raises(DataError, match="fields"):
        read_guarantee(forged(events=[{**honest["events"][0], "extra": 1}]))


def test_a_file_can_only_weaken_its_standing() -> None:
    assert read_guarantee(forged(standing="unproven")).standing is Standing.UNPROVEN
    clt = account(WRITTEN[3], DELTA).to_dict()
    assert read_guarantee(json.dumps({**clt, "standing": "proven"})).standing is Standing.ASYMPTOTIC


def test_a_file_keeps_what_it_assumes_beside_its_events() -> None:
    counted = read_guarantee(forged()).assumptions
    read = read_guarantee(forged(assumptions=["the machine's entropy is secret"])).assumptions
    assert read == (*counted, "the machine's entropy is secret")


def test_a_guarantee_from_a_file_does_not_compose_without_its_events() -> None:
    counted = account(Gaussian(1.0, 1.0, ADD), DELTA)
    table = Guarantee.from_json(counted.to_json())
    with pytest.raises(UsageError, match="read_guarantee"):
        table.compose(counted)
    with pytest.raises(UsageError, match="read_guarantee"):
        counted.compose(table)
