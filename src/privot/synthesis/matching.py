"""Mean features of generated samples, a class at a time: what a training compares with a release; it sees no record."""

from __future__ import annotations

import math

import torch

from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.features import Fourier, Stack, kept_on, to_unit
from privot.synthesis.filters import Filtered


def class_means(
    features: FeatureMap, x: torch.Tensor, classes: int, known: dict[str, torch.Tensor] | None = None
) -> torch.Tensor:
    """(classes, size): the mean of φ over the rows of each class, which come class by class in equal numbers.

    On CUDA, Fourier features are averaged as they are made, in half precision. What a bank of filters sees of x is
    `known` to all maps of a stack, once one of them has asked.
    """
    if isinstance(features, Stack):
        parts, held = zip(features.shares, features.maps, strict=True), {} if known is None else known
        return torch.cat([share * class_means(part, x, classes, held) for share, part in parts], dim=1)
    if isinstance(features, Filtered):
        return class_means(features.inner, features.seen(x, known), classes)
    if isinstance(features, Fourier) and x.is_cuda:
        from privot.synthesis.phases import mean_phases

        turns, low, span = kept_on(features, x, features.constants)
        angles = features.__dict__.setdefault("_angles", {})
        if x.device not in angles:
            angles[x.device] = (turns * (2.0 * math.pi)).half()
        means = mean_phases(to_unit(x, low, span), angles[x.device], classes)
        return means / math.sqrt(features.frequencies)
    return features.features(x).view(classes, len(x) // classes, -1).mean(dim=1)
