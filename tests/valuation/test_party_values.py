"""Values of parties: the game on records in closed form and by a linear programme; sketches against records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from privot import Vault
from privot.errors import DataError, UsageError
from privot.federation import Sketch, sketch
from privot.federation.sketches.estimating import Shared
from privot.federation.sketches.sketch_simulation import BY_CLASS, Side
from privot.mechanisms import SketchDesign
from privot.valuation import value_records, value_sketches
from privot.valuation.class_profiles import Profile, ProfileSums, spread_lost, transport_cost
from privot.valuation.labelled_records import LABEL_WEIGHT, Labelled
from privot.valuation.party_values import _Pools, _stand_ins, _with_noise
from privot.valuation.shapley import CoalitionPlan

pytestmark = pytest.mark.slow

MIDDLES = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
DESIGN = SketchDesign.box(3, -1.0, 2.0).labelled(3)


def some(n: int, seed: int, spread: float = 0.2) -> Labelled:
    y = np.arange(n) % 3
    return Labelled.of(MIDDLES[y] + spread * np.random.default_rng(seed).normal(size=(n, 3)), y, f"party {seed}")


def joined(*parts: Labelled) -> Labelled:
    return Labelled.of(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]), "pool")


def sketched(data: Labelled, sigma: float) -> Sketch:
    vault = Vault(data.x, data.y, classes=3, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    return sketch(vault, sigma=sigma, delta=1e-5, design=DESIGN)


def profile(data: Labelled) -> Profile:
    names = np.unique(data.y)
    return ProfileSums.of(data, names, np.zeros(data.x.shape[1])).profile(names)


def test_the_cost_is_that_of_its_linear_programme() -> None:
    g = np.random.default_rng(0)
    for _ in range(5):
        a = Profile(np.arange(4), g.dirichlet(np.ones(4)), g.normal(size=(4, 3)), g.random(4) / 3, 0.0, g.random())
        v = Profile(np.arange(1, 4), g.dirichlet(np.ones(3)), g.normal(size=(3, 3)), g.random(3) / 3, 0.0, g.random())
        cost = cdist(a.means, v.means, "sqeuclidean") - 3 * (a.noise[:, None] + v.noise)
        for i in range(4):
            for j in range(3):
                # class 0 is unknown to the validation side, and its label stands for the pool's mean
                label, noise = (a.means[0], a.noise[0]) if i == 0 else (v.means[i - 1], v.noise[i - 1])
                if i != j + 1:
                    apart = ((label - v.means[j]) ** 2).sum() - 3 * (noise + v.noise[j])
                    cost[i, j] += LABEL_WEIGHT * max(0.0, apart)
        rows = np.kron(np.eye(4), np.ones(3)), np.kron(np.ones(4), np.eye(3))
        solved = linprog(cost.ravel(), A_eq=np.concatenate(rows), b_eq=np.concatenate([a.share, v.share]))
        expected = solved.fun + (np.sqrt(a.within) - np.sqrt(v.within)) ** 2
        # what labels lost of the spread between the three classes that both have, without what noise adds
        middle = sum(p * m for p, m in zip(v.share, v.means, strict=True))
        lost = 0.0
        for i in range(3):
            theirs = ((v.means[i] - middle) ** 2).sum() - 3 * v.noise[i] * (1 - 2 * v.share[i])
            lost += a.share[i + 1] * (theirs - ((a.means[i + 1] - middle) ** 2).sum() + 3 * a.noise[i + 1])
        expected += max(0.0, lost)
        assert transport_cost(a, v) == pytest.approx(expected, abs=1e-9)


def test_closed_forms_moved_widened_and_like_the_validation_side() -> None:
    hub = some(300, 0)
    middle = np.array([MIDDLES[y] for y in hub.y])
    # classes at their own middles, so that all of them move or widen alike
    hub = Labelled.of(hub.x - np.stack([hub.x[hub.y == c].mean(0) for c in range(3)])[hub.y] + middle, hub.y, "V")
    moved = Labelled.of(hub.x + np.array([0.1, 0.0, 0.2]), hub.y, "moved")
    wide = Labelled.of(middle + 3.0 * (hub.x - middle), hub.y, "wide")
    within = float(((hub.x - middle) ** 2).sum(1).mean())
    # three corners of a triangle of side √2, each 2/3 from the middle in square
    spread = within + (1.0 + LABEL_WEIGHT) * 2.0 / 3.0
    assert profile(hub).spread() == pytest.approx(spread)
    assert transport_cost(profile(moved), profile(hub)) == pytest.approx(0.05)
    assert transport_cost(profile(wide), profile(hub)) == pytest.approx(4.0 * within)
    turned = Labelled.of(hub.x[::-1].copy(), hub.y[::-1].copy(), "the same, in another order")
    assert value_records([turned], hub).value == pytest.approx([1.0])
    one = value_records([moved], hub)
    assert one.value == pytest.approx([1.0 - 0.05 / spread])
    assert one.distance == pytest.approx([np.sqrt(0.05)])
    assert one.left_out == pytest.approx(one.value)
    assert one.interval is None
    assert one.error is None
    # labels that are permuted are harm, though the distance between unnamed classes would be 0
    permuted = Labelled.of(turned.x, (turned.y + 1) % 3, "permuted")
    assert value_records([permuted], hub).value[0] < 0.1


def test_shares_count_and_a_pool_is_of_records_not_of_parties() -> None:
    def at(zeros: int, ones: int) -> Labelled:
        y = np.repeat([0, 1], [zeros, ones])
        return Labelled.of(np.stack([3.0 * y, y], axis=1), y, "P")

    # a quarter must go to the other class, 10 away in square and λ times that by its label; T(∅, V) is (1 + λ)·¼·10
    found = value_records([at(30, 10), at(20, 60)], at(5, 5))
    assert found.distance == pytest.approx(np.sqrt([7.5, 7.5]))
    # together they have 50 of 0 and 70 of 1: a twelfth is too many
    assert found.worth == pytest.approx(1.0 - (30.0 / 12.0) / 7.5)
    assert found.left_out == pytest.approx([found.worth, found.worth])


def test_noise_of_means_and_pools_is_of_the_size_stated() -> None:
    hub, parties = some(600, 0), [some(300, 1), some(900, 2)]
    shared, ratios = Shared.of(sketched(hub, 1.0).public), []
    for _ in range(12):
        sides = [Side(sketched(data, 3.0), shared) for data in (hub, *parties)]
        pools = _Pools(CoalitionPlan.of(2), sides)
        pooled = {n: 0.25 * sides[1].means[n] + 0.75 * sides[2].means[n] for n in BY_CLASS}
        for side, data, means in ((sides[1], parties[0], None), (pools.pools[3], joined(*parties), pooled)):
            found, exact = Profile.of_view(side.view(means)), profile(data)
            off = ((found.means + DESIGN.centre - exact.means) ** 2).sum(1)
            ratios.append(off / (3 * found.noise))
    # 72 class means; what the noise of counts adds is little
    assert 0.6 < np.mean(ratios) < 1.7


def test_stand_ins_are_as_long_as_what_they_stand_for() -> None:
    everyone, generator = [some(600, 0), some(300, 1), some(900, 2)], np.random.default_rng(0)
    shared = Shared.of(sketched(everyone[0], 1.0).public)
    calm = [Side(sketched(data, 0.02), shared).means for data in everyone]
    sides, lengths = [Side(sketched(data, 30.0), shared) for data in everyone], []
    for _ in range(60):
        for side, means in zip(sides, calm, strict=True):
            side.means = side.noised(means, generator)
        found = _stand_ins(sides, generator)[1]["features"]
        lengths.append(float(found @ found))
    # with the noise left in, it would be 6 times as long
    assert 0.5 < np.mean(lengths) / float(calm[1]["features"] @ calm[1]["features"]) < 3.0


@pytest.mark.parametrize("unit", [1e-60, 1e-9, 1e60])
def test_values_do_not_depend_on_units(unit: float) -> None:
    hub, parties = some(60, 0), [some(20, 1, 0.5), some(30, 2, 1.0)]
    parties[1] = Labelled.of(parties[1].x, np.roll(parties[1].y, 5), "bad")
    plain = value_records(parties, hub).value
    found = value_records([Labelled.of(unit * p.x, p.y, "P") for p in parties], Labelled.of(unit * hub.x, hub.y, "V"))
    np.testing.assert_allclose(found.value, plain, atol=1e-9)


def test_errors_of_few_groups_of_orders_widen_intervals_by_students_quantile() -> None:
    hub, parties = some(60, 0), [some(12, seed, 0.1 * seed) for seed in range(1, 13)]
    found = value_records(parties, hub)
    assert found.error is not None
    assert found.orders == 192
    guarantee = sketched(hub, 1.0).guarantee
    told = _with_noise(found, np.zeros((100, 12)), (guarantee,) * 12, guarantee)
    assert told.interval is not None
    # 8 groups of 24 orders, 7 degrees of freedom
    np.testing.assert_allclose(told.interval[:, 1] - found.value, 2.3646 * found.error.diagonal(), rtol=1e-4)
    assert told.decided is not None
    apart = np.abs(found.value[:, None] - found.value)
    np.testing.assert_array_equal(told.decided, apart > 2.3646 * found.error * ~np.eye(12, dtype=bool))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(6, 30), st.integers(1, 99), st.floats(0.1, 1.0)), min_size=2, max_size=4))
def test_values_sum_to_the_worth_of_the_pool_and_twins_have_the_same(kinds: list[tuple[int, int, float]]) -> None:
    hub, parties = some(60, 0), [some(n, seed, spread) for n, seed, spread in kinds]
    found = value_records(parties, hub)
    assert found.value.sum() == pytest.approx(found.worth)
    assert found.worth == pytest.approx(float(value_records([joined(*parties)], hub).value[0]))
    twin = Labelled.of(parties[0].x[::-1].copy(), parties[0].y[::-1].copy(), "twin")
    twins = value_records([*parties, twin], hub).value
    assert twins[0] == pytest.approx(twins[-1])


def test_with_little_noise_sketches_give_the_values_of_records() -> None:
    hub, parties = some(900, 0), [some(600, 1), some(300, 2, 0.5), some(900, 3)]
    parties[2] = Labelled.of(parties[2].x, np.where(np.arange(900) < 300, (parties[2].y + 1) % 3, parties[2].y), "bad")
    found = value_sketches([sketched(p, 0.05) for p in parties], sketched(hub, 0.05), draws=100)
    exact = value_records(parties, hub)
    np.testing.assert_allclose(found.value, exact.value, atol=0.02)
    np.testing.assert_allclose(found.left_out, exact.left_out, atol=0.02)
    assert found.worth == pytest.approx(found.value.sum())
    assert found.decided is not None
    assert found.decided[0, 2]
    assert not found.decided.diagonal().any()
    assert found.from_zero is not None
    assert found.from_zero.all()
    assert len(found.guarantees) == 3


def test_intervals_cover_the_noise_and_are_not_too_wide() -> None:
    hub, parties = some(600, 0), [some(300, 1), some(300, 2, 0.6)]
    truth = value_sketches([sketched(p, 0.05) for p in parties], sketched(hub, 0.05), draws=0).value
    inside, values, widths = 0, [], []
    for _ in range(6):
        found = value_sketches([sketched(p, 3.0) for p in parties], sketched(hub, 3.0), draws=100)
        assert found.interval is not None
        inside += int(((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1])).sum())
        values.append(found.value)
        widths.append(found.interval[:, 1] - found.interval[:, 0])
    # 12 intervals of 95 %: fewer than 7 inside have a chance of 1e-5
    assert inside >= 7
    ratio = np.mean(widths, 0) / np.std(values, 0, ddof=1)
    # 3.9 deviations of a Gaussian, some caution, and a deviation of 6 draws, which may be twice too large
    assert (ratio > 1.5).all()
    assert (ratio < 40.0).all()


def test_no_pool_is_worth_more_than_records_like_the_validation_sides_however_large_the_noise() -> None:
    # parties like V: noise often takes them for nearer than nothing, whose worth would be above 1
    above = 0
    for seed in range(60):
        if seed >= 6 and above:
            break  # the noise is secret: about one seed in four shows it, so that sixty fail to in one run of 10⁸
        hub, one, two = (sketched(some(60, 3 * seed + k), sigma=4.0) for k in range(3))
        for parties in ([one], [one, two]):
            found = value_sketches(parties, hub, draws=100 if seed == 0 else 0)
            assert found.worth <= 1.0
            assert found.value.sum() == pytest.approx(found.worth)
            above += found.worth == 1.0
            if found.interval is not None and len(parties) == 1:
                # the value of the only party is the worth of all: an interval needs no place above 1 either
                assert found.interval[0, 1] <= 1.0
                assert found.interval[0, 0] <= found.value[0] <= found.interval[0, 1]
    assert above > 0


def test_an_estimate_brought_into_its_range_is_never_further_from_the_truth() -> None:
    hub, party = some(60, 0), some(60, 1, spread=0.3)
    truth = value_records([party], hub).worth
    plan = CoalitionPlan.of(1)
    for _ in range(20):
        drawn = [sketched(data, sigma=4.0) for data in (hub, party)]
        shared = Shared.of(*(one.public for one in drawn))
        sides = [Side(one, shared) for one in drawn]
        pools = _Pools(plan, sides)
        profiles, target = pools.profiles([side.means for side in sides])
        raw = transport_cost(profiles[1], target)
        costs, spread = pools.costs([side.means for side in sides])
        assert costs[1] == pytest.approx(max(0.0, raw))
        assert abs(1.0 - costs[1] / spread - truth) <= abs(1.0 - raw / spread - truth) + 1e-12


def test_invalid_parties_are_refused() -> None:
    hub, party = some(60, 0), some(30, 1)
    v, one = sketched(hub, 1.0), sketched(party, 1.0)
    with pytest.raises(UsageError, match="at least one party"):
        value_records([], hub)
    with pytest.raises(UsageError, match="at least one party"):
        value_sketches([], v)
    with pytest.raises(UsageError, match="draws"):
        value_sketches([one], v, draws=5)
    with pytest.raises(DataError, match="Party 2 and the validation side are the same release"):
        value_sketches([one, v], v)
    with pytest.raises(DataError, match="Parties 1 and 2"):
        value_sketches([one, one], v)
    vault = Vault(hub.x, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    bare = sketch(vault, sigma=1.0, delta=1e-5, design=SketchDesign.box(3, -1.0, 2.0))
    with pytest.raises(DataError, match="without labels"):
        value_sketches([one], bare)
    with pytest.raises(DataError, match="one design"):
        value_sketches([bare], v)
    with pytest.raises(DataError, match="do not occur in"):
        value_records([Labelled.of(party.x, party.y + 7, "P")], hub)
    with pytest.raises(DataError, match="same records"):
        value_records([hub], hub)
    still = Labelled.of(np.ones((4, 3)), np.zeros(4, dtype=int), "V")
    with pytest.raises(DataError, match="All validation records are equal"):
        value_records([Labelled.of(np.zeros((4, 3)), np.zeros(4, dtype=int), "P")], still)
    with pytest.raises(DataError, match="units"):
        value_records([Labelled.of(party.x * 1e90, party.y, "P")], Labelled.of(hub.x * 1e-130, hub.y, "V"))


def test_parties_are_plain_tuples() -> None:
    parties, hub = [some(40, 1), some(30, 2)], some(50, 3)
    found = value_records([(p.x, p.y) for p in parties], (hub.x, hub.y))
    assert np.array_equal(found.value, value_records(parties, hub).value)
    with pytest.raises(DataError, match="Party 2 has no labels"):
        value_records([(hub.x[1:], hub.y[1:]), (hub.x, None)], hub)


def mixed(share: float, n: int = 3000) -> Labelled:
    """Records exactly at their classes' middles, with this share of each class evenly given other labels."""
    true = np.arange(n) % 3
    place = np.arange(n) // 3
    wrong = place < share * n / 3
    y = np.where(wrong, (true + 1 + place % 2) % 3, true)
    return Labelled.of(MIDDLES[true], y, "mixed")


