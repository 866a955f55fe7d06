"""Recovery against its baseline: an attack that recovers records is detected, good guesses of their kind are not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from privot.audit.attacks.reconstruction import from_sketch, membership_scores
from privot.audit.statistics.effects import Effect
from privot.audit.statistics.membership_gain import inside_gain, membership_auc
from privot.audit.statistics.recovery import judge
from privot.errors import UsageError
from privot.federation import Sketch, sketch
from privot.mechanisms import SketchDesign
from privot.vault import Vault

Array = np.ndarray


@pytest.fixture(scope="module")
def digits() -> Array:
    return load_digits().data / 8.0 - 1.0


@pytest.fixture(scope="module")
def design(digits: Array) -> SketchDesign:
    return SketchDesign.around(digits[900:])


def sketched(x: Array, epsilon: float, design: SketchDesign) -> Sketch:
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(2.0 * epsilon, 1e-4))
    return sketch(vault, epsilon=epsilon, delta=1e-5, design=design)


def test_recovered_records_are_detected(digits: Array) -> None:
    found = inside_gain("all", lambda x: x[::-1], digits[900:930], digits[:60], halvings=2, span=2.0)
    assert found.exact.inside == found.clear.inside == found.exact.beyond == found.exact.beyond_at_most == 1.0
    assert found.exact.outside == found.exact.prior == 0.0
    assert found.exact.over_outside.low > 0.8
    assert found.over_outside.low > 300.0
    assert found.over_prior.low > 300.0
    assert found.by_match.low > 300.0
    # one in ten, and not exactly, among guesses that are public
    generator = np.random.default_rng(0)

    def some(x: Array) -> Array:
        guess = digits[900 : 900 + len(x)].copy()
        tenth = len(x) // 10
        guess[:tenth] = x[:tenth] + 0.05 * generator.standard_normal((tenth, 64))
        return guess

    found = inside_gain("some", some, digits[900:1000], digits[:200], halvings=5, span=2.0)
    assert found.exact.inside == 0.0
    assert found.clear.over_outside.low > 0.03
    assert found.over_outside.low > 0.5
    assert found.over_prior.low > 0.5


@pytest.mark.parametrize("k", [12, 40])
@pytest.mark.parametrize("always", [True, False])
def test_so_many_recovered_records_are_counted(k: int, always: bool) -> None:
    """k of 200, inside only: the same ones whenever they are in, or others in every halving."""
    generator = np.random.default_rng(k)
    pool = generator.uniform(-1.0, 1.0, (200, 64))

    def attacked(x: Array) -> Array:
        kept = np.isin(x[:, 0], pool[:k, 0]) if always else generator.permutation(100) < k // 2
        return np.where(kept[:, None], x, 0.0)

    found = inside_gain("some", attacked, np.zeros((1, 64)), pool, halvings=4, span=2.0)
    for share in (found.exact, found.clear):
        assert (share.prior, share.outside, share.inside) == (0.0, 0.0, pytest.approx(k / 200))
        for effect in (share.over_prior, share.over_outside):
            assert 0.0 < effect.low < k / 200 < effect.high < k / 200 + 0.15
            assert effect.value == pytest.approx(k / 200)
        assert share.beyond == pytest.approx(k / 200)
        assert k / 200 < share.beyond_at_most < share.over_prior.high


def test_recovering_other_records_than_the_prior_is_reported_as_beyond() -> None:
    """The prior has records 0 to 19, the attack 20 to 39: as many, and none of them the prior's."""
    pool = np.random.default_rng(2).uniform(-1.0, 1.0, (200, 64))
    found = inside_gain(
        "others",
        lambda x: np.where(np.isin(x[:, 0], pool[20:40, 0])[:, None], x, 0.0),
        pool[:20],
        pool,
        halvings=2,
        span=2.0,
    )
    assert found.exact.over_prior.value == pytest.approx(0.0)
    assert found.exact.over_prior.low < 0.0 < found.exact.over_prior.high
    assert found.exact.over_outside.low > 0.0
    assert found.exact.beyond == pytest.approx(0.1)
    assert found.exact.beyond_at_most > 0.1


def test_clear_means_the_same_inside_and_in_a_recovery() -> None:
    """Guesses from 19.5 to 20.5 dB: both count the same half of them."""
    pool = np.random.default_rng(3).uniform(-1.0, 1.0, (40, 64))
    off = 2.0 * 10.0 ** (-np.linspace(19.5, 20.5, 40) / 20.0)[:, None]
    by_record = {row.tobytes(): row + error for row, error in zip(pool, off, strict=True)}
    found = inside_gain(
        "near",
        lambda x: np.array([by_record[row.tobytes()] for row in x]),
        np.zeros((1, 64)),
        pool,
        halvings=2,
        span=2.0,
    )
    assert found.clear.inside == judge("near", pool + off, pool, 2.0).clear == 0.5


