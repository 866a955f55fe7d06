"""The mean of all records beside those of the classes: for colour images, whose classes share most of what they show.

The mean over all classes has the noise of one class and the records of all: richer features fit in it. What tells the
classes apart is left to fewer features, and to the labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privot.errors import DataError, UsageError
from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.encoder_features import EncoderFeatures
from privot.synthesis.neural.features.fourier import Stack, feature_map
from privot.synthesis.neural.features.scattered import Scattered

SCATTERED = 6_000
"""Frequencies of a scattering in the mean of all records, and of the classes where noise is not the limit."""
NOISY_SCATTERED = 1_000
"""The same of the classes where noise is the limit."""
CODE_BANDWIDTHS, ENCODED_BANDWIDTHS = (0.45, 0.75), (0.35, 0.55)
"""Bandwidths of Fourier features of a scattering and of an encoder's codes, about a third and half of the distance
between two images."""
ENCODED = 8_000
"""Frequencies of an encoder's codes in the mean of all records."""
QUIET, NOISY, WITH_ENCODER = (0.15, 0.1, 0.4, 0.35), (0.25, 0.15, 0.0, 0.6), (0.2, 0.3, 0.0, 0.5)
"""Parts of the budget (of 1/σ²): filters and codes of all records, filters and codes by class; where noise is not the
limit, where it is, and with an encoder. Chosen on a hold-out of CIFAR-10 (`lab/docs/notebook/synthesis-images.md`)."""
PRECISION = 0.1
"""How near a generator comes to means without noise, in units of the norm: a map whose noise has the norm ν is weighted
by τ²/(τ² + ν²)."""


@dataclass(frozen=True, eq=False)
class CommonMean:
    """The map χ of the mean of all records, and its share of the release (`MeanEmbedding.common`)."""

    features: FeatureMap
    share: float

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"features": self.features.to_dict(), "share": self.share}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> CommonMean | None:
        """Read what `to_dict` wrote; None where there is none."""
        if fields is None:
            return None
        try:
            return cls(feature_map(fields["features"]), float(fields["share"]))
        except DataError:
            # which says what is missing: the file of an encoder
            raise
        except (KeyError, TypeError, ValueError):
            raise DataError("This does not describe the mean of all records.") from None


def choose_maps(
    rich: FeatureMap,
    shape: Sequence[int],
    noisy: bool,
    encoder: PublicEncoder | None,
    seed: int,
    low: float | Sequence[float],
    high: float | Sequence[float],
) -> tuple[FeatureMap, CommonMean]:
    """The map by class and that of all records; `rich` is the map of pixels and filters.

    With an encoder its codes take the place of the scattering.
    """
    filters, codes, class_filters, class_codes = parts = WITH_ENCODER if encoder else NOISY if noisy else QUIET
    if not math.isclose(sum(parts), 1.0):
        raise UsageError("The parts of a budget must add up to 1.")

    def coded(frequencies: int) -> FeatureMap:
        if encoder is None:
            return Scattered(shape, frequencies, CODE_BANDWIDTHS, seed, low, high)
        return EncoderFeatures(encoder, shape, frequencies, ENCODED_BANDWIDTHS, seed, low, high)

    common = Stack([rich, coded(SCATTERED if encoder is None else ENCODED)], [math.sqrt(filters), math.sqrt(codes)])
    by_class = coded(NOISY_SCATTERED if noisy else SCATTERED)
    if class_filters:
        by_class = Stack([rich, by_class], [math.sqrt(class_filters), math.sqrt(class_codes)])
    return by_class, CommonMean(common, filters + codes)


def groups(features: FeatureMap) -> list[tuple[int, float]]:
    """The size and the weight of each map of a stack, or of the one map."""
    if isinstance(features, Stack):
        return [(each.size, weight) for each, weight in zip(features.maps, features.shares, strict=True)]
    return [(features.size, 1.0)]


def column_scales(features: FeatureMap, noise: float) -> list[float]:
    """For every column the factor of its difference in the loss: √(τ²/(τ² + ν²))/w, for each map of a stack.

    w is the map's weight in the stack and ν = noise·√size/w the norm of its own noise, `noise` that of one number of a
    mean.
    """
    found: list[float] = []
    for size, weight in groups(features):
        own = noise * math.sqrt(size) / weight
        found += [PRECISION / math.hypot(PRECISION, own) / weight] * size
    return found
