"""A mean of all records beside those of the classes: both together move by no more than is counted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mechanism_samples import Plain, Raw, Silent

from privot.accounting import Gaussian
from privot.audit.attack import run_attack
from privot.audit.attacks.embedding_attack import EmbeddingAttack
from privot.audit.findings import broken
from privot.audit.implementation.floating_point import embedding_on_grid
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.embedding import MARGIN
from privot.noise import SystemNoise
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.hadamard import HadamardFourier
from privot.vault import Vault

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


class Axis(Raw):
    """φ(x) = far times the first column along one axis: the bound is the mechanism's own."""

    rounding = 2.0**-48

    def features(self, x: Any) -> Any:
        return x * 1e6

    def exact_bytes(self) -> bytes:
        return b"axis"


def made(share: float = 0.3, sigma: float = 2.0, cls: type[MeanEmbedding] = MeanEmbedding) -> MeanEmbedding:
    return cls(Axis(2), sigma, True, 0.05, common=Axis(2), common_share=share)


def joint(mechanism: MeanEmbedding, records: Plain, noise: Any = None) -> np.ndarray:
    """All numbers of a release, in units in which each has noise σ."""
    value, _ = mechanism.run(records, noise or Silent(), mechanism.event(records.facts), 0)
    parts = zip(mechanism.weights, (value["sums"], value["common"], value["counts"]), strict=True)
    return np.concatenate([weight * np.ravel(part) for weight, part in parts])


def squared(row: np.ndarray) -> Fraction:
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))


def changes(cls: type[MeanEmbedding], adjacency: Adjacency, share: float) -> list[Fraction]:
    """‖change‖² of releases without noise of neighbours, some of them the worst there are."""
    dice = np.random.default_rng(4)
    x, y = dice.uniform(-1, 1, size=(9, 2)), dice.integers(0, 3, 9)
    odd = [[1.0, 0.0], [-1.0, 0.0], [1e308, 1e308], [math.nan, 1.0], [1e-7, 0.0]]
    found, mechanism = [], made(share, cls=cls)
    for first in odd:
        for second in odd if adjacency is REPLACE else odd[:1]:
            for label in (0, 2):
                large = Plain(np.vstack([x, first]), np.append(y, 0), adjacency, 3)
                small = Plain(x, y, adjacency, 3)
                if adjacency is REPLACE:
                    small = Plain(np.vstack([x, second]), np.append(y, label), adjacency, 3)
                found.append(squared(joint(mechanism, large) - joint(mechanism, small)))
    return found


@pytest.mark.parametrize("share", [1e-6, 0.3, 0.999])
@pytest.mark.parametrize(("adjacency", "sensitivity"), [(ADD, 1), (REPLACE, 2)])
def test_neighbours_differ_by_at_most_what_is_counted_and_some_by_that(
    adjacency: Adjacency, sensitivity: int, share: float
) -> None:
    found = changes(MeanEmbedding, adjacency, share)
    assert max(found) <= sensitivity**2
    # one record more moves it by its whole norm; one that changes sides by twice that of its features, or class too
    a, c, b = made(share).weights
    moved = max(2.0 * math.hypot(a, c), math.sqrt(2.0 * a**2 + 4.0 * c**2 + 2.0 * b**2))
    reached = moved if adjacency is REPLACE else 1.0
    assert math.sqrt(max(found)) == pytest.approx(reached * (1.0 - MARGIN), rel=1e-6)


@pytest.mark.slow
def test_weights_that_do_not_share_are_found() -> None:
    """Both rows with the weight of one: a record would count for more than it pays."""

    class Greedy(MeanEmbedding):
        @property
        def _a(self) -> float:
            return self._all

    assert max(changes(Greedy, ADD, 0.3)) > 1.01
    assert max(changes(Greedy, REPLACE, 0.3)) > 4.01

    def attack(cls: type[MeanEmbedding]) -> Any:
        make = lambda features, sigma, labels, weight, device: cls(  # noqa: E731
            features, sigma, labels, weight, device, common=features, common_share=0.9
        )
        return EmbeddingAttack(1.0, 1e-5, ADD, labels=True, make=make)

    assert broken([run_attack(attack(Greedy), runs=60, trials=20_000)])
    assert not broken([run_attack(attack(MeanEmbedding), runs=60, trials=20_000)])


