"""Structured frequencies: the dense whole-number product to the bit, the law of Gaussian frequencies, old maps kept."""

from __future__ import annotations

import json
import math
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import hadamard

from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts, MeanEmbedding
from privot.mechanisms.embedding import FeatureSums
from privot.mechanisms.phase_sums import PhaseSums, pairs
from privot.synthesis import Synthesizer
from privot.synthesis.methods.embedding_method import EmbeddingDesign
from privot.synthesis.neural.defaults.feature_defaults import choose_features
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.class_means import class_means
from privot.synthesis.neural.features.fourier import Fourier, feature_map
from privot.synthesis.neural.features.hadamard import HadamardFourier, transformed

MAPS = [
    HadamardFourier(3, 7, [0.5, 1.0], 1),
    HadamardFourier(64, 600, [0.9, 1.4], 2, -1.0, 3.0),
    HadamardFourier(300, 700, [2.0], 3, [-1.0] * 300, [1.0] * 150 + [1e6] * 150),
    HadamardFourier(784, 1500, [3.1, 5.0], 4, 0.0, 255.0),
]
ANY = st.floats(allow_nan=False, allow_infinity=True)


def dense(features: HadamardFourier) -> np.ndarray:
    """W = S·H·D₂·H·D₁ by matrices of whole numbers, none of which comes near 2⁶³; as Python's numbers."""
    n = features.block
    first, second, scales = (part[..., 0].astype(np.int32).astype(np.int64) for part in features._drawn)
    assert math.log2(n * n) + sum(math.log2(np.abs(part).max()) for part in (first, second, scales)) < 62
    matrix = hadamard(n).astype(np.int64)
    # of each block: H·D₂·H·D₁, on the columns that a record fills
    blocks = [(matrix * two) @ (matrix[:, : features.dim] * one) for one, two in zip(first, second, strict=True)]
    return (scales[:, None] * np.concatenate(blocks)[: features.frequencies]).astype(object)


def extremes(features: HadamardFourier) -> np.ndarray:
    """Rows at both ends of the range, far outside it, infinite, checkered and random."""
    low, high = np.broadcast_to(features.low, features.dim), np.broadcast_to(features.high, features.dim)
    rng = np.random.default_rng(5)
    share = rng.uniform(-0.2, 1.2, (3, features.dim))
    rows = [low, high, low - 1e300, high + 1e300, np.full(features.dim, np.inf), np.full(features.dim, -np.inf)]
    return np.array([*rows, np.where(np.arange(features.dim) % 2, low, high), *(low + share * (high - low))])


@pytest.mark.parametrize("features", MAPS[:3])
def test_phases_are_those_of_the_dense_product_in_whole_numbers(features: HadamardFourier) -> None:
    rows = extremes(features)
    low, span = np.asarray(features.low), np.asarray(features.high) - np.asarray(features.low)
    with np.errstate(over="ignore"):
        share = np.clip((rows - low) / span, 0.0, 1.0)
    on_grid = features.on_grid(rows)
    assert np.abs(on_grid - features.levels * share).max() <= 0.5 + 1e-9
    wanted = (dense(features) @ on_grid.astype(np.int64).astype(object).T) % 2**32
    assert (features.phases(rows) == wanted).all()


def test_an_image_of_bytes_lies_on_the_grid_and_has_the_phases_of_the_dense_product() -> None:
    features = MAPS[3]
    rows = np.concatenate([extremes(features)[:2], np.random.default_rng(6).integers(0, 256, (2, 784)).astype(float)])
    steps = features.levels // 255
    assert features.levels == 255 * steps
    assert np.array_equal(features.on_grid(rows), rows * steps)
    # products below 2⁶³, of int64 numbers, so that a thousand frequencies take no minute
    whole = np.rint(np.ldexp(features._turns.T, 32) / features.levels).astype(np.int64)
    wanted = (whole @ (rows.T * steps).astype(np.int64)) % 2**32
    assert np.array_equal(features.phases(rows), wanted.astype(np.uint32))


@pytest.mark.parametrize("features", MAPS[:3])
def test_the_matrix_that_training_uses_is_the_same_in_turns(features: HadamardFourier) -> None:
    assert features._turns.shape == (features.dim, features.frequencies)
    wanted = dense(features).T * features.levels
    assert (np.ldexp(features._turns, 32).astype(object) == wanted).all()


