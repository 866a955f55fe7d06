"""Samples that are joined of two along a soft border: more kinds of pictures for a classifier to learn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from privot.common.image_axes import image_axes

_COARSE = 3
"""Random numbers along each side of a border's field: patches are about half of a side wide."""
_STEEP = 6.0


def joined_pairs(
    one: torch.Tensor, other: torch.Tensor, shape: Sequence[int], random: np.random.Generator
) -> torch.Tensor:
    """Images of `one`, each joined with that of `other` in the same row along a border of its own.

    x' = w ⊙ x + (1 − w) ⊙ y with w = 1/(1 + exp(−6f)), f a field of 3 × 3 standard normal numbers that is interpolated
    over the image. Classes are not mixed as the pictures are: a labeller has to say what came out. Masks of low
    frequency: FMix (Harris et al. 2020); labels by a teacher in place of mixed ones: Beyer et al. (2022).

    Parameters
    ----------
    one, other
        Rows of samples, (rows, columns), in any unit.
    shape
        The public shape of an image.
    random
        Where the borders are drawn from; samples are post-processing, so they need no secret.

    Returns
    -------
    Tensor
        As many rows, each number between those of the two rows that it is made of.

    Examples
    --------
    >>> made = joined_pairs(torch.zeros(2, 64), torch.ones(2, 64), (8, 8), np.random.default_rng(0))
    >>> bool((made.amax(1) > 0.8).all() and (made.amin(1) < 0.2).all())
    True
    """
    axes = image_axes(shape)
    field = torch.from_numpy(random.standard_normal((len(one), 1, _COARSE, _COARSE))).to(one)
    # bicubic: between nine numbers a linear interpolation has visible creases
    field = functional.interpolate(field, size=(axes.height, axes.width), mode="bicubic", align_corners=False)
    w = axes.rows(torch.sigmoid(_STEEP * field).expand(-1, axes.channels, -1, -1))
    # rounding may lead past an end, which the range of the records would not allow
    return torch.clamp(other + w * (one - other), torch.minimum(one, other), torch.maximum(one, other))
