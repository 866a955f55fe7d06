"""Functions of groups are what they are said to be, and the strength of dependence is found again in noisy counts."""

from __future__ import annotations

import numpy as np
import pytest

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.conditional import draw, fit_conditional, one_hot, probabilities
from privot.synthesis.tabular.column_laws.group_basis import BOUNDS, basis_of, pair_ridge, stacked, strength, strengths

NUMBERS = Axis(0, 13, tuple(np.arange(1, 12) / 12), missing=True, ordered=True)
WORDS = Axis(0, 5)


def shares(size: int, seed: int = 0) -> np.ndarray:
    out = np.random.default_rng(seed).uniform(0.5, 1.0, size)
    return np.asarray(out / out.sum())


def test_functions_of_an_ordered_column_are_orthonormal_and_rise_in_degree() -> None:
    p = shares(13)
    basis = basis_of(p, NUMBERS, np.arange(13))
    np.testing.assert_allclose(basis.vectors.T @ (p[:, None] * basis.vectors), np.eye(12), atol=1e-9)
    # orthogonal to the constant: they say nothing about the column itself
    np.testing.assert_allclose(p @ basis.vectors, 0.0, atol=1e-9)
    # the missing value has a function of its own: all others are equal there
    alone = basis.vectors[:, 0]
    assert np.ptp(alone[:12]) < 1e-9
    assert abs(alone[12] - alone[0]) > 1.0
    assert basis.blocks.tolist() == [0, 1, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5]
    # the first polynomial rises with the rank
    assert (np.diff(basis.vectors[:12, 1]) > 0).all() or (np.diff(basis.vectors[:12, 1]) < 0).all()


def test_a_common_value_stands_for_itself() -> None:
    p = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    axis = Axis(0, 6, (0.1, 0.2, 0.3, 0.4, 0.5), ordered=True)
    # the first group holds two cells, the third a single one
    basis = basis_of(p, axis, np.array([0, 0, 1, 2, 3, 4]))
    assert (basis.blocks == 0).sum() == 3


def test_columns_without_an_order_keep_their_groups() -> None:
    basis = basis_of(shares(5), WORDS, np.arange(5))
    np.testing.assert_array_equal(basis.vectors, np.eye(5))
    assert set(basis.blocks.tolist()) == {0}


@pytest.mark.parametrize("tau", [0.05, 0.3])
def test_strength_is_found_again(tau: float) -> None:
    rng = np.random.default_rng(0)
    known, variance = np.full(4000, 1000.0), np.full(4000, 80.0**2)
    found = known * tau * rng.normal(size=4000) + 80.0 * rng.normal(size=4000)
    assert strength(found, known, variance) == pytest.approx(tau, rel=0.1)


def test_noise_alone_has_hardly_any_strength() -> None:
    rng = np.random.default_rng(0)
    left, right = basis_of(shares(13), NUMBERS, np.arange(13)), basis_of(shares(5, 1), WORDS, np.arange(5))
    found = []
    for _ in range(200):
        noise = 50.0 * rng.normal(size=(13, 5))
        noise -= noise.mean(axis=0) + noise.mean(axis=1, keepdims=True) - noise.mean()
        tau, known, variance = strengths(noise, left, right, (shares(13), shares(5, 1)), 50.0, 1e4)
        found.append(float((np.square(known * tau) / (np.square(known * tau) + variance)).mean()))
    # the share of the noise that is believed, which would be ½ for an estimate without caution
    assert np.mean(found) < 0.15
    assert np.median(found) < 0.1


def test_the_variance_of_coefficients_is_what_noise_makes() -> None:
    rng = np.random.default_rng(0)
    p, q = shares(13), shares(5, 1)
    left, right = basis_of(p, NUMBERS, np.arange(13)), basis_of(q, WORDS, np.arange(5))
    noise = 50.0 * rng.normal(size=(4000, 13, 5))
    noise -= (
        noise.mean(axis=1, keepdims=True) + noise.mean(axis=2, keepdims=True) - noise.mean(axis=(1, 2))[:, None, None]
    )
    seen = (left.vectors.T @ noise @ right.vectors).var(axis=0)
    variance = strengths(noise[0], left, right, (p, q), 50.0, 1e4)[2]
    np.testing.assert_allclose(seen, variance, rtol=0.15)