def test_the_dense_matrix_of_many_columns_takes_no_square_of_them() -> None:
    dim = 1 << 14
    features = HadamardFourier(dim, 70, [0.11 * math.sqrt(dim), 0.18 * math.sqrt(dim)], 3, 0.0, 255.0)
    tracemalloc.start()
    turns = features._turns
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the matrix itself, 9 MB, and a few arrays of that size; n × n numbers would be 2 GB
    assert most < 100e6
    rows = np.random.default_rng(8).integers(0, 256, (3, dim)).astype(float)
    apart = (rows / 255.0 @ turns).T - features.phases(rows) / 2.0**32
    assert np.abs(apart - np.rint(apart)).max() < 1e-9


def test_images_of_bytes_have_the_phases_of_the_same_numbers_in_any_type() -> None:
    # ends that no short type holds: a subtraction in one would move records by steps of the grid
    features = HadamardFourier(300, 300, [2.0], 4, -1.3, 300.7)
    rows = np.random.default_rng(9).integers(0, 256, (20, 300))
    wanted = features.phases(rows.astype(np.float64))
    assert all(np.array_equal(features.phases(rows.astype(kind)), wanted) for kind in (np.uint8, np.int32, np.float32))


@pytest.mark.parametrize("features", MAPS)
def test_a_record_has_the_same_phases_wherever_it_stands(features: HadamardFourier) -> None:
    # also rows that touch neither end: a scale taken from the rows at hand would move these alone
    low, high = np.broadcast_to(features.low, features.dim), np.broadcast_to(features.high, features.dim)
    inner = low + np.random.default_rng(10).uniform(0.3, 0.6, (3, features.dim)) * (high - low)
    rows = np.concatenate([inner, extremes(features)] * 30)
    whole = features.phases(rows)
    for start in range(len(inner)):
        assert np.array_equal(features.phases(rows[start : start + 1]), whole[:, start : start + 1])
    for start, step in ((0, 1), (3, 1), (2, 9), (100, 57), (40, 200)):
        assert np.array_equal(features.phases(rows[start : start + step]), whole[:, start : start + step])
    assert features.phases(rows[:0]).shape == (features.frequencies, 0)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (4, 3), elements=ANY), arrays(np.float64, 3, elements=st.just(math.nan)))
def test_the_norm_is_at_most_one_whatever_the_record(x: np.ndarray, none: np.ndarray) -> None:
    phi = MAPS[0].features(torch.from_numpy(np.concatenate([x, none[None]]))).numpy()
    squared = [math.fsum((row * row).tolist()) for row in phi]
    assert all(1.0 - 2e-6 < found <= 1.0 for found in squared[:4])
    # a record that is not a number counts as zero
    assert squared[4] == 0.0


@pytest.mark.parametrize("features", MAPS)
def test_extreme_records_have_norm_one_and_what_is_released_is_what_the_map_says(features: HadamardFourier) -> None:
    rows = extremes(features)
    phi = features.features(torch.from_numpy(rows)).numpy()
    assert (np.square(phi).sum(1) <= 1.0).all()
    assert (np.square(phi).sum(1) > 1.0 - 2e-6).all()
    adding = PhaseSums(features, 1, False)
    held = adding.zeros()
    adding.add(held, rows, None)
    np.testing.assert_allclose(adding.floats(held)[0][0], (1.0 - 1e-5) * phi.sum(0), rtol=1e-9, atol=1e-12)


def test_phases_are_looked_up_within_half_an_entry_of_the_cosine() -> None:
    features = MAPS[1]
    rows = np.random.default_rng(7).uniform(-1.0, 3.0, (20, 64))
    phases = features.phases(rows)
    cosines, sines = pairs(phases)
    angles = phases * (2.0 * math.pi / 2.0**32)
    most = math.pi / 4096 + 2.0**-22
    assert np.abs(cosines / 2.0**22 - np.cos(angles)).max() <= most
    assert np.abs(sines / 2.0**22 - np.sin(angles)).max() <= most