@pytest.mark.parametrize("features", [Fourier(3, 6, [1.0], 1), HadamardFourier(3, 6, [1.0], 1)])
def test_the_common_row_is_the_sum_over_all_classes(features: Any) -> None:
    """By float features and by whole-number phases; the labels of the records do not touch it."""
    x, y = np.random.default_rng(0).uniform(size=(40, 3)), np.arange(40) % 4
    mechanism = MeanEmbedding(Fourier(3, 5, [1.0], 1), 2.5, labels=True, common=features, common_share=0.25)
    records, noise = Plain(x, y, ADD, 4), Silent()
    event = mechanism.event(records.facts)
    assert event == Gaussian(2.5, 1.0, ADD)
    value, public = mechanism.run(records, noise, event, 0)
    assert noise.asked == [((4 * 11 + 12,), 2.5)]
    plain, _ = MeanEmbedding(features, 2.5).run(Plain(x, adjacency=ADD), Silent(), event, 0)
    assert value["common"].shape == (12,)
    np.testing.assert_allclose(value["common"], plain["sums"][0], atol=1e-9)
    alone, _ = MeanEmbedding(Fourier(3, 5, [1.0], 1), 2.5, labels=True).run(records, Silent(), event, 0)
    np.testing.assert_allclose(value["sums"], alone["sums"], atol=1e-9)
    a, c, b = mechanism.weights
    assert math.fsum([a * a, c * c, b * b]) == pytest.approx(1.0, abs=1e-15)
    assert c * c / (a * a + c * c) == pytest.approx(0.25)
    assert (public["sums_sigma"], public["common_sigma"]) == pytest.approx((2.5 / a, 2.5 / c))


def test_noise_of_the_common_row_is_what_is_counted() -> None:
    """σ and not ⅔ σ: 20,000 variates have a deviation within 2.5 % with probability 1 − 1e-6."""
    mechanism = MeanEmbedding(Fourier(3, 2, [1.0], 1), 2.5, True, common=Fourier(3, 10_000, [1.0], 2), common_share=0.4)
    records = Plain(np.full((4, 3), 0.5), np.arange(4) % 2, ADD, 2)
    drawn = (joint(mechanism, records, SystemNoise()) - joint(mechanism, records))[2 * 4 : -2]
    assert len(drawn) == 20_000
    assert drawn.std() == pytest.approx(2.5, rel=0.025)
    assert drawn.std() != pytest.approx(2.5 * 2.0 / 3.0, rel=0.025)


def test_a_release_is_on_the_grid_of_its_noise() -> None:
    vault = Vault(np.zeros((5, 2)), np.arange(5) % 3, classes=3, clip=1.0, adjacency="add-remove", budget=(9.0, 1e-5))
    release = vault.release(
        MeanEmbedding(Fourier(2, 4, [1.0], 1), 2.0, True, common=Fourier(2, 6, [1.0], 2), common_share=0.3),
        purpose="test",
    )
    checks = embedding_on_grid(release)
    assert [check.name for check in checks] == [
        f"the noise of the {name} was added on a grid" for name in ("sums", "counts", "common")
    ]
    assert not broken(checks)


def test_what_does_not_fit_is_refused() -> None:
    for share in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(UsageError, match="between 0 and 1"):
            made(share)
    with pytest.raises(UsageError, match="needs a map"):
        MeanEmbedding(Axis(2), 1.0, common_share=0.2)
    with pytest.raises(UsageError, match="same number of columns"):
        MeanEmbedding(Axis(2), 1.0, common=Axis(3), common_share=0.2)
    # rounding of the second map counts too
    noisy = Axis(2)
    noisy.rounding = 1.0
    records = Plain(np.zeros((3, 2)), np.arange(3), ADD, 3)
    with pytest.raises(UsageError, match="Rounding"):
        MeanEmbedding(Axis(2), 1.0, True, common=noisy, common_share=0.2).event(records.facts)


def test_two_releases_have_one_identity_only_if_they_are_the_same() -> None:
    class Other(Axis):
        def exact_bytes(self) -> bytes:
            return b"other"

    one, two = Axis(2), Other(2)
    said = [
        MeanEmbedding(first, 1.0, True, common=second, common_share=share).identity()
        for first, second, share in [(one, one, 0.2), (one, two, 0.2), (two, one, 0.2), (one, one, 0.3)]
    ]
    said.append(MeanEmbedding(one, 1.0, True).identity())
    assert len(set(said)) == 5
    # as it was before there was such a row
    assert said[-1] == b"axis" + repr((1.0, True, MeanEmbedding(one, 1.0).count_weight, "cpu")).encode()
    with pytest.raises(UsageError, match="exact_bytes"):
        MeanEmbedding(one, 1.0, True, common=Raw(2), common_share=0.2).identity()