def test_wrong_labels_cost_in_proportion_to_their_share() -> None:
    hub = profile(mixed(0.0))
    for share in (0.0, 0.1, 0.2, 0.4):
        pool = profile(mixed(share))
        # each wrong record is moved by the gap between two middles, 2 in square
        gap = float(pool.share @ ((pool.means - hub.means) ** 2).sum(1))
        assert gap + spread_lost(pool, hub) == pytest.approx(2.0 * share)
        # all records are at three points, so the spread within labels is what labels lost between them
        assert transport_cost(pool, hub) == pytest.approx(2.0 * share + pool.within)
        assert pool.within == pytest.approx(spread_lost(pool, hub))


def test_no_spread_is_lost_by_right_labels_of_other_shares_and_by_whole_classes_that_change_names() -> None:
    hub = some(300, 0)
    counts = np.concatenate([np.flatnonzero(hub.y == c)[:k] for c, k in enumerate((10, 50, 100))])
    assert spread_lost(profile(mixed(0.0, 30)), profile(mixed(0.0))) == pytest.approx(0.0)
    few = Labelled.of(np.repeat(MIDDLES, (1, 5, 10), axis=0), np.repeat([0, 1, 2], (1, 5, 10)), "few")
    assert spread_lost(profile(few), profile(mixed(0.0))) == pytest.approx(0.0)
    renamed = Labelled.of(MIDDLES[np.arange(30) % 3], (np.arange(30) + 1) % 3, "renamed")
    assert spread_lost(profile(renamed), profile(mixed(0.0))) == pytest.approx(0.0)
    # classes further apart than those of the validation side are no gain
    apart = Labelled.of(2.0 * (hub.x[counts] - 1 / 3) + 1 / 3, hub.y[counts], "apart")
    assert spread_lost(profile(apart), profile(hub)) < 0.0
    assert transport_cost(profile(apart), profile(hub)) > 0.0