def test_a_smooth_dependence_is_fitted_better_than_group_by_group() -> None:
    rng = np.random.default_rng(0)
    n, size, sd = 20_000, 12, 60.0
    axis = Axis(0, size, tuple(np.arange(1, size) / size), ordered=True)
    p = np.full(size, 1.0 / size)
    rank = np.linspace(-1, 1, size)
    truth = np.outer(p, p) * np.exp(0.8 * np.outer(rank, rank))
    truth /= truth.sum()
    for _ in range(200):
        truth *= (p / truth.sum(axis=1))[:, None]
        truth *= p / truth.sum(axis=0)
    basis = basis_of(p, axis, np.arange(size))
    z = one_hot(np.repeat(np.arange(size), 400)[:, None], [size])
    errors = []
    for _ in range(5):
        noise = sd * rng.normal(size=(size, size))
        noise -= noise.mean(axis=0) + noise.mean(axis=1, keepdims=True) - noise.mean()
        seen = truth + noise / n
        excess = n * (seen - np.outer(p, p))
        ridge = pair_ridge(excess, basis, basis, (p, p), sd, n)
        theta, bias = fit_conditional(z, seen, p, ridge, n, bases=(stacked([basis]), basis.vectors))
        fitted = probabilities(one_hot(np.arange(size)[:, None], [size]), theta, bias) / size
        errors.append([0.5 * np.abs(table - truth).sum() for table in (fitted, seen, np.outer(p, p))])
    ours, raw, independent = np.mean(errors, axis=0)
    assert ours < 0.35 * independent
    assert ours < 0.25 * raw


def test_bounds_hold() -> None:
    assert strength(np.zeros(9), np.ones(9), np.ones(9)) == BOUNDS[0]
    assert strength(np.full(9, 1e9), np.ones(9), np.ones(9)) == BOUNDS[1]
    assert stacked([]).shape == (0, 0)


# --- draws


def law(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(7, 4)), rng.normal(size=4)


def test_drawn_counts_are_closer_to_their_expectation_than_independent_draws() -> None:
    rng = np.random.default_rng(1)
    theta, bias = law()
    codes = np.column_stack([rng.integers(0, 3, 20_000), rng.integers(0, 4, 20_000)])
    z = one_hot(codes, [3, 4])
    chance = probabilities(z, theta, bias)
    scores = []
    for seed in range(10):
        drawn = draw(z, theta, bias, np.random.default_rng(seed))
        gap = z.T @ (np.eye(4)[drawn] - chance)
        scores.append(np.mean(np.square(gap) / (z.T @ (chance * (1.0 - chance)))))
    # independent draws give 1
    assert np.mean(scores) < 0.25


@pytest.mark.slow
def test_every_row_keeps_its_own_law() -> None:
    theta, bias = law()
    codes = np.column_stack([np.arange(1200) % 3, np.arange(1200) // 3 % 4])
    z = one_hot(codes, [3, 4])
    chance = probabilities(z, theta, bias)
    drawn = np.stack([draw(z, theta, bias, np.random.default_rng(seed)) for seed in range(400)])
    kinds = codes[:, 0] * 4 + codes[:, 1]
    late = np.arange(1200) >= 900
    for kind in range(12):
        for rows in (late & (kinds == kind), ~late & (kinds == kind)):
            seen = np.bincount(drawn[:, rows].ravel(), minlength=4) / (400 * rows.sum())
            np.testing.assert_allclose(seen, chance[kinds == kind][0], atol=0.03)


@pytest.mark.parametrize("rows", [1, 2, 299, 301, 60_001])
def test_any_number_of_rows_is_drawn(rows: int) -> None:
    theta, bias = law()
    z = one_hot(np.zeros((rows, 2), dtype=np.int64), [3, 4])
    drawn = draw(z, theta, bias, np.random.default_rng(0))
    assert drawn.shape == (rows,)
    assert set(drawn.tolist()) <= set(range(4))