# --- the law of the frequencies


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [64, 200])
def test_frequencies_have_mean_covariance_and_norms_of_gaussian_ones(dim: int) -> None:
    width = 0.15 * math.sqrt(dim)
    drawn = [HadamardFourier(dim, 256, [width], seed)._turns * (2.0 * math.pi * width) for seed in range(40)]
    w = np.concatenate(drawn, axis=1)
    count = w.shape[1]
    # 10,240 of them; rows of one block are orthogonal, so their covariance is closer still than that of free ones
    assert np.abs(w.mean(axis=1)).max() < 5.0 / math.sqrt(count)
    covariance = w @ w.T / count
    assert np.abs(covariance - np.eye(dim)).max() < 6.0 * math.sqrt(2.0 / count)
    squares = np.square(w).sum(axis=0)
    # mean dim and variance 2·dim; blocks fix part of the mean, and S is rounded to 0.2 %
    assert abs(squares.mean() / dim - 1.0) < 5.0 * math.sqrt(2.0 / dim / count) + 1e-4
    assert abs(squares.var() / (2.0 * dim) - 1.0) < 0.15
    # the fourth moment is 3: that of random signs would be 1, of uniform numbers 1.8
    assert abs(np.mean(w**4) - 3.0) < 0.15


def test_frequencies_of_a_block_are_orthogonal_in_its_own_columns() -> None:
    features = HadamardFourier(256, 256, [3.0], 8)
    gram = features._turns.T @ features._turns
    off = gram - np.diag(np.diag(gram))
    assert np.abs(off).max() < 1e-9 * np.diag(gram).min()


@pytest.mark.parametrize("dim", [5, 64, 256, 300])
def test_inner_products_are_the_gaussian_kernel(dim: int) -> None:
    generator = np.random.default_rng(4)
    x = generator.uniform(size=(6, dim))
    # differences in one column, and in two, are as far from random as can be
    x[1], x[2] = x[0], x[0]
    x[1, 0] = 1.0 - x[0, 0]
    x[2, :2] = 1.0 - x[0, :2]
    # and in all columns alike: a multiple of a row of H, which one transform without signs takes to a single number
    x[3], x[4] = 0.2, 0.6
    low, high = -2.0, 4.0
    widths = [0.4 * math.sqrt(dim / 6), 1.5 * math.sqrt(dim / 6)]
    features = HadamardFourier(dim, 20_000, widths, 5, low, high)
    phi = features.features(torch.from_numpy(low + (high - low) * x)).numpy()
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    kernel = np.mean([np.exp(-squared / (2 * h * h)) for h in widths], axis=0)
    # each entry is a mean of 20,000 cosines of variance at most 1/2; n ≥ 256 signs are off by 0.4/n at most
    assert np.abs(phi @ phi.T - kernel).max() < 5 * math.sqrt(0.5 / 20_000) + 0.4 / 256


# --- as a feature map


@pytest.mark.parametrize("features", MAPS)
def test_a_map_comes_back_from_its_dictionary_and_from_a_pickle(features: HadamardFourier) -> None:
    again = feature_map(json.loads(json.dumps(features.to_dict())))
    assert isinstance(again, HadamardFourier)
    x = torch.from_numpy(extremes(features))
    assert torch.equal(features.features(x), again.features(x))
    assert features.exact_bytes() == again.exact_bytes()
    assert features.exact_bytes() != HadamardFourier(**{**_arguments(features), "seed": 99}).exact_bytes()
    features.features(x[:1].float())
    sent = pickle.dumps(features)
    # the dense matrix stays behind, what was drawn goes along
    assert len(sent) < 200_000
    received = pickle.loads(sent)
    assert "_drawn" in received.__dict__
    assert torch.equal(received.features(x), features.features(x))
    # a library that drew one length otherwise from the same seed has another map
    first, second, scales = received._drawn
    received.__dict__["_drawn"] = (first, second, scales + np.uint32(1))
    assert received.exact_bytes() != features.exact_bytes()


def _arguments(features: HadamardFourier) -> dict[str, Any]:
    return {name: value for name, value in features.to_dict().items() if name != "kind"}


