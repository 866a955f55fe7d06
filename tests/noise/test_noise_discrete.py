"""The discrete Gaussian against its probability function, by χ² and through its exact building blocks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import chdtrc

from privot.noise import SystemNoise
from privot.noise.discrete_gaussian import _Coins

FALSE_ALARM = 1e-7


def p_value(draws: np.ndarray, sigma_squared: float) -> float:
    """χ² of the counts against P(x) ∝ exp(−x²/2σ²), tails pooled where fewer than ten are expected."""
    reach = int(20 * math.sqrt(sigma_squared)) + 20
    support = np.arange(-reach, reach + 1)
    law = np.exp(-(support**2) / (2 * sigma_squared))
    expected = draws.size * law / law.sum()
    counts = np.bincount(draws + reach, minlength=support.size).astype(float)
    common = expected >= 10
    observed = np.append(counts[common], counts[~common].sum())
    predicted = np.append(expected[common], expected[~common].sum())
    chi_square = float(np.sum((observed - predicted) ** 2 / predicted))
    return float(chdtrc(observed.size - 1, chi_square))


@pytest.mark.gate(2)
@pytest.mark.statistical
@pytest.mark.parametrize("sigma_squared", [0.4, 1, Fraction(7, 3), 30.25])
def test_counts_follow_the_probability_function(sigma_squared: Fraction | float) -> None:
    draws = SystemNoise().discrete_gaussian(sigma_squared, 8000)
    assert draws.dtype == np.int64
    assert p_value(draws, float(sigma_squared)) > FALSE_ALARM
    # two thirds of σ must be noticed, and so must a sign or a zero that is counted twice
    assert p_value(draws, float(sigma_squared) * 4 / 9) < FALSE_ALARM
    assert p_value(np.where(draws == 0, 1, draws), float(sigma_squared)) < FALSE_ALARM


def test_large_and_tiny_parameters() -> None:
    noise = SystemNoise()
    far = noise.discrete_gaussian(2**100, (3, 100))
    assert far.shape == (3, 100)
    spread = float(np.mean((far / 2.0**50) ** 2))
    assert abs(spread - 1.0) < 5.4 * math.sqrt(2 / 300)
    assert not np.any(noise.discrete_gaussian(Fraction(1, 1000), 50))
    assert noise.discrete_gaussian(1.0, ()).shape == ()
    assert noise.discrete_gaussian(1.0, 0).size == 0


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_coins_fall_with_probability_exp_minus_gamma(gamma: Fraction) -> None:
    coins, tosses = _Coins(SystemNoise().uniform_bits), 10_000
    chance = math.exp(-gamma)
    happened = sum(coins.happens_exp(gamma) for _ in range(tosses))
    assert abs(happened - tosses * chance) <= 5.4 * math.sqrt(tosses * chance * (1 - chance))


@pytest.mark.parametrize("bound", [1, 2, 3, 2**64, 2**64 + 1, 3 * 2**90])
def test_integers_of_any_size_are_uniform(bound: int) -> None:
    coins, draws = _Coins(SystemNoise().uniform_bits), 3000
    values = [coins.below(bound) for _ in range(draws)]
    assert all(0 <= value < bound for value in values)
    cells = min(bound, 3)
    counts = np.bincount([value * cells // bound for value in values], minlength=cells)
    sizes = np.diff([-(-cell * bound // cells) for cell in range(cells + 1)]).astype(float) / bound
    assert cells == 1 or chdtrc(cells - 1, float(np.sum((counts - draws * sizes) ** 2 / (draws * sizes)))) > FALSE_ALARM
