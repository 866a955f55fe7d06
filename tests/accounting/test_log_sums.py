"""ln Σ b·e^a is SciPy's to the last bit, and stands every size of exponent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from privot.accounting.log_sums import log_sum_exp

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 300.0, 1e5])
@pytest.mark.parametrize("shape", [(1,), (7,), (4001,), (5, 1000)])
def test_sums_are_those_of_scipy_to_the_last_bit(shape: tuple[int, ...], scale: float) -> None:
    for _ in range(5):
        a = scale * RANDOM.normal(size=shape)
        b = RANDOM.random(shape) * (RANDOM.random(shape) < 0.7)
        b[..., 0] = 0.5
        kept = a.copy()
        assert np.array_equal(log_sum_exp(a), logsumexp(a, axis=-1))
        assert np.array_equal(log_sum_exp(a, b), logsumexp(a, axis=-1, b=b))
        assert np.array_equal(a, kept)


def test_equal_exponents_and_empty_weights() -> None:
    assert log_sum_exp(np.zeros(4)) == np.log(4.0)
    assert log_sum_exp(np.array([1e300, 3.0]), np.array([0.0, 2.0])) == 3.0 + np.log(2.0)
    assert log_sum_exp(np.array([1.0, 2.0]), np.zeros(2)) == -np.inf
    assert log_sum_exp(np.array([-np.inf, -np.inf])) == -np.inf
    assert log_sum_exp(np.array([np.inf, 0.0])) == np.inf
    assert log_sum_exp(np.array([-np.inf, 1.0])) == 1.0