def test_guesses_that_need_no_release_gain_nothing(digits: Array) -> None:
    prior = digits[900:930]
    found = inside_gain("prior", lambda x: np.resize(prior, x.shape), prior, digits[:60], halvings=3, span=2.0)
    assert found.over_prior == found.over_outside == Effect(0.0, 0.0, 0.0)
    assert found.inside == found.outside == pytest.approx(found.prior)
    # a prior that has some of the records itself
    prior = digits[:20]
    found = inside_gain("prior", lambda x: np.resize(prior, x.shape), prior, digits[:60], halvings=3, span=2.0)
    for share in (found.exact, found.clear):
        assert share.inside == share.outside == share.prior >= 1 / 3
        for effect in (share.over_prior, share.over_outside):
            assert effect.value == 0.0
            assert effect.low == -effect.high < 0.0
        assert share.beyond == 0.0 < share.beyond_at_most < 0.1


def test_good_guesses_of_the_kind_gain_nothing_over_non_members(digits: Array) -> None:
    """Fresh records of the same distribution are far better than the prior; that is no recovery."""
    generator = np.random.default_rng(1)
    found = inside_gain(
        "kind",
        lambda x: digits[300 + generator.permutation(1400)[: len(x)]],
        digits.mean(0)[None],
        digits[:300],
        halvings=10,
        span=2.0,
    )
    assert found.over_prior.low > 1.0
    assert found.clear.outside > 0.0
    assert found.clear.over_outside.low < 0.0 < found.clear.over_outside.high
    # five intervals' worth: no accident
    width = found.over_outside.high - found.over_outside.low
    assert abs(found.over_outside.value) < 2.5 * width < 1.0
    assert found.exact.inside == 0.0


@pytest.mark.slow
def test_a_sketch_recovers_nothing_above_its_prototypes(digits: Array, design: SketchDesign) -> None:
    found = inside_gain(
        "sketch",
        lambda x: from_sketch(sketched(x, 1.0, design), design, len(x)),
        design.prototypes,
        digits[:300],
        halvings=6,
        span=2.0,
    )
    assert found.exact.beyond == 0.0
    assert found.exact.beyond_at_most < 0.02
    assert found.clear.over_prior.low <= 0.0
    assert found.clear.over_outside.low <= 0.0
    assert found.clear.beyond_at_most < 0.03
    assert found.over_prior.low < 0.0
    assert found.over_outside.value < 0.3


@pytest.mark.parametrize("classes", [0, 10])
def test_a_sketch_without_noise_reveals_its_mean(digits: Array, design: SketchDesign, classes: int) -> None:
    """The attack works where there is something to get: the mean of the guesses is that of the records."""
    x = digits[:40]
    used = design.labelled(classes)
    vault = Vault(
        x, np.arange(40) % 10 if classes else None, classes=classes or None, clip=1.0, adjacency="replace-one",
        budget=(1e9, 1e-4),
    )  # fmt: skip
    seen = sketch(vault, epsilon=1e6, delta=1e-5, design=used)
    along = design.coordinates(from_sketch(seen, used, 40))["features"].mean(0) - design.coordinates(x)[
        "features"
    ].mean(0)
    before = design.coordinates(design.prototypes)["features"].mean(0) - design.coordinates(x)["features"].mean(0)
    assert np.linalg.norm(along) < 0.3 * np.linalg.norm(before)


def test_membership_is_scored(digits: Array, design: SketchDesign) -> None:
    def area(epsilon: float) -> Effect:
        return membership_auc(
            lambda x, candidates: membership_scores(sketched(x, epsilon, design), design, candidates, digits[900:]),
            digits[:80],
            halvings=6,
        )

    # forty records and next to no noise: sums of so many numbers tell who was in
    assert area(1e4).low > 0.6
    private = area(0.5)
    assert private.low < 0.6
    assert private.value < 0.6


def test_the_area_is_that_of_its_definition() -> None:
    pool = np.arange(20.0)[:, None]
    assert membership_auc(lambda x, c: np.isin(c[:, 0], x[:, 0]), pool, halvings=3) == Effect(1.0, 1.0, 1.0)
    assert membership_auc(lambda x, c: np.zeros(len(c)), pool, halvings=3) == Effect(0.5, 0.5, 0.5)
    for rows, halvings in ((3, 3), (5, 3), (20, 1)):
        with pytest.raises(UsageError, match="even number"):
            membership_auc(lambda x, c: np.zeros(len(c)), pool[:rows], halvings=halvings)
