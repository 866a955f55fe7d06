"""Keeps what is smooth of a noisy slope at images: post-processing of a release, so it costs nothing.

Noise has the same strength in every cosine of an image (it is white, and cosines are orthonormal); the slope towards
other images, like images themselves, lies mostly in the slow ones. Leaving out the fast ones leaves out their noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from privot.synthesis.generators import image_axes

Smoothing = Callable[[torch.Tensor], torch.Tensor]


def cosines(side: int, kept: int) -> torch.Tensor:
    """The projection (side, side) on the first `kept` of the `side` cosines cos(π(i + ½)f/side), f = 0, 1, …"""
    at, f = torch.arange(side, dtype=torch.float64) + 0.5, torch.arange(min(kept, side), dtype=torch.float64)
    basis = torch.cos(math.pi * f[:, None] * at[None, :] / side) * math.sqrt(2.0 / side)
    basis[0] /= math.sqrt(2.0)
    return basis.T @ basis


def smoothing(shape: Sequence[int], kept: int, device: torch.device) -> Smoothing:
    """What keeps `kept` cosines a side of rows of images with this public shape."""
    height, width, channels, last = image_axes(shape)
    down, across = (cosines(side, kept).to(device, torch.float32) for side in (height, width))

    def smooth(rows: torch.Tensor) -> torch.Tensor:
        if last:
            found = torch.einsum("ij,njkc,kl->nilc", down, rows.view(-1, height, width, channels), across)
        else:
            found = down @ rows.view(-1, channels, height, width) @ across
        return found.reshape(rows.shape)

    return smooth
