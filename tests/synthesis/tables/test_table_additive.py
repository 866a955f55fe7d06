"""An additive law is found from its moments, and noise does not get in where columns repeat each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from privot.synthesis.tabular.column_laws.conditional import one_hot
from privot.synthesis.tabular.label_laws.additive_label import _slopes, fit_additive

ROWS = 4000


def rows(seed: int = 0, repeated: bool = False) -> tuple[np.ndarray, csr_matrix]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (ROWS, 2))
    if repeated:
        # the second column repeats the first but for one row in two hundred
        codes[:, 1] = np.where(rng.random(ROWS) < 0.995, codes[:, 0], codes[:, 1])
    return codes, one_hot(codes, [4, 4])


def law(z: csr_matrix, theta: np.ndarray, bias: np.ndarray) -> np.ndarray:
    logits = z @ theta + bias
    chance = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_law_behind_exact_moments_is_found(classes: int) -> None:
    _, z = rows()
    rng = np.random.default_rng(1)
    theta = np.hstack([np.zeros((8, 1)), rng.normal(size=(8, classes - 1))])
    p = law(z, theta, np.zeros(classes))
    totals = p[:, 1:].sum(axis=0), 1e4
    variance = np.full((8, classes - 1), 1e-4)
    found, bias = fit_additive(z, np.zeros((ROWS, classes)), z.T @ p[:, 1:], variance, totals, ROWS, 100.0)
    np.testing.assert_allclose(law(z, found, bias), p, atol=1e-3)
    assert (found[:, 0] == 0).all()


def test_nothing_moves_where_the_offsets_already_meet_the_moments() -> None:
    _, z = rows()
    offsets = np.hstack([np.zeros((ROWS, 1)), z @ np.linspace(-1, 1, 8)[:, None]])
    p = np.exp(offsets) / np.exp(offsets).sum(axis=1, keepdims=True)
    found, bias = fit_additive(z, offsets, z.T @ p[:, 1:], np.full((8, 1), 9.0), (p[:, 1:].sum(axis=0), 1e4), ROWS, 1.0)
    assert np.abs(found).max() < 1e-6
    assert np.abs(bias).max() < 1e-6


def test_noise_does_not_get_in_where_columns_repeat_each_other() -> None:
    """The mean over draws of the squared error of the logits is near that of one column alone, not many times it."""
    error = {}
    for repeated in (False, True):
        _, z = rows(repeated=repeated)
        theta = np.zeros((8, 2))
        theta[:4, 1] = [-1.0, -0.3, 0.3, 1.0]
        p = law(z, theta, np.zeros(2))[:, 1:]
        rng = np.random.default_rng(2)
        squares = []
        for _ in range(20):
            noisy = z.T @ p + 30.0 * rng.normal(size=(8, 1))
            totals = p.sum(axis=0), 1e4
            found, bias = fit_additive(z, np.zeros((ROWS, 2)), noisy, np.full((8, 1), 900.0), totals, ROWS, 1.0)
            squares.append(np.mean(np.square(z @ found + bias - z @ theta)[:, 1]))
        error[repeated] = np.mean(squares)
    assert error[False] < 0.1
    assert error[True] < 1.5 * error[False]


@pytest.mark.parametrize("free", [1, 2, 5])
def test_slopes_are_those_of_the_moments(free: int) -> None:
    """Against differences of the moments Σ z_f·p_k themselves."""
    _, z = rows()
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(8, free))

    def moments(t: np.ndarray) -> np.ndarray:
        p = law(z, np.hstack([np.zeros((8, 1)), t]), np.zeros(free + 1))[:, 1:]
        return np.asarray(z.T @ p).ravel()

    p = law(z, np.hstack([np.zeros((8, 1)), theta]), np.zeros(free + 1))[:, 1:]
    found = _slopes(z, p)
    for g, m in ((0, 0), (3, free - 1), (7, free // 2)):
        step = np.zeros_like(theta)
        step[g, m] = 1e-5
        slope = (moments(theta + step) - moments(theta - step)) / 2e-5
        assert np.allclose(found[:, g * free + m], slope, rtol=1e-6, atol=1e-4)


@pytest.mark.filterwarnings("ignore:An ill-conditioned matrix")
def test_a_singular_step_is_damped_and_no_error() -> None:
    """Three classes beside two columns that repeat each other, of 10¹² records known to one."""
    rng = np.random.default_rng(1)
    codes = np.repeat(rng.integers(0, 4, (400, 1)), 2, axis=1)
    z, records = one_hot(codes, [4, 4]), 1e12
    law = np.array([0.5, 0.3, 0.2])
    offsets = np.tile(np.log(law), (400, 1))
    # the true law has twice the odds of class 1 in the first group
    shares = np.where(codes[:, :1] == 0, np.array([0.5, 0.6, 0.2]) / 1.3, law)[:, 1:]
    moments, totals = records / 400 * (z.T @ shares), records / 400 * shares.sum(axis=0)
    theta, bias = fit_additive(z, offsets, moments, np.ones((8, 2)), (totals, np.ones(2)), records, 1.0)
    logits = offsets + z @ theta + bias
    fitted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted[:, 1:], shares, atol=1e-4)
