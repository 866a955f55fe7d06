"""Feature maps: norm one, the kernel they stand for, the same again from their dictionary, gradients."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot.errors import DataError, UsageError
from privot.synthesis.features import Fourier, Stack, feature_map

ANY = st.floats(allow_nan=False, allow_infinity=False)
MAPS = [
    Fourier(3, 7, [0.5, 1.0], 1),
    Fourier(3, 7, [0.5], 1, [-1.0, 0.0, 5e5], [1.0, 1e-3, 6e5], "independent"),
    Stack([Fourier(3, 5, [1.0], 2), Fourier(3, 2, [3.0], 3)], [1.0, 3.0]),
]


@settings(max_examples=100)
@given(arrays(np.float64, (4, 3), elements=ANY), st.sampled_from(MAPS))
def test_the_norm_is_one_whatever_the_record(x: np.ndarray, features: Any) -> None:
    for row in features.features(torch.from_numpy(x)).numpy():
        squared = sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))
        assert abs(float(squared) - 1.0) < 1e-13


@pytest.mark.parametrize("frame", ["orthogonal", "independent"])
def test_inner_products_are_the_gaussian_kernel(frame: Any) -> None:
    generator = np.random.default_rng(4)
    x = generator.uniform(size=(6, 5))
    low, high = -2.0, 4.0
    features = Fourier(5, 20_000, [0.4, 1.5], 5, low, high, frame)
    phi = features.features(torch.from_numpy(low + (high - low) * x)).numpy()
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    kernel = np.mean([np.exp(-squared / (2 * h * h)) for h in (0.4, 1.5)], axis=0)
    # each entry is a mean of 20,000 cosines of variance at most 1/2
    assert np.abs(phi @ phi.T - kernel).max() < 5 * math.sqrt(0.5 / 20_000)


@pytest.mark.parametrize("features", MAPS)
def test_a_map_comes_back_from_its_dictionary(features: Any) -> None:
    again = feature_map(json.loads(json.dumps(features.to_dict())))
    x = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    assert torch.equal(features.features(x), again.features(x))
    assert (again.size, again.dim) == (features.size, features.dim)


def test_float32_agrees_and_has_gradients() -> None:
    features = Fourier(3, 7, [0.5], 1, low=0.0, high=2.0)
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(7), dtype=torch.float64) * 2
    single = x.float().requires_grad_()
    out = features.features(single)
    assert out.dtype is torch.float32
    # records are snapped to 2⁻¹⁶ in float64 only
    assert float((out.double() - features.features(x)).abs().max().detach()) < 1e-3
    out.square().sum().backward()
    weights = torch.rand(14, generator=torch.Generator().manual_seed(8))
    (slope,) = torch.autograd.grad((features.features(single) * weights).sum(), single)
    step = 1e-2
    for i in range(3):
        shifted = [single.detach().clone() for _ in range(2)]
        shifted[0][0, i] += step
        shifted[1][0, i] -= step
        up, down = (float((features.features(s) * weights).sum()) for s in shifted)
        assert float(slope[0, i]) == pytest.approx((up - down) / (2 * step), abs=2e-2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dim": 0},
        {"frequencies": 0},
        {"bandwidths": []},
        {"bandwidths": [0.0]},
        {"bandwidths": [math.nan]},
        {"bandwidths": [1.0] * 5},
        {"seed": -1},
        {"low": 1.0, "high": 1.0},
        {"low": 0.0, "high": math.inf},
        {"low": [0.0, 0.0]},
    ],
)
def test_impossible_maps_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Fourier(**{"dim": 3, "frequencies": 4, "bandwidths": [1.0], "seed": 1, **arguments})


def test_bandwidths_too_small_for_exact_phases_are_refused() -> None:
    with pytest.raises(UsageError, match="too small"):
        Fourier(3, 4, [1e-9], 1).features(torch.zeros(1, 3))


def test_stacks_that_cannot_be_are_refused() -> None:
    for maps, weights in (
        ([], None),
        ([MAPS[0]], [0.0]),
        ([MAPS[0]], [1.0, 1.0]),
        ([MAPS[0], Fourier(4, 2, [1], 1)], None),
    ):
        with pytest.raises(UsageError):
            Stack(maps, weights)


@pytest.mark.parametrize("fields", [{}, {"kind": "cosine"}, {"kind": "fourier"}, {"kind": "stack", "maps": 3}, []])
def test_a_damaged_description_is_refused(fields: Any) -> None:
    with pytest.raises(DataError):
        feature_map(fields)
