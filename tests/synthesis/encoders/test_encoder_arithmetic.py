"""Sums of encoders are exact: they agree with rational arithmetic, and no order of summation changes them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.synthesis.neural.encoders import exact_arithmetic as exact


def mixed(seed: int, *shape: int) -> torch.Tensor:
    """Numbers of very different sizes."""
    random = np.random.default_rng(seed)
    return torch.from_numpy(random.normal(size=shape) * 10.0 ** random.integers(-8, 8, shape))


def test_products_are_those_of_rational_numbers_rounded_once() -> None:
    x, w = mixed(0, 3, 40), mixed(1, 5, 40)
    weights = exact.Weights(w)
    high, low, unit = exact.halves(x, 17)
    found = weights.along_last(x)
    for i in range(3):
        for j in range(5):
            a = sum(int(p) * int(q) for p, q in zip(weights.whole[j], high[i], strict=True))
            b = sum(int(p) * int(q) for p, q in zip(weights.whole[j], low[i], strict=True))
            assert abs(a) < 2**53
            assert abs(b) < 2**53
            wanted = float(Fraction(a * 2**17 + b)) * float(unit[i]) * float(weights.unit[j])
            assert float(found[i, j]) == wanted


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 300))
def test_no_order_of_summation_changes_a_sum(seed: int, count: int) -> None:
    x, w = mixed(seed, 2, count), mixed(seed + 1, 3, count)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(count))
    assert torch.equal(exact.summed(x, (1,)), exact.summed(x[:, order], (1,)))
    assert torch.equal(exact.norms(x, (1,)), exact.norms(x[:, order], (1,)))
    # the weights' own unit comes from a float sum: the same weights in another order, as whole numbers
    one, other = exact.Weights(w), exact.Weights(w[:, order])
    assert torch.equal(one.along_last(x), other.along_last(x[:, order]))
    assert torch.equal(one.times(x[:, :, None])[..., 0], one.along_last(x))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 400))
def test_sums_and_norms_are_near_the_rational_ones(seed: int, count: int) -> None:
    x = mixed(seed, 1, count)
    numbers = [Fraction(float(v)) for v in x[0]]
    largest = max(abs(v) for v in numbers)
    assert abs(Fraction(float(exact.summed(x, (1,)))) - sum(numbers)) <= largest * count / 2**40
    length = float(sum(v * v for v in numbers)) ** 0.5
    assert float(exact.norms(x, (1,))) == pytest.approx(length, rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [((3, 3), (1, 1), (1, 1), (1, 1), 1), ((5, 2), (2, 1), (0, 3), (1, 2), 1), ((3, 1), (2, 2), (2, 0), (2, 1), 4)],
)
def test_convolutions_agree_with_those_of_the_library(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int], groups: int
) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 8, 9, 11, dtype=torch.float64, generator=random)
    w = torch.randn(12, 8 // groups, *kernel, dtype=torch.float64, generator=random)
    found = exact.convolved(x, exact.Weights(w.reshape(groups, 12 // groups, -1)), kernel, stride, padding, dilation)
    wanted = torch.nn.functional.conv2d(x, w, None, stride, padding, dilation, groups)
    torch.testing.assert_close(found, wanted, atol=1e-7, rtol=0.0)


def test_convolutions_and_pooling_do_not_depend_on_the_order_of_their_sums() -> None:
    x, w = mixed(5, 2, 30, 6, 6), mixed(6, 4, 30, 3, 3)
    order = torch.from_numpy(np.random.default_rng(1).permutation(30))
    sizes = ((3, 3), (1, 1), (1, 1), (1, 1))
    found = exact.convolved(x, exact.Weights(w.reshape(1, 4, -1)), *sizes)
    other = exact.convolved(x[:, order], exact.Weights(w[:, order].reshape(1, 4, -1)), *sizes)
    assert torch.equal(found, other)
    # upside down and mirrored, sums run the other way
    turned = x.flip(2, 3)
    assert torch.equal(
        exact.window_sums(x, (3, 3), (3, 3), (0, 0), False).flip(2, 3),
        exact.window_sums(turned, (3, 3), (3, 3), (0, 0), False),
    )
    halves = torch.tensor([[1.0, 1.0, 1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    assert torch.equal(exact.pooled(x, halves, halves).flip(2, 3), exact.pooled(turned, halves, halves))


def test_rows_that_are_not_finite_leave_the_others_alone() -> None:
    x, weights = mixed(3, 6, 20), exact.Weights(mixed(4, 7, 20))
    usual = weights.along_last(x), exact.summed(x, (1,)), exact.norms(x, (1,))
    for row, hostile in ((1, math.nan), (2, math.inf), (3, -math.inf), (4, 1e300)):
        x[row, 5] = hostile
    found = weights.along_last(x), exact.summed(x, (1,)), exact.norms(x, (1,))
    for one, other in zip(usual, found, strict=True):
        assert torch.equal(one[[0, 5]], other[[0, 5]])
        assert bool(torch.isnan(other[1:5]).all())


def polynomial(x: float) -> float:
    """eˣ = 2ᵏ·Σ rⁿ/n!, r = x − k·ln 2, k whole, each operation rounded by itself."""
    turns = round(x * 1.4426950408889634)
    rest = x - turns * 0.6931471803691238
    rest = rest - turns * 1.9082149292705877e-10
    total = 1.0 / math.factorial(13)
    for n in range(12, -1, -1):
        total = total * rest
        total = total + 1.0 / math.factorial(n)
    return math.ldexp(total, turns)


def test_roots_are_the_nearest_numbers() -> None:
    ends = [0.0, 5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0]
    x = torch.cat([mixed(0, 400).abs(), torch.tensor(ends, dtype=torch.float64)])
    for value, found in zip(x.tolist(), exact.root(x).tolist(), strict=True):
        below, above = math.nextafter(found, -math.inf), math.nextafter(found, math.inf)
        # √v lies between the middles to the next numbers on both sides
        exactly = Fraction(value)
        assert found == 0.0 or ((Fraction(below) + Fraction(found)) / 2) ** 2 <= exactly
        assert math.isinf(above) or exactly <= ((Fraction(above) + Fraction(found)) / 2) ** 2
    assert bool(torch.isnan(exact.root(torch.tensor([-1.0], dtype=torch.float64))).all())


def test_weights_have_the_same_units_in_any_order() -> None:
    w = torch.full((1, 300), 2.0**-52 * 1.5, dtype=torch.float64)
    w[0, 0] = 1.0
    assert torch.equal(exact.Weights(w).unit, exact.Weights(w.flip(1)).unit)


def test_the_exponential_is_right_and_the_same_in_any_place() -> None:
    x = torch.linspace(-30.0, 30.0, 1001, dtype=torch.float64)
    found = exact.exponential(x)
    torch.testing.assert_close(found, torch.exp(x), atol=0.0, rtol=4e-15)
    # one by one: no number stands at the end of a stretch of memory or in its middle
    assert torch.equal(torch.cat([exact.exponential(v[None]) for v in x]), found)
    # and bit for bit the polynomial in Python's own numbers: another formula would differ in the last place
    library = [float(v) for v in torch.exp(x)]
    python = [polynomial(float(v)) for v in x]
    assert [float(v) for v in found] == python
    assert library != python
    assert bool(torch.isnan(exact.exponential(torch.tensor([math.nan], dtype=torch.float64))).all())
    assert bool(torch.isfinite(exact.exponential(torch.tensor([math.inf, -math.inf], dtype=torch.float64))).all())


def test_powers_of_two_are_exact() -> None:
    exponents = torch.arange(-1022, 1024)
    assert exact.power_of_two(exponents).tolist() == [math.ldexp(1.0, int(e)) for e in exponents]
