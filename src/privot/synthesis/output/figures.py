"""Draws samples and training curves as PNG bytes; it sees what was released only."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.image_axes import image_axes

_COLUMNS = 10


def draw_grid(unit: NDArray[Any], shape: Sequence[int]) -> bytes:
    """Images in [0, 1], flat rows of `shape`, ten to a line."""
    from matplotlib.image import imsave

    height, width, channels, last = image_axes(shape)
    images = np.clip(unit, 0.0, 1.0)
    images = (
        images.reshape(len(unit), height, width, channels)
        if last
        else images.reshape(len(unit), channels, height, width).transpose(0, 2, 3, 1)
    )
    lines = -(-len(images) // _COLUMNS)
    canvas = np.ones((lines * (height + 1), _COLUMNS * (width + 1), 3))
    for i, image in enumerate(images):
        top, left = i // _COLUMNS * (height + 1), i % _COLUMNS * (width + 1)
        canvas[top : top + height, left : left + width] = image
    scale = max(1, 400 // canvas.shape[1])
    canvas = canvas.repeat(scale, axis=0).repeat(scale, axis=1)
    buffer = io.BytesIO()
    imsave(buffer, canvas, format="png")
    return buffer.getvalue()


def draw_curve(losses: Sequence[float], name: str) -> bytes:
    """The watched quantity `name`, step by step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, len(losses) + 1), losses, linewidth=1.0)
    axes.set_xlabel("step")
    axes.set_ylabel(name)
    if losses and min(losses) > 0.0:
        axes.set_yscale("log")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
