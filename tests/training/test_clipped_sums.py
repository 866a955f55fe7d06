"""DP-SGD's sum of clipped gradients: whole numbers, so no record moves it by more than its own gradient."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privot import Adjacency, Vault
from privot.accounting import FixedSize, Poisson
from privot.audit.simulation.noiseless import NoNoise
from privot.errors import UsageError
from privot.mechanisms import ClippedGradients
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.mechanism import Facts
from privot.noise import SeededNoise
from privot.noise.adding import grid_of

SIGMA = 2.0**-20
"""So little noise that the grid it is added on, 2⁻⁶⁰, hides no rounding of the sum."""
COARSE = 2.0**19
"""Noise whose grid takes most of the margin for four numbers: 2·2⁻²¹ of 1e-6."""


class Rows:
    """Gradients that are the rows themselves."""

    def __init__(self, size: int) -> None:
        self.size = size

    def each(self, weights: Any, rows: Any, labels: Any) -> Any:
        return rows

    def mean(self, weights: Any, rows: Any, labels: Any) -> Any:
        return rows.mean(axis=0)


def summed(x: np.ndarray) -> np.ndarray:
    """One step over all rows of `x` at clip 1, with the noise replaced by zeros."""
    mechanism = ClippedGradients(Rows(x.shape[1]), Query(np.zeros(1)), SIGMA, 1.0, Poisson(1.0), 1, labels=False)
    vault = Vault(x, clip=1e3, adjacency="add-remove", budget=(1e15, 1e-5), noise=NoNoise(SeededNoise(1)))
    release = next(iter(vault.stream(mechanism, purpose="test", allow_unproven=True)))
    return np.asarray(release.value)


def far_and_back(records: int = 600) -> np.ndarray:
    """Rows whose running sum goes far out and comes back, so that what was rounded on the way stays to be seen."""
    dice = np.random.default_rng(3)
    there = np.abs(dice.normal(size=(records // 2, 3)))
    return np.concatenate([there, -there + 1e-6 * dice.normal(size=there.shape)])


def test_the_order_of_the_records_does_not_change_one_bit_of_the_sum() -> None:
    x = far_and_back()
    first = summed(x)
    assert np.abs(first).max() < 2.0**21 * SIGMA
    for seed in range(3):
        assert np.array_equal(summed(np.random.default_rng(seed).permutation(x)), first)


@pytest.mark.parametrize("place", [0, 1, 63, 64, 300, 600])
def test_one_more_record_moves_the_sum_by_its_own_gradient_exactly(place: int) -> None:
    x = far_and_back()
    more = np.array([0.1, -0.2, 0.3])
    moved = summed(np.insert(x, place, more, axis=0)) - summed(x)
    # alone it is the same, to the bit: whatever stands beside a record adds no rounding to it
    assert np.array_equal(moved, summed(more[None]))
    assert np.linalg.norm(moved) <= np.linalg.norm(more) <= np.linalg.norm(moved) + math.sqrt(3) * 2.0**-32


def test_the_sum_is_the_exact_one_of_the_clipped_gradients() -> None:
    x = far_and_back() * 3.0
    bound = 1.0 - MARGIN
    exact = [Fraction(0)] * 3
    for row in x:
        values = [Fraction(float(v)) for v in row]
        share = min(Fraction(1), Fraction(bound) / Fraction(math.sqrt(sum(v * v for v in values))))
        # towards zero, in whole numbers of 2⁻³²
        exact = [total + Fraction(int(share * v * 2**32), 2**32) for total, v in zip(exact, values, strict=True)]
    found = [Fraction(float(v)) for v in summed(x)]
    # a float64 norm may put a coordinate on the next whole number; the sum itself adds nothing
    steps = [abs(a - b) * 2**32 for a, b in zip(found, exact, strict=True)]
    assert all(step.denominator == 1 for step in steps)
    assert max(steps) <= 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1.0, 1e90])
def test_a_clipped_gradient_is_no_longer_than_its_bound_up_to_the_stated_rounding(size: int, scale: float) -> None:
    from privot.mechanisms.gradients.clipped_sums import clipped_sum, norm_rounding, unit_of

    dice = np.random.default_rng(size)
    for row in scale * dice.normal(size=(30, size)) * np.logspace(-3, 3, 30)[:, None]:
        whole, _ = clipped_sum(row[None], scale)
        length_squared = sum(Fraction(int(v)) ** 2 for v in whole) * Fraction(2) ** (2 * unit_of(scale))
        assert length_squared <= (Fraction(scale) * (1 + Fraction(norm_rounding(size)))) ** 2


def test_the_stated_bound_covers_the_worst_rounding_of_the_largest_sum() -> None:
    from privot.mechanisms.gradients.clipped_sums import MAX_SAMPLE, float_of, sum_rounding, unit_of

    dice = np.random.default_rng(0)
    # what the largest sample can add up to: every record a whole bound in one coordinate
    largest = MAX_SAMPLE * 2 ** -unit_of(1.0)
    for whole in [largest, -largest, *(int(v) for v in dice.integers(-largest, largest, 300))]:
        (made,) = float_of(np.array([whole]), 1.0)
        off = abs(Fraction(float(made)) - whole * Fraction(2) ** unit_of(1.0))
        # neighbours may both be off, towards each other or apart
        assert 2 * off <= Fraction(sum_rounding(MAX_SAMPLE))
    assert sum_rounding(MAX_SAMPLE) < MARGIN


def test_a_sample_whose_sum_could_round_beyond_the_margin_is_refused_before_it_is_paid() -> None:
    def event(batch: int, sigma: float = 1.0, size: int = 4) -> Any:
        mechanism = ClippedGradients(
            Rows(size), Query(np.zeros(1)), sigma, 1.0, FixedSize(batch, 2**40), 1, labels=False
        )
        return mechanism.event(Facts(size, 2**40, 1.0, Adjacency.REPLACE_ONE))

    assert event(2**31 - 1)
    with pytest.raises(UsageError, match="Rounding could outgrow the margin"):
        event(2**31)
    # noise on a coarser grid leaves less room: a smaller sample is too many then
    assert 0.9 * MARGIN < grid_of(COARSE) * math.sqrt(4.0) < MARGIN
    assert event(1000, COARSE)
    with pytest.raises(UsageError, match="Rounding could outgrow the margin"):
        event(2**31 - 1, COARSE)


def test_poisson_samples_are_judged_by_the_largest_one_that_can_be_summed() -> None:
    """Their size is private, so it may decide nothing: what is paid for works for every size."""
    facts = Facts(4, None, 1.0, Adjacency.ADD_REMOVE)
    for rate in (1e-9, 1.0):
        mechanism = ClippedGradients(Rows(4), Query(np.zeros(1)), COARSE, 1.0, Poisson(rate), 1, labels=False)
        with pytest.raises(UsageError, match="Rounding could outgrow the margin"):
            mechanism.event(facts)


def test_gradients_on_tensors_are_summed_to_the_same_bits() -> None:
    torch = pytest.importorskip("torch")
    from privot.mechanisms.gradients.clipped_sums import clipped_sum

    rows = np.random.default_rng(0).normal(size=(64, 301)) * np.logspace(-3, 3, 64)[:, None]
    rows[3], rows[4, 2], rows[5], rows[6, 1] = np.nan, np.inf, 1e300, -np.inf
    given = rows.copy()
    plain, norms = clipped_sum(given, 0.5)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        whole, lengths = clipped_sum(torch.from_numpy(given).to(device), 0.5)
        assert np.array_equal(plain, whole)
        assert np.array_equal(norms, lengths)
    assert np.array_equal(given, rows, equal_nan=True)


@pytest.mark.parametrize("used", [0, 1, 7, 64])
def test_rows_that_only_fill_a_block_add_nothing(used: int) -> None:
    torch = pytest.importorskip("torch")
    from privot.mechanisms.gradients.clipped_sums import clipped_sum

    rows = np.random.default_rng(0).normal(size=(64, 5))
    rows[40] = np.inf
    expected, lengths = clipped_sum(rows[:used], 0.5)
    for given in (rows, torch.from_numpy(rows)):
        whole, norms = clipped_sum(given, 0.5, used)
        assert np.array_equal(whole, expected)
        assert np.array_equal(norms, lengths)
