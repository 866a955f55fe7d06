"""Images side by side as one PNG file, for pages and folders; it takes numbers from 0 to 1 and knows no record."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.image_axes import image_axes

COLUMNS = 10
_WIDE = 400
"""Pixels that a grid is enlarged to, about."""


def draw_grid(unit: NDArray[Any], shape: Sequence[int], columns: int = COLUMNS) -> bytes:
    """Images in [0, 1], flat rows of `shape`, `columns` to a line."""
    from PIL import Image

    height, width, channels, last = image_axes(shape)
    images = np.clip(np.nan_to_num(unit), 0.0, 1.0)
    images = (
        images.reshape(len(unit), height, width, channels)
        if last
        else images.reshape(len(unit), channels, height, width).transpose(0, 2, 3, 1)
    )
    lines = -(-len(images) // columns)
    canvas = np.ones((lines * (height + 1), columns * (width + 1), 3))
    for i, image in enumerate(images):
        top, left = i // columns * (height + 1), i % columns * (width + 1)
        canvas[top : top + height, left : left + width] = image
    scale = max(1, _WIDE // canvas.shape[1])
    pixels = np.rint(255.0 * canvas).astype(np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
