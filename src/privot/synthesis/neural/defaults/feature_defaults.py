"""Which feature maps are released, and how many frequencies: from public facts alone, never a record or a release."""

from __future__ import annotations

import math
from collections.abc import Sequence

from privot.common.image_axes import image_axes
from privot.errors import UsageError
from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.neural.defaults.common_mean import CommonMean, choose_maps
from privot.synthesis.neural.defaults.problem_and_rules import Problem, is_image, signal
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.encoder_features import EncoderFeatures
from privot.synthesis.neural.features.filters import Filtered
from privot.synthesis.neural.features.fourier import Fourier, Stack
from privot.synthesis.neural.features.hadamard import MAX_DIM, HadamardFourier
from privot.synthesis.neural.features.scattered import MOST
from privot.synthesis.neural.features.scattering import can_scatter

MAX_FREQUENCIES = {"cpu": 2_000, "cuda": 20_000}
STRUCTURED = (256, MAX_DIM)
"""The columns for which structured frequencies are used on a CPU: with fewer, the dense product takes less than reading
an image, and generators of 64 columns came out worse; with more, phases of 32 bits do not resolve the records."""
BANDWIDTHS = (0.11, 0.18)
"""Bandwidths in units of √columns, the scale of distances between two points of [0, 1]^d."""
NOISY_BANDWIDTHS = (0.15, 0.25)
"""Bandwidths where noise is the limit: wider kernels measure coarser properties, which many records share."""
FILTERS = 64
FILTERED_BANDWIDTHS = (0.0375, 0.0625)
"""The same for outputs of 5 × 5 filters: on enlarged USPS digits their distances are 0.35 times those of pixels."""
SECOND_FILTERS = ((128, 0.235), (256, 0.085))
"""Second banks of 3 × 3 filters, for regions of 4 pixels and for quarters of the image: their number, and the distance
of their outputs as a multiple of the pixels' distance, measured in the same way. A region has an even side, so that
positions can be two pixels apart: four times faster than all positions."""
ENCODER_PART, CODE_BANDWIDTHS = 4, (0.3, 0.6)
"""Of the frequencies, one for every so many is spent beside them on the codes of an encoder; and their bandwidths, a
fraction of 2, the distance of opposite codes. Neither was tuned."""


def frequencies(problem: Problem) -> int:
    """m = (n_c/5σ)², within limits: then the noise on a class's mean has norm σ·√(2m)/n_c = √2/5.

    More frequencies would fit the noise; fewer would carry less information about the data.
    """
    return int(min(max(signal(problem) ** 2, 500.0), MAX_FREQUENCIES[problem.device]))


def is_noisy(problem: Problem) -> bool:
    """Whether the noise allows fewer frequencies than the device could carry."""
    return frequencies(problem) < MAX_FREQUENCIES[problem.device]


def choose_features(
    problem: Problem, seed: int, low: float | Sequence[float], high: float | Sequence[float]
) -> FeatureMap:
    """The map whose means are released: features of pixels and, where the noise is small enough, of filter outputs.

    On a CPU its frequencies are structured from 256 columns on (`STRUCTURED`), and dense elsewhere.
    """
    root = math.sqrt(problem.dim)
    m = frequencies(problem)
    if problem.device == "cpu" and STRUCTURED[0] <= problem.dim <= STRUCTURED[1]:
        return HadamardFourier(problem.dim, m, [b * root for b in BANDWIDTHS], seed, low, high)
    if problem.device == "cpu" or not is_image(problem):
        return Fourier(problem.dim, m, [b * root for b in BANDWIDTHS], seed, low, high)
    # with few frequencies, pixels carry the most information
    if is_noisy(problem):
        return Fourier(problem.dim, m, [b * root for b in NOISY_BANDWIDTHS], seed, low, high)
    return _filtered(problem, m, seed, low, high)


def _filtered(
    problem: Problem, m: int, seed: int, low: float | Sequence[float], high: float | Sequence[float]
) -> FeatureMap:
    """Features of pixels and of three banks of filters, `m` frequencies in all."""
    assert problem.shape is not None
    root = math.sqrt(problem.dim)
    pixels = [b * root for b in BANDWIDTHS]
    seen = [b * root for b in FILTERED_BANDWIDTHS]
    share, quarter = m // (2 + len(SECOND_FILTERS)), 2 * -(-min(image_axes(problem.shape)[:2]) // 8)
    maps: list[FeatureMap] = [
        Fourier(problem.dim, share, pixels, seed, low, high, "independent"),
        Filtered(problem.shape, FILTERS, share, seen, seed, low, high),
    ]
    for (filters, ratio), cell in zip(SECOND_FILTERS, (2, quarter), strict=True):
        widths, then = [ratio * h for h in pixels], (filters, 3, cell, 2)
        maps.append(Filtered(problem.shape, FILTERS, share, widths, seed, low, high, cell=2, then=then))
    return Stack(maps)


def choose_both(
    problem: Problem,
    encoder: PublicEncoder | None,
    seed: int,
    low: float | Sequence[float],
    high: float | Sequence[float],
) -> tuple[FeatureMap, CommonMean | None]:
    """The map by class and, where `has_common_mean`, that of all records."""
    if has_common_mean(problem):
        assert problem.shape is not None
        rich = _filtered(problem, MAX_FREQUENCIES[problem.device], seed, low, high)
        return choose_maps(rich, problem.shape, is_noisy(problem), encoder, seed, low, high)
    features = choose_features(problem, seed, low, high)
    return (features if encoder is None else beside_encoder(features, encoder, problem, seed, low, high)), None


def beside_encoder(
    features: FeatureMap,
    encoder: PublicEncoder,
    problem: Problem,
    seed: int,
    low: float | Sequence[float],
    high: float | Sequence[float],
) -> Stack:
    """`features`, and those of a public encoder with half of the weight (of Σw²), in one release."""
    if problem.shape is None:
        raise UsageError("An encoder takes images: state their shape.")
    m = max(frequencies(problem) // ENCODER_PART, len(CODE_BANDWIDTHS))
    codes = EncoderFeatures(encoder, problem.shape, m, CODE_BANDWIDTHS, seed, low, high)
    maps, weights = ([features], [1.0]) if not isinstance(features, Stack) else (features.maps, features.shares)
    return Stack([*maps, codes], [*weights, 1.0])


def has_common_mean(problem: Problem) -> bool:
    """Whether the mean of all records is released beside those of the classes: where it is asked for, which only
    colour images of several classes on a GPU allow.
    """
    if not problem.common:
        return False
    if problem.device == "cpu" or problem.classes < 2 or not is_image(problem) or not _coloured(problem):
        raise UsageError("A mean of all records is for colour images of several classes, on a GPU: leave it out.")
    return True


def _coloured(problem: Problem) -> bool:
    assert problem.shape is not None
    return image_axes(problem.shape).channels == 3 and can_scatter(problem.shape, MOST)
