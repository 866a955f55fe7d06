"""Feature maps: norm one, the kernel they stand for, the same again from their dictionary, gradients."""

from __future__ import annotations

import gc
import json
import math
import pickle
import tracemalloc
import weakref
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot.errors import DataError, UsageError
from privot.synthesis.neural.features import fourier
from privot.synthesis.neural.features.class_means import class_means
from privot.synthesis.neural.features.filters import Filtered
from privot.synthesis.neural.features.fourier import Fourier, Stack, feature_map, ready_to_train
from privot.transport.slice_directions import draw_directions

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


IMAGES = [
    Filtered((10, 9), 3, 4, [0.5, 1.0], 1),
    Filtered((3, 8, 7), 2, 3, [0.4], 2, -1.0, 2.0, width=4),
    Filtered((8, 8, 3), 2, 3, [0.4], 2, width=3, cell=2),
    Filtered((9, 10), 3, 4, [0.1, 0.3], 3, cell=2, then=(5, 3, 2)),
    Filtered((3, 8, 8), 2, 3, [0.2], 4, -1.0, 2.0, width=3, cell=2, then=(4, 4, 4)),
]


@pytest.mark.parametrize("features", IMAGES)
def test_filtered_features_have_norm_one_and_come_back_from_their_dictionary(features: Filtered) -> None:
    x = torch.randn(5, features.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(8)) * 3
    phi = features.features(x)
    assert phi.shape == (5, features.size)
    assert torch.allclose(phi.square().sum(1), torch.ones(5, dtype=torch.float64), atol=1e-13)
    again = feature_map(json.loads(json.dumps(features.to_dict())))
    assert torch.equal(again.features(x), phi)


