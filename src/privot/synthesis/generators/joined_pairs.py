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


def joined_pairs(x: torch.Tensor, shape: Sequence[int], share: float, random: np.random.Generator) -> torch.Tensor:
    """Rows of images, each of which is joined with the row after it with probability `share`.

    x'ᵢ = w ⊙ xᵢ + (1 − w) ⊙ xᵢ₊₁ with w = 1/(1 + exp(−6f)), f a field of 3 × 3 standard normal numbers that is
    interpolated over the image; the row after the last one is the first. Classes are not mixed as the pictures are:
    a labeller has to say what such a sample is. Masks of low frequency: FMix (Harris et al. 2020); labels by a teacher:
    Beyer et al. (2022).

    Parameters
    ----------
    x
        Rows of samples, (rows, columns), in any unit.
    shape
        The public shape of an image.
    share
        How likely each row is joined, from 0 to 1.
    random
        Where the borders are drawn from; samples are post-processing, so they need no secret.

    Returns
    -------
    Tensor
        As many rows, each number between those of the two rows that it is made of.

    Examples
    --------
    >>> black, white = torch.zeros(1, 64), torch.ones(1, 64)
    >>> made = joined_pairs(torch.cat([black, white]), (8, 8), 1.0, np.random.default_rng(0))
    >>> bool((made.amax(1) > 0.8).all() and (made.amin(1) < 0.2).all())
    True
    """
    axes = image_axes(shape)
    at = torch.from_numpy(np.flatnonzero(random.random(len(x)) < share)).to(x.device)
    if not len(at):
        return x
    field = torch.from_numpy(random.standard_normal((len(at), 1, _COARSE, _COARSE))).to(x)
    # bicubic: between nine numbers a linear interpolation has visible creases
    field = functional.interpolate(field, size=(axes.height, axes.width), mode="bicubic", align_corners=False)
    w = axes.rows(torch.sigmoid(_STEEP * field).expand(-1, axes.channels, -1, -1))
    one, other = x[at], x[(at + 1) % len(x)]
    joined = torch.clamp(other + w * (one - other), torch.minimum(one, other), torch.maximum(one, other))
    return x.index_copy(0, at, joined)
