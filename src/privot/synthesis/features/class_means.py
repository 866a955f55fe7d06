"""Mean features of generated samples per class, which training compares with a release; it sees no record."""

from __future__ import annotations

import math

import torch

from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.features.filters import Filtered
from privot.synthesis.features.fourier import Fourier, Stack, kept_on, to_unit


def class_means(
    features: FeatureMap, x: torch.Tensor, classes: int, known: dict[str, torch.Tensor] | None = None
) -> torch.Tensor:
    """(classes, size): the mean of φ over the rows of each class, which come class by class in equal numbers.

    On CUDA, Fourier features are averaged while they are computed, in half precision. The outputs of a bank of filters
    are kept in `known`, so that the maps of a stack share them.
    """
    if isinstance(features, Stack):
        parts, held = zip(features.shares, features.maps, strict=True), {} if known is None else known
        return torch.cat([share * class_means(part, x, classes, held) for share, part in parts], dim=1)
    if not x.is_cuda or not isinstance(features, Fourier | Filtered):
        return features.features(x).view(classes, len(x) // classes, -1).mean(dim=1)
    if isinstance(features, Filtered):
        seen, factor = features.plain(x, known)
        # from 0 to the most that can be seen: nothing is clamped, and the unit is a factor too
        return _means(features.inner, seen, factor / features.banks[-1].most, classes)
    _, low, span = kept_on(features, x, features.constants)
    return _means(features, to_unit(x, low, span), 1.0, classes)


def _means(features: Fourier, x: torch.Tensor, factor: float, classes: int) -> torch.Tensor:
    """Class means of `features` of x · `factor`, on a GPU, x · `factor` in [0, 1]."""
    from privot.synthesis.features.fourier_cuda import mean_phases

    angles = features.__dict__.setdefault("_angles", {})
    if x.device not in angles:
        turns, _, _ = kept_on(features, x, features.constants)
        angles[x.device] = (turns * (2.0 * math.pi * factor)).half()
    return mean_phases(x, angles[x.device], classes) / math.sqrt(features.frequencies)