def test_what_filters_see_is_a_pooled_convolution() -> None:
    features = Filtered((8, 12, 3), 4, 2, [1.0], 3, width=5, cell=4)
    x = torch.rand(6, features.dim, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    weights = torch.from_numpy(features.banks[0].weights).T.reshape(4, 3, 5, 5)
    image = x.view(6, 8, 12, 3).permute(0, 3, 1, 2)
    found = torch.nn.functional.conv2d(image, weights, padding=2)[:, :, ::2, ::2].abs()
    pooled = torch.nn.functional.avg_pool2d(found, 2).permute(0, 2, 3, 1).reshape(6, -1) * (4 / math.sqrt(4))
    # snapping the pixels moves a filter's answer by at most its absolute weights, 75 of them, times 2⁻¹⁷
    assert (features.seen(x) - pooled).abs().max() < 2.0**-17 * 9 * 2
    assert torch.allclose(weights.sum((1, 2, 3)), torch.zeros(4, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize(("cell", "stride"), [(2, 2), (4, 2), (1, 1), (2, 1), (3, 1)])
def test_a_second_bank_sees_a_pooled_convolution_of_what_the_first_sees(cell: int, stride: int) -> None:
    features = Filtered((24, 24), 4, 2, [1.0], 3, width=5, cell=2, then=(6, 3, cell, stride))
    x = torch.rand(6, features.dim, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    one = torch.from_numpy(features.banks[0].weights).T.reshape(4, 1, 5, 5)
    two = torch.from_numpy(features.banks[1].weights).T.reshape(6, 4, 3, 3)
    first = torch.nn.functional.avg_pool2d(torch.nn.functional.conv2d(x.view(6, 1, 24, 24), one, padding=2).abs(), 2)
    second = torch.nn.functional.conv2d(2.0 * first, two, padding=1)[:, :, ::stride, ::stride].abs()
    pooled = torch.nn.functional.avg_pool2d(second, cell // stride)
    want = pooled.permute(0, 2, 3, 1).reshape(6, -1) * (cell / math.sqrt(6))
    assert (features.seen(x) - want).abs().max() < 1e-3
    assert features.size == 4
    assert features.inner.dim == (12 // cell) ** 2 * 6
    # of mean zero in every channel, of norm one, and not the first one's draw
    assert torch.allclose(two.sum((2, 3)), torch.zeros(6, 4, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(two.square().sum((1, 2, 3)), torch.ones(6, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize("features", IMAGES)
def test_what_filters_see_is_exact_in_any_company_and_inside_its_range(features: Filtered) -> None:
    x = torch.rand(40, features.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(10))
    x[0], x[1] = 0.0, (torch.arange(features.dim) % 2).double()
    together = features.seen(x)
    assert torch.equal(together, torch.cat([features.seen(row[None]) for row in x]))
    assert float(together.max()) <= float(features.inner.high)
    assert float(together.min()) >= 0.0


@pytest.mark.parametrize("features", IMAGES)
def test_records_are_looked_at_in_pieces_that_fit(features: Filtered, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(7, features.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(10))
    whole = features.seen(x)
    for most in (1, 20_000):
        monkeypatch.setattr("privot.synthesis.neural.features.filter_banks._MAX_HELD", most)
        assert torch.equal(features.seen(x), whole)


@pytest.mark.parametrize("features", IMAGES)
def test_filters_see_generated_samples_in_float32_as_they_see_records(features: Filtered) -> None:
    x = torch.rand(4, features.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(11))
    generated = x.float().requires_grad_()
    seen = features.seen(generated)
    # pixels of records are snapped to 2⁻¹⁶
    torch.testing.assert_close(seen.double(), features.seen(x), rtol=0.0, atol=1e-4)
    (slope,) = torch.autograd.grad(seen.square().sum(), generated)
    moved = (x + 1e-3 * slope).float()
    assert float(features.seen(moved).square().sum()) > float(seen.square().sum())


def test_a_region_of_filter_answers_is_a_whole_number_of_grid_steps() -> None:
    features = Filtered((6, 6), 2, 2, [1.0], 4, cell=2)
    x = torch.round(torch.rand(1, 36, dtype=torch.float64, generator=torch.Generator().manual_seed(11)) * 2**16) / 2**16
    image, weights = x.view(6, 6), features.banks[0].weights
    for region in range(9):
        row, column = 2 * (region // 3), 2 * (region % 3)
        for f in range(2):
            exact = sum(
                (
                    Fraction(float(image[row + i - 2, column + j - 2])) * Fraction(float(weights[5 * i + j, f]))
                    for i in range(5)
                    for j in range(5)
                    if 0 <= row + i - 2 < 6 and 0 <= column + j - 2 < 6
                ),
                Fraction(0),
            )
            assert features.seen(x)[0, 2 * region + f].item() == float(abs(exact)) * (2 / math.sqrt(2))


def _second(cell: int, then: int, seed: int = 3, high: float = 1.0) -> Filtered:
    return Filtered((9, 10), 3, 4, [0.1], seed, 0.0, high, cell=cell, then=(then, 3, 2))


@pytest.mark.parametrize(
    "features",
    [
        *IMAGES,
        Stack([IMAGES[0], Fourier(90, 3, [1.0], 5)], [1.0, 2.0]),
        # first banks that are the same, and such that are not
        Stack([_second(2, 5), _second(2, 4), _second(1, 5), _second(2, 5, seed=4), _second(2, 5, high=2.0), IMAGES[0]]),
    ],
)
def test_class_means_are_means_of_features(features: Any) -> None:
    x = torch.rand(6, features.dim, generator=torch.Generator().manual_seed(12)).requires_grad_()
    means = class_means(features, x, 2)
    plain = features.features(x).view(2, 3, -1).mean(1)
    assert torch.allclose(means, plain, atol=1e-6)
    slopes = [torch.autograd.grad(v.square().sum(), x, retain_graph=True)[0] for v in (means, plain)]
    assert torch.allclose(*slopes, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_class_means_on_cuda_agree_with_the_processor() -> None:
    second = Filtered((28, 28), 16, 200, [0.5, 0.8], 3, cell=2, then=(32, 3, 2, 2))
    features = Stack([Fourier(784, 300, [3.0, 5.0], 1), Filtered((28, 28), 8, 200, [1.0, 1.75], 2), second])
    x = torch.rand(60, 784, generator=torch.Generator().manual_seed(13))
    found = []
    for device in ("cpu", "cuda"):
        here = x.to(device).requires_grad_()
        means = class_means(features, here, 3)
        (slope,) = torch.autograd.grad((means - 0.01).square().sum(), here)
        found.append((means.detach().cpu(), slope.cpu()))
    (m0, s0), (m1, s1) = found
    # phases of a few turns in half precision are off by a hundredth at most
    assert (m0 - m1).norm() < 2e-3 * m0.norm() + 1e-3
    # and answers of filters next to 0 may have the other sign
    assert (s0 - s1).norm() < 5e-2 * s0.norm()


def test_a_filter_bank_refuses_what_it_cannot_be() -> None:
    for bad in (
        {"cell": 3},
        {"filters": 0},
        {"width": 1},
        {"shape": (4,)},
        {"then": (2, 3)},
        {"then": (0, 3, 2)},
        {"then": (2, 1, 2)},
        {"then": (2, 3, 0)},
        {"then": (2, 3, 2**20)},
    ):
        with pytest.raises(UsageError):
            Filtered(**{"shape": (8, 8), "filters": 2, "frequencies": 2, "bandwidths": [1.0], "seed": 1, **bad})


def test_frequencies_of_many_columns_are_drawn_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = (4_000, 100, (7.0, 11.0), 5, "orthogonal")
    directions = draw_directions(4_000, 100, "orthogonal", 5)
    # what it was, to the last bit
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(5, spawn_key=(1,))))
    lengths = np.sqrt(generator.chisquare(4_000, 100))
    turns = directions * (lengths / (2.0 * math.pi * np.resize(np.array([7.0, 11.0]), 100)))
    bits = 52 - fourier.BITS - math.frexp(float(np.abs(turns).sum(axis=0).max()))[1]
    monkeypatch.setattr(fourier, "draw_directions", lambda *_: directions)
    tracemalloc.start()
    drawn = fourier._drawn.__wrapped__(*terms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # three copies more took 1.2 GB for 100,000 columns
    assert peak < 0.1 * drawn.nbytes
    np.testing.assert_array_equal(drawn, np.ldexp(np.rint(np.ldexp(turns, bits)), -bits))


def test_a_map_that_is_sent_to_a_worker_has_its_very_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    features = Fourier(5, 4, [1.0], seed=3)
    rows = torch.rand(6, 5, dtype=torch.float64)
    wanted, content = features.features(rows), pickle.dumps(features)
    # where another library draws another matrix
    monkeypatch.setattr(fourier, "_drawn", lambda *_: np.zeros((5, 4)))
    received = pickle.loads(content)
    assert torch.equal(received.features(rows), wanted)
    assert received.exact_bytes() != features.exact_bytes()
    assert not Fourier(5, 4, [1.0], seed=3)._turns.any()


def test_training_holds_the_matrix_in_float32_alone() -> None:
    features = Fourier(50, 40, [1.0], seed=3)
    exact = weakref.ref(features._turns)
    rows = torch.rand(6, 50)
    before = features.features(rows)
    ready_to_train(features, torch.device("cpu"))
    gc.collect()
    assert exact() is None
    assert torch.equal(features.features(rows), before)
    assert features._kept[rows.device, torch.float32][0].dtype is torch.float32
    # and whoever asks for it again has the same
    assert features.exact_bytes() == Fourier(50, 40, [1.0], seed=3).exact_bytes()
