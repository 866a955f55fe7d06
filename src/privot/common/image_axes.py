"""How a record's row of numbers is laid out as an image; the shape is public, and nothing else is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from privot.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


class Axes(NamedTuple):
    """The sides and channels of an image, and whether a row has a pixel's channels next to each other (`last`)."""

    height: int
    width: int
    channels: int
    last: bool

    def pictures(self, rows: Tensor) -> Tensor:
        """(rows, channels, height, width) from (rows, columns)."""
        if self.last:
            return rows.reshape(-1, self.height, self.width, self.channels).permute(0, 3, 1, 2)
        return rows.reshape(-1, self.channels, self.height, self.width)

    def rows(self, pictures: Tensor) -> Tensor:
        """(rows, columns) from (rows, channels, height, width): what `pictures` undoes."""
        return (pictures.permute(0, 2, 3, 1) if self.last else pictures).reshape(len(pictures), -1)

    def coarser(self, by: int) -> Axes:
        """Of what `pooled` makes."""
        if by < 1 or self.height % by or self.width % by:
            raise UsageError(f"Squares of {by} × {by} pixels do not fill an image of {self.height} × {self.width}.")
        return self._replace(height=self.height // by, width=self.width // by)

    def pooled(self, rows: NDArray[Any], by: int) -> NDArray[Any]:
        """Rows of images whose pixels are Σ/`by` over squares of `by` × `by`; no row's norm grows (Cauchy–Schwarz).

        Number by number, so that a row's result depends on that row alone, to the last bit.
        """
        self.coarser(by)
        size = (self.height, self.width, self.channels) if self.last else (self.channels, self.height, self.width)
        images = rows.reshape(len(rows), *size)
        total = images[:, ::by, ::by] if self.last else images[:, :, ::by, ::by]
        for i, j in ((i, j) for i in range(by) for j in range(by) if i or j):
            total = total + (images[:, i::by, j::by] if self.last else images[:, :, i::by, j::by])
        return (total / by).reshape(len(rows), -1)


def image_axes(shape: Sequence[int]) -> Axes:
    """From a record's public shape: (h, w), (h, w, c) or (c, h, w), c being 1 or 3.

    >>> image_axes((3, 32, 28))
    Axes(height=32, width=28, channels=3, last=False)
    """
    sizes = tuple(int(s) for s in shape)
    if any(s < 1 for s in sizes):
        raise UsageError("The sizes of an image must be at least 1.")
    if len(sizes) == 2:
        return Axes(sizes[0], sizes[1], 1, True)
    if len(sizes) == 3 and sizes[2] in (1, 3):
        return Axes(sizes[0], sizes[1], sizes[2], True)
    if len(sizes) == 3 and sizes[0] in (1, 3):
        return Axes(sizes[1], sizes[2], sizes[0], False)
    raise UsageError("The shape of an image must be height,width, height,width,channels or channels,height,width.")