def test_the_spread_lost_is_debiased_for_the_noise_of_both_sides() -> None:
    g = np.random.default_rng(3)
    pool, hub = profile(mixed(0.2)), profile(mixed(0.0))
    true, found = spread_lost(pool, hub), []
    noise = np.array([0.04, 0.1, 0.02]), np.array([0.1, 0.05, 0.2])
    for _ in range(4000):
        noisy = [
            replace(side, means=side.means + np.sqrt(v)[:, None] * g.normal(size=(3, 3)), noise=v)
            for side, v in zip((pool, hub), noise, strict=True)
        ]
        found.append(spread_lost(*noisy))
    assert abs(np.mean(found) - true) < 4.0 * np.std(found) / np.sqrt(4000)


def test_parties_are_ranked_by_their_share_of_wrong_labels() -> None:
    hub = sketched(some(3000, 0), 3.0)
    g, parties = np.random.default_rng(4), []
    for k, share in enumerate((0.0, 0.1, 0.2)):
        data = some(1500, k + 1)
        bad = g.choice(1500, round(share * 1500), replace=False)
        y = data.y.copy()
        y[bad] = (y[bad] + g.integers(1, 3, len(bad))) % 3
        parties.append(sketched(Labelled.of(data.x, y, "P"), 3.0))
    value = value_sketches(parties, hub, draws=0).value
    assert value[0] > value[1] + 0.01 > value[2] + 0.02


def test_a_few_records_too_many_of_a_class_cost_nothing_and_many_cost_what_they_do() -> None:
    hub, g = some(3000, 0), np.random.default_rng(5)

    def drawn(share: list[float], seed: int) -> Labelled:
        y = g.choice(3, 600, p=share)
        return Labelled.of(MIDDLES[y] + 0.2 * np.random.default_rng(seed).normal(size=(600, 3)), y, "P")

    parties = [drawn([1 / 3] * 3, 1), drawn([1 / 3] * 3, 2), drawn([1 / 3] * 3, 3), drawn([0.7, 0.15, 0.15], 4)]
    exact = value_records(parties, hub)
    found = value_sketches([sketched(p, 0.5) for p in parties], sketched(hub, 0.5), draws=0)
    # alone, the three cost what their classes' means are off; the tilted one still pays for all that it has too many
    assert (found.distance[:3] < 0.5 * exact.distance[:3]).all()
    assert found.distance[3] == pytest.approx(exact.distance[3], rel=0.02)
