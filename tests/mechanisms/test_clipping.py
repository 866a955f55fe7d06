"""Clipping bounds every row in exact arithmetic, touches no row within the bound, and keeps directions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from privot.mechanisms.clipping import MARGIN, clip_rows

ANY = st.floats(allow_nan=False, allow_infinity=False)
CLIPS = st.floats(1e-100, 1e100)


def squared(row: np.ndarray) -> Fraction:
    """‖row‖² without any rounding."""
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=ANY), CLIPS)
def test_norm_is_within_the_bound_exactly(x: np.ndarray, clip: float) -> None:
    for row in clip_rows(x, clip):
        assert squared(row) <= Fraction(clip) ** 2


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, (3, 5), elements=st.floats(-1e3, 1e3)), st.floats(1e-3, 1e4))
def test_agrees_with_the_plain_formula(x: np.ndarray, clip: float) -> None:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    plain = x * np.minimum(1.0, clip / np.maximum(norms, 1e-300))
    np.testing.assert_allclose(clip_rows(x, clip), plain, rtol=1.1 * MARGIN, atol=1e-300)


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, (4, 3), elements=st.floats(-1, 1)))
def test_rows_within_the_bound_come_back_bit_for_bit(x: np.ndarray) -> None:
    assert clip_rows(x, 2.0).tobytes() == x.tobytes()


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (4, 3), elements=ANY), st.integers(0, 3), CLIPS)
def test_a_row_does_not_depend_on_the_others(x: np.ndarray, i: int, clip: float) -> None:
    np.testing.assert_array_equal(clip_rows(x, clip)[i], clip_rows(x[i : i + 1], clip)[0])


@pytest.mark.parametrize("huge", [1e300, 1.7e308])
def test_huge_values_neither_overflow_nor_lose_their_direction(huge: float) -> None:
    row = clip_rows(np.array([[huge, huge, 0.0, -huge]]), 0.5)[0]
    np.testing.assert_allclose(row, 0.5 / np.sqrt(3) * np.array([1, 1, 0, -1]), rtol=1.1 * MARGIN)


def test_zero_and_denormal_rows_stay() -> None:
    x = np.array([[0.0, 0.0], [5e-324, -5e-324], [1e-310, 0.0]])
    assert clip_rows(x, 0.5).tobytes() == x.tobytes()


def test_a_row_on_the_bound_is_kept_below_it_by_the_margin() -> None:
    row = clip_rows(np.array([[0.3, 0.4]]), 0.5)[0]
    assert squared(row) <= (Fraction(0.5) * (1 - Fraction(MARGIN) / 2)) ** 2
    np.testing.assert_allclose(row, [0.3, 0.4], rtol=1.1 * MARGIN)


def test_the_input_is_not_changed() -> None:
    x = np.full((2, 3), 9.0)
    clip_rows(x, 1.0)
    assert (x == 9.0).all()