def test_float32_agrees_and_has_gradients() -> None:
    features = HadamardFourier(64, 40, [1.2], 1, low=0.0, high=2.0)
    x = torch.rand(6, 64, generator=torch.Generator().manual_seed(7), dtype=torch.float64) * 2
    single = x.float().requires_grad_()
    means = class_means(features, single, 2)
    wanted = features.features(x).view(2, 3, -1).mean(1)
    # half an entry of the table, a step of the grid and float32
    assert float((means.double() - wanted).abs().max().detach()) < 2e-3 / math.sqrt(40)
    (slope,) = torch.autograd.grad(means.square().sum(), single)
    step = 1e-2
    up, down = (
        float(class_means(features, (single + s * slope / slope.norm()).detach(), 2).square().sum())
        for s in (step, -step)
    )
    assert float(slope.norm()) == pytest.approx((up - down) / (2 * step), rel=2e-2)
    # a float64 sample that needs a gradient has one too
    double = x.clone().requires_grad_()
    (slope64,) = torch.autograd.grad(features.features(double).view(2, 3, -1).mean(1).square().sum(), double)
    torch.testing.assert_close(slope64.float(), slope, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dim": 0},
        {"dim": 2**16 + 1, "bandwidths": [50.0]},
        {"frequencies": 0},
        {"bandwidths": []},
        {"bandwidths": [1e9]},
        {"bandwidths": [1e-9]},
        {"bandwidths": [5e-324]},
        {"bandwidths": [1e-6, 1e3]},
        {"seed": -1},
        {"low": 1.0, "high": 1.0},
        {"low": 0.0, "high": 1e-320},
        {"low": [0.0, 0.0]},
    ],
)
def test_impossible_maps_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        HadamardFourier(**{"dim": 3, "frequencies": 4, "bandwidths": [1.0], "seed": 1, **arguments})
    with pytest.raises(DataError):
        feature_map({**MAPS[0].to_dict(), **arguments})


def test_transforms_of_several_blocks_are_products_with_the_hadamard_matrix() -> None:
    a = np.random.default_rng(9).integers(-(2**40), 2**40, (32, 5))
    wanted = np.concatenate([hadamard(8) @ a[at : at + 8] for at in range(0, 32, 8)])
    assert np.array_equal(transformed(a.copy(), 8), wanted)


# --- which map is used


def test_structured_frequencies_are_the_default_on_a_cpu_from_256_columns_on() -> None:
    for dim, device, kind in ((255, "cpu", "fourier"), (256, "cpu", "fourier-hadamard"), (256, "cuda", "fourier"),
                              (2**16, "cpu", "fourier-hadamard"), (2**16 + 1, "cpu", "fourier")):  # fmt: skip
        features: Any = choose_features(Problem(dim, 10, 5.0, 60_000, None, device), 1, 0.0, 255.0)
        assert features.to_dict()["kind"] == kind
        assert features.dim == dim


def test_an_older_map_means_what_it_meant() -> None:
    """A design, a release or a saved model of before holds this dictionary; its numbers were computed then."""
    old = {"kind": "fourier", "dim": 70, "frequencies": 3, "bandwidths": [2.0], "seed": 5, "low": 0.0, "high": 255.0,
           "frame": "orthogonal"}  # fmt: skip
    features = feature_map(old)
    assert type(features) is Fourier
    assert features.to_dict() == old
    found = features.features(torch.linspace(0.0, 255.0, 70, dtype=torch.float64)[None])[0]
    np.testing.assert_allclose(found.numpy(), OLD, rtol=0.0, atol=1e-9)


def test_a_job_of_before_is_resumed_with_the_map_that_it_wrote_down() -> None:
    facts = Facts(300, 5_000, 1.0, Adjacency.REPLACE_ONE, 3)
    design: Any = Synthesizer(1.0, 1e-5, seed=3, device="cpu").design(facts)
    assert type(design.mechanism.features) is HadamardFourier
    assert isinstance(design.mechanism.summands(facts)[0], PhaseSums)
    old = Fourier(300, 500, [2.0, 3.0], 3)
    fields = json.loads(json.dumps({**design.to_dict(), "features": old.to_dict()}))
    resumed = EmbeddingDesign.from_dict(fields, "cpu")
    assert type(resumed.mechanism.features) is Fourier
    assert resumed.mechanism.identity() == MeanEmbedding(old, design.mechanism.sigma, True).identity()
    assert isinstance(resumed.mechanism.summands(facts)[0], FeatureSums)


OLD = [-0.235235160495, 0.552809565574, -0.130579822207, -0.527254921836, -0.166538036325, -0.562389761078]
