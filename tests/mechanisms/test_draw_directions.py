"""The directions have the law the accountant counts: Haar frames or independent unit vectors, from a seed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from privot.errors import DataError, UsageError
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.directions import directions_of, draw_directions, fresh_seed
from privot.transport.slice_directions import orthonormal

DRAWS = 3000


def shares(dim: int, slices: int, frame: str, seed: int) -> np.ndarray:
    """H = ‖zᵀU‖²/‖z‖² for one fixed z that favours no direction and is no axis, over many draws."""
    z = np.arange(1.0, dim + 1.0)
    z /= np.linalg.norm(z)
    return np.array([np.sum((z @ draw_directions(dim, slices, frame, seed, i)) ** 2) for i in range(DRAWS)])


@pytest.mark.parametrize(("dim", "slices"), [(1, 1), (1, 4), (5, 12), (64, 64), (784, 200), (300, 700)])
@pytest.mark.parametrize("frame", ["orthogonal", "independent"])
def test_columns_are_unit_vectors(dim: int, slices: int, frame: str) -> None:
    U = draw_directions(dim, slices, frame, seed=5)
    assert U.shape == (dim, slices)
    assert U.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("dim", "slices"), [(5, 12), (64, 64), (300, 700)])
def test_each_frame_is_orthonormal_and_frames_differ(dim: int, slices: int) -> None:
    U = draw_directions(dim, slices, "orthogonal", seed=6)
    blocks = [U[:, s : s + dim] for s in range(0, slices, dim)]
    for block in blocks:
        np.testing.assert_allclose(block.T @ block, np.eye(block.shape[1]), atol=1e-13)
    for a, b in pairwise(blocks):
        assert np.abs(a[:, : b.shape[1]] - b).max() > 0.1


@pytest.mark.parametrize("dim", [3, 64, 784])
def test_the_margin_of_clipping_absorbs_the_rounding_of_a_frame(dim: int) -> None:
    # largest ‖zᵀU‖/‖z‖ is U's operator norm: what the accountant takes as exactly 1
    norm = np.linalg.norm(draw_directions(dim, dim, "orthogonal", seed=7), 2)
    assert norm * (1.0 - MARGIN / 10.0) <= 1.0


@pytest.mark.parametrize(("dim", "slices"), [(400, 100), (400, 1), (784, 196), (7840, 32)])
def test_few_columns_are_those_of_reflections(dim: int, slices: int) -> None:
    G = np.random.default_rng(slices).standard_normal((dim, slices))
    U = orthonormal(G)
    q, r = np.linalg.qr(G)
    np.testing.assert_allclose(U, q * np.sign(np.diagonal(r)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(U.T @ U, np.eye(slices), rtol=0, atol=1e-13)


def test_few_of_many_columns_have_the_beta_law() -> None:
    caught = shares(400, 4, "orthogonal", 19)[:1000]
    assert stats.kstest(caught, stats.beta(2.0, 198.0).cdf).pvalue > 1e-3
    assert stats.kstest(caught, stats.beta(2.5, 198.0).cdf).pvalue < 1e-4


@pytest.mark.statistical
def test_whole_frames_catch_exactly_their_number() -> None:
    np.testing.assert_allclose(shares(6, 18, "orthogonal", 8)[:200], 3.0, rtol=1e-13)


@pytest.mark.gate(2)
@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "rest"), [(5, 2), (8, 1), (8, 7)])
def test_partial_frame_has_the_beta_law(dim: int, rest: int) -> None:
    law = stats.beta(rest / 2, (dim - rest) / 2)
    caught = shares(dim, rest, "orthogonal", 9)
    assert stats.kstest(caught, law.cdf).pvalue > 1e-3
    # a test that could not fail would accept one direction more, too
    assert stats.kstest(caught, stats.beta((rest + 1) / 2, (dim - rest) / 2).cdf).pvalue < 1e-4


def test_whole_and_partial_frames_add() -> None:
    caught = shares(5, 12, "orthogonal", 10) - 2.0
    assert stats.kstest(caught, stats.beta(1.0, 1.5).cdf).pvalue > 1e-3


def test_independent_directions_have_their_law() -> None:
    assert stats.kstest(shares(7, 1, "independent", 11), stats.beta(0.5, 3.0).cdf).pvalue > 1e-3
    # several: mean k/d, variance k·2(d−1)/(d²(d+2)); a frame of as many has a smaller variance
    caught = shares(7, 7, "independent", 12)
    variance = 7 * 2 * 6 / (49 * 9)
    assert abs(caught.mean() - 1.0) < 5 * np.sqrt(variance / DRAWS)
    assert caught.var() == pytest.approx(variance, rel=0.15)


def test_signs_are_fixed_so_that_frames_are_haar() -> None:
    corners = np.array([draw_directions(3, 3, "orthogonal", 13, i)[0, 0] for i in range(DRAWS)])
    # U[0, 0] of a Haar frame in R³ is uniform on [−1, 1] (Archimedes)
    assert stats.kstest(corners, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    # LAPACK's bare Q always reflects: its corner never is positive
    generator = np.random.default_rng(14)
    bare = np.array([np.linalg.qr(generator.standard_normal((3, 3)))[0][0, 0] for _ in range(300)])
    assert stats.kstest(bare, stats.uniform(-1, 2).cdf).pvalue < 1e-4


def test_the_trace_of_a_haar_frame_has_mean_zero_and_variance_one() -> None:
    traces = np.array([np.trace(draw_directions(4, 4, "orthogonal", 15, i)) for i in range(DRAWS)])
    assert abs(traces.mean()) < 5 / np.sqrt(DRAWS)
    assert traces.var() == pytest.approx(1.0, rel=0.15)


def test_the_same_seed_gives_the_same_and_another_seed_or_step_another() -> None:
    first = draw_directions(6, 4, "orthogonal", 1, 0)
    np.testing.assert_array_equal(first, draw_directions(6, 4, "orthogonal", 1, 0))
    for seed, step in ((2, 0), (1, 1)):
        assert np.abs(first - draw_directions(6, 4, "orthogonal", seed, step)).max() > 0.05


def test_steps_are_independent() -> None:
    caught = shares(5, 2, "orthogonal", 16)
    assert abs(np.corrcoef(caught[:-1], caught[1:])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_seeds_do_not_repeat_and_have_128_bits() -> None:
    seeds = {fresh_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seeds).bit_length() > 115


def test_directions_are_drawn_again_from_public_facts() -> None:
    public = {"dim": 4, "slices": 3, "frame": "independent", "seed": 3, "step": 2}
    np.testing.assert_array_equal(directions_of(public), draw_directions(4, 3, "independent", 3, 2))
    for broken in ({}, {**public, "frame": "oblique"}, {**public, "dim": "4"}, {**public, "seed": None}):
        with pytest.raises(DataError):
            directions_of(broken)


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 1, "orthogonal", 1),
        (3, 0, "orthogonal", 1),
        (3, 1, "oblique", 1),
        (3, 1, "orthogonal", -1),
        (3, 1, "orthogonal", 1 << 128),
        (3, 1, "orthogonal", True),
        (3, 1, "orthogonal", 1, -1),
    ],
)
def test_impossible_arguments_are_refused(arguments: tuple) -> None:
    with pytest.raises(UsageError):
        draw_directions(*arguments)
