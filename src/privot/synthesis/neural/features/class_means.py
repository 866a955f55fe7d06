"""Mean features of generated samples per class, which training compares with a release; it sees no record."""

from __future__ import annotations

import math

import torch

from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.neural.features.encoder_features import EncoderFeatures
from privot.synthesis.neural.features.filters import Filtered
from privot.synthesis.neural.features.fourier import Fourier, Stack, kept_on, to_unit
from privot.synthesis.neural.features.scattered import Scattered


def class_means(
    features: FeatureMap, x: torch.Tensor, classes: int, known: dict[str, torch.Tensor] | None = None
) -> torch.Tensor:
    """(classes, size): the mean of φ over the rows of each class, which come class by class in equal numbers.

    On CUDA, Fourier features are averaged while they are computed, in half precision. The outputs of a bank of filters,
    and the means of a whole map, are kept in `known`, so that maps which have them in common share them.
    """
    held = {} if known is None else known
    if isinstance(features, Stack):
        parts = zip(features.shares, features.maps, strict=True)
        return torch.cat([share * class_means(part, x, classes, held) for share, part in parts], dim=1)
    name = _name(features)
    if name not in held:
        held[name] = _map_means(features, x, classes, held)
    return held[name]


def _name(features: FeatureMap) -> str:
    """What tells a map from others, made once for each: it is asked for at every step."""
    kept: dict[str, str] = features.__dict__
    if "_means_name" not in kept:
        kept["_means_name"] = f"means {features.to_dict()!r}"
    return kept["_means_name"]


def _map_means(features: FeatureMap, x: torch.Tensor, classes: int, known: dict[str, torch.Tensor]) -> torch.Tensor:
    """Of one map that is no stack."""
    if x.is_cuda and isinstance(features, Scattered | EncoderFeatures):
        codes, (a, b) = features.codes(x), features.weights
        shown = codes.view(classes, len(x) // classes, -1).mean(dim=1)
        return torch.cat([a * shown, b * _centred_means(features.fourier, codes, classes)], dim=1)
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
    from privot.synthesis.neural.features.fourier_cuda import mean_phases

    angles = features.__dict__.setdefault("_angles", {})
    if x.device not in angles:
        turns, _, _ = kept_on(features, x, features.constants)
        angles[x.device] = (turns * (2.0 * math.pi * factor)).half()
    return mean_phases(x, angles[x.device], classes) / math.sqrt(features.frequencies)


def _centred_means(features: Fourier, codes: torch.Tensor, classes: int) -> torch.Tensor:
    """Class means of `features`, whose range is −1 to 1, of codes in that range, on a GPU.

    The phase of (z + 1)/2 is that of z/2 and a constant, which with thousands of columns is too large for half
    precision: cosines and sines of z/2 are averaged, and turned by the constant afterwards.
    """
    from privot.synthesis.neural.features.fourier_cuda import mean_phases

    kept = features.__dict__.setdefault("_centred", {})
    if codes.device not in kept:
        turns, _, _ = kept_on(features, codes, features.constants)
        # in float64, from the matrix itself: thousands of terms are added
        shift = torch.as_tensor(features.constants()[0]).sum(dim=0) / 2.0
        angle = ((shift - shift.round()) * (2.0 * math.pi)).to(codes)
        kept[codes.device] = (turns * math.pi).half(), torch.cos(angle), torch.sin(angle)
    angles, cosine, sine = kept[codes.device]
    found = mean_phases(codes, angles, classes) / math.sqrt(features.frequencies)
    c, s = found.chunk(2, dim=1)
    return torch.cat([c * cosine - s * sine, s * cosine + c * sine], dim=1)
