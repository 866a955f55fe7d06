"""Scattering features of images: fixed wavelets, moduli and averages, computed exactly; nothing in them is learned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError
from privot.mechanisms.exact_sums import exact_root
from privot.synthesis.neural.features.fourier import kept_on, public_range, to_unit
from privot.synthesis.neural.features.linear_classifier import LinearClassifier
from privot.synthesis.neural.features.network_features import digest_of_arrays
from privot.synthesis.neural.features.photographs import photograph_channels

OFFSET = 0.75
"""The last feature of every image, for an offset of each class; on the grid, and a tenth of the usual norm."""
LENGTH = 8.0
"""The usual norm of an image's features before a mechanism bounds it by 1: so that nearly every image has norm 1."""
SMALLEST_SIDE, SMALLEST_CELL = 16, 4
_DIRECTIONS, _SIDE, _WIDTH, _FREQUENCY, _SLANT = 8, 7, 0.8, 3.0 * math.pi / 4.0, 0.5
_BITS, _ANSWER_BITS, _FILTER_BITS, _CONSTANT_BITS = 18, 22, 24, 30
"""Behind the point: of numbers between layers; of a filter's answers, before they are squared; of filters, which come
out alike on every machine that computes a cosine nearly right; of constants."""
_LESSER = 0.5
"""The weight of differences of colour beside brightness, and of order 2 beside orders 0 and 1."""
_FLAT = 1e-10
"""Added to squares of answers in float32: far below what a pixel's last bit makes of them."""
_MAX_CONSTANT = 2.0**20
_MAX_HELD, _MAX_ROW = 2**24, 2**27
"""Numbers that are held at a time, 128 MB in float64; and for one image, if that alone is more."""


class Scattering:
    """φ(x) = (s·(fold(S(x)) − c), 0.75), S the scattering averages of an image of two scales and eight directions.

    With ψ_θ Morlet wavelets of 7 × 7 pixels, H the image at half the size (means of 2 × 2 pixels) and A averages over
    squares of `cell` × `cell` pixels of the image,

        S(x) = A(x), A|x ∗ ψ_θ|, A|Hx ∗ ψ_θ|, A|H|x ∗ ψ_θ| ∗ ψ_η|   for all directions θ, η and all colours

    (Bruna & Mallat 2013, orders 0, 1 and 2). Colours are brightness (r + 2g + b)/4 and the differences (r − b)/2 and
    (2g − r − b)/4. An image and its mirror image have the same features: the mirror image has the averages of the
    mirrored place and direction, and *fold* adds both, which halves the numbers. `center` and `scale` are c and s, one
    number per channel; x is scaled from [`low`, `high`] to [0, 1].

    Parameters
    ----------
    shape
        The public shape of an image, both sides at least 16.
    cell
        A power of two from 4 to the shorter side.
    center, scale
        Public constants of shape (channels,), measured on samples (`standardised`), put on a grid of 2⁻³⁰.
        None: 0 and 1.
    low, high
        The public range of values, a number or one per column.

    Formal guarantees:
      * in float64 a row's features depend on that row alone, to the last bit, whatever rows stand beside it, in any
        blocks and with any number of threads. Pixels, halves and moduli are snapped to multiples of 2⁻¹⁸ of at most 2,
        filters lie on a grid of 2⁻²⁴ with Σ|ψ| ≤ 1.001: a convolution is a product of matrices whose partial sums are
        whole numbers of 2⁻⁴² below 2⁴⁴, exact in any order. Its answers are snapped to 2⁻²², so that the squares of
        the real and the imaginary part add up exactly (below 2⁴⁸ units). The root is the nearest number (IEEE 754,
        `exact_root`). Sums over cells and mirrored places, and their distance from c, are whole numbers of 2⁻³⁰ below
        2⁵³ again. What is left, one multiplication, is rounded number by number as IEEE 754 says; nothing underflows;
      * a row with a NaN has NaN among its features, and no other row does: a mechanism counts it as zero;
      * the norm of φ is *not* bounded here: a mechanism that releases a function of φ bounds it (`TunedHead`).
    In float32, for samples, the usual convolutions are used.

    >>> import torch
    >>> held = Scattering((16, 16, 3), 4)
    >>> held.channels, held.size
    (243, 1945)
    >>> x = torch.rand(2, 768, dtype=torch.float64)
    >>> bool(torch.equal(held.features(x)[1:], held.features(x[1:])))
    True
    """

    kind = "scattering"
    rounding = 0.0

    def __init__(
        self,
        shape: Sequence[int],
        cell: int,
        center: NDArray[Any] | None = None,
        scale: NDArray[Any] | None = None,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
    ) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.axes = image_axes(self.shape)
        check_scattered(self.shape)
        height, width, colours, _ = self.axes
        self.cell = int(cell)
        if self.cell.bit_count() != 1 or not SMALLEST_CELL <= self.cell <= min(height, width):
            raise UsageError(f"The cells of a scattering must be a power of two from {SMALLEST_CELL} on, got {cell!r}.")
        self.dim = height * width * colours
        self.low, self.high = public_range(low, high, self.dim)
        self.channels = channels_of(colours)
        self.places = places_of(self.shape, self.cell)
        self.center = _constants(center, 0.0, self.channels)
        self.scale = _constants(scale, 1.0, self.channels)
        self._at_once = max(1, _MAX_HELD // _held_by_one(self.shape))

    @property
    def size(self) -> int:
        """A number for every channel and place, and one more."""
        return self.channels * math.prod(self.places) + 1

    def averages(self, x: torch.Tensor) -> torch.Tensor:
        """fold(S(x)) of shape (rows, channels, places down, places across); exact in float64."""
        exact = x.dtype is torch.float64
        _, low, span = kept_on(self, x, lambda: (0.0, self.low, self.high))
        whole = _coloured(self.axes.pictures(to_unit(x, low, span)))
        half = _halved(whole, exact)
        first, second = _moduli(whole, exact), _moduli(half, exact)
        both = _moduli(_halved(first, exact), exact)
        cells = [(whole, self.cell), (first, self.cell), (second, self.cell // 2), (both, self.cell // 2)]
        # a power of two divides without rounding
        found = torch.cat([functional.avg_pool2d(u, n, divisor_override=1) / n**2 for u, n in cells], dim=1)
        mirrored = found.index_select(1, _mirrored(self.axes.channels, x.device)).flip(3)
        return (found + mirrored)[..., : self.places[1]]

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, size) from (rows, dim)."""
        parts = list(self.blocks(x))
        return torch.cat(parts) if parts else x.new_zeros((0, self.size))

    def blocks(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        """The features of some rows at a time, so that little memory is held."""
        for first in range(0, len(x), self._at_once):
            yield self.at_once(x[first : first + self._at_once])

    def at_once(self, x: torch.Tensor) -> torch.Tensor:
        """The features of all rows in one go, for few rows, or for training in float32."""
        center, scale = self._constants_on(x)
        seen = ((self.averages(x) - center) * scale).flatten(1)
        return torch.cat([seen, seen.new_full((len(seen), 1), OFFSET)], dim=1)

    def _constants_on(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`center` and `scale` where `x` is; kept, since a recorded step cannot copy to a device."""
        kept: dict[Any, tuple[torch.Tensor, torch.Tensor]] = self.__dict__.setdefault("_held", {})
        if (x.device, x.dtype) not in kept:
            center, scale = (torch.as_tensor(c).to(x)[:, None, None] for c in (self.center, self.scale))
            kept[x.device, x.dtype] = center, scale
        return kept[x.device, x.dtype]

    def standardised(
        self, samples: torch.Tensor, low: float | Sequence[float], high: float | Sequence[float]
    ) -> Scattering:
        """The same map for records of another range, with mean 0 and one width for every channel of these `samples`.

        Samples are post-processing of a release, so c and s are public. c is the mean of a channel over samples and
        places. s is in proportion to k/w, w being the standard deviation, or a tenth of c if that is more, so that what
        samples never show is not blown up without limit. k is 1, times 1/2 for differences of colour and 1/2 for order
        2: these are many and tell classes apart less well, and would take up most of the norm. The features of a sample
        have a norm of about 8.
        """
        total = torch.zeros(2, self.channels, dtype=torch.float64)
        for first in range(0, len(samples), self._at_once):
            found = self.averages(samples[first : first + self._at_once]).double()
            total += torch.stack([found.sum(dim=(0, 2, 3)), found.square().sum(dim=(0, 2, 3))]).cpu()
        mean, square = (total / max(1, len(samples) * math.prod(self.places))).numpy()
        width = np.sqrt(np.maximum(square - mean**2, 0.0))
        return self._with(mean, np.maximum(width, np.maximum(0.1 * np.abs(mean), 1e-4)), low, high)

    def of_photographs(self, low: float | Sequence[float], high: float | Sequence[float]) -> Scattering:
        """The same, with fixed means and widths, of photographs that no record is among (`photographs`).

        >>> round(float(Scattering((32, 32, 3), 8).of_photographs(0.0, 1.0).center[0]), 2) > 0.0
        True
        """
        return self._with(*photograph_channels(self.axes.channels), low, high)

    def _with(
        self,
        mean: NDArray[np.float64],
        width: NDArray[np.float64],
        low: float | Sequence[float],
        high: float | Sequence[float],
    ) -> Scattering:
        weights = _channel_weights(self.axes.channels)
        scale = LENGTH * weights / (width * math.sqrt(math.prod(self.places) * float((weights**2).sum())))
        return Scattering(self.shape, self.cell, mean, scale, low, high)

    def to_dict(self) -> dict[str, Any]:
        """A description with a digest that identifies the map; its constants lie in a file (`tensors`)."""
        facts = {"kind": self.kind, "shape": list(self.shape), "cell": self.cell, "low": self.low, "high": self.high}
        arrays = {**self.tensors(), "filters": torch.from_numpy(_wavelets().copy())}
        return {**facts, "digest": digest_of_arrays(arrays)}

    def tensors(self) -> dict[str, torch.Tensor]:
        """The constants, in float64."""
        return {"center": torch.from_numpy(self.center.copy()), "scale": torch.from_numpy(self.scale.copy())}

    @classmethod
    def from_tensors(cls, fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Scattering:
        """The map that `to_dict` and `tensors` wrote, to the last bit."""
        try:
            center, scale = (tensors[name].numpy() for name in ("center", "scale"))
            made = cls(fields["shape"], fields["cell"], center, scale, fields["low"], fields["high"])
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise DataError(f"This is not a scattering that privot wrote ({type(error).__name__}).") from None
        if made.to_dict() != dict(fields):
            raise DataError("This scattering is not the one that its features were released for.")
        return made


class ScatteringClassifier(LinearClassifier):
    """Linear scores of classes on the features of a `Scattering`; it labels samples and sees no record."""

    kind = "scattering classes"

    @classmethod
    def read_map(cls, fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Scattering:
        """The scattering that was written with it."""
        return Scattering.from_tensors(fields, tensors)


def channels_of(colours: int) -> int:
    """Averages per place: of the image, of both scales in eight directions, and of both scales in all pairs."""
    return colours * (1 + 2 * _DIRECTIONS + _DIRECTIONS**2)


def places_of(shape: Sequence[int], cell: int) -> tuple[int, int]:
    """Cells down, and those of the left half across: a folded image has no right half. Pixels beyond are left out."""
    height, width, _, _ = image_axes(shape)
    return height // cell, -(-(width // cell) // 2)


def can_scatter(shape: Sequence[int], most: int) -> bool:
    """Whether there is a scattering of such images with at most `most` averages."""
    try:
        cell_for(shape, most)
    except UsageError:
        return False
    return True


def cell_for(shape: Sequence[int], most: int) -> int:
    """The smallest cell with at most `most` averages of an image; refuses where there is none."""
    check_scattered(shape)
    height, width, colours, _ = image_axes(shape)
    cell = SMALLEST_CELL
    while channels_of(colours) * math.prod(places_of(shape, cell)) > most:
        cell *= 2
        if cell > min(height, width):
            raise UsageError(f"No scattering of {height} × {width} pixels has at most {most} numbers: allow more.")
    return cell


def check_scattered(shape: Sequence[int]) -> None:
    """Refuse images that are too small or too large."""
    height, width, _, _ = image_axes(shape)
    if min(height, width) < SMALLEST_SIDE or _held_by_one(shape) > _MAX_ROW:
        raise UsageError(f"Images of {height} × {width} are too small or too large to be labelled: leave that out.")


def _held_by_one(shape: Sequence[int]) -> int:
    """Numbers that an image takes at its widest: patches of a layer and their answers."""
    height, width, colours, _ = image_axes(shape)
    return height * width * colours * max(1, _DIRECTIONS // 4) * (_SIDE**2 + 4 * _DIRECTIONS)


def _constants(given: NDArray[Any] | None, usual: float, channels: int) -> NDArray[np.float64]:
    """One number per channel, on a grid of 2⁻³⁰, so that no difference and no product is too small for float64."""
    out = np.full(channels, usual) if given is None else np.array(given, dtype=np.float64)
    if out.shape != (channels,) or not (np.abs(out) <= _MAX_CONSTANT).all():
        raise UsageError(f"The constants of a scattering must be {channels} numbers of at most {_MAX_CONSTANT:g} each.")
    rounded: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(out, _CONSTANT_BITS)), -_CONSTANT_BITS)
    return rounded


@lru_cache(maxsize=1)
def _wavelets() -> NDArray[np.float64]:
    """ψ of shape (16, 7, 7): the real parts of eight directions, then the imaginary ones; on a grid of 2⁻²⁴.

    ψ(u) = k·e^(−(a² + b²/4)/2·0.8²)·(e^(3πia/4) − m), (a, b) being u turned by θ; m makes Σψ = 0 and k makes Σ|ψ| = 1.
    """
    reach = _SIDE // 2
    down, across = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float64)
    found = []
    for number in range(_DIRECTIONS):
        angle = math.pi * number / _DIRECTIONS
        along = math.cos(angle) * across + math.sin(angle) * down
        beside = math.cos(angle) * down - math.sin(angle) * across
        hill = np.exp(-(along**2 + (_SLANT * beside) ** 2) / (2.0 * _WIDTH**2))
        wave = np.exp(1j * _FREQUENCY * along)
        psi = hill * (wave - (hill * wave).sum() / hill.sum())
        found.append(psi / np.abs(psi).sum())
    psi = np.stack(found)
    parts = np.concatenate([psi.real, psi.imag])
    out: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(parts, _FILTER_BITS)), -_FILTER_BITS)
    # what the exactness of all sums rests on
    assert float(np.abs(out).sum(axis=(1, 2)).max()) <= 1.001
    out.setflags(write=False)
    return out


def _channel_weights(colours: int) -> NDArray[np.float64]:
    """k of `standardised` for every channel; they are ordered by kind, then by colour."""
    each = np.array([1.0] + [_LESSER] * (colours - 1))
    kinds = ((1, 1.0), (_DIRECTIONS, 1.0), (_DIRECTIONS, 1.0), (_DIRECTIONS**2, _LESSER))
    return np.concatenate([np.repeat(weight * each, count) for count, weight in kinds])


@lru_cache(maxsize=8)
def _mirrored(colours: int, device: torch.device) -> torch.Tensor:
    """For every channel the channel that the mirror image has in its place: direction θ becomes π − θ."""
    turned = -np.arange(_DIRECTIONS) % _DIRECTIONS
    numbers = np.arange(channels_of(colours))
    kinds = np.split(numbers, np.cumsum([colours, colours * _DIRECTIONS, colours * _DIRECTIONS]))
    single = [part.reshape(colours, _DIRECTIONS)[:, turned].ravel() for part in kinds[1:3]]
    double = kinds[3].reshape(colours, _DIRECTIONS, _DIRECTIONS)[:, turned][:, :, turned].ravel()
    return torch.from_numpy(np.concatenate([kinds[0], *single, double])).to(device)


def _coloured(pictures: torch.Tensor) -> torch.Tensor:
    """Brightness and two differences of three colours, on a grid of 2⁻¹⁸; a grey image as it is."""
    if pictures.shape[1] != 3:
        return pictures
    red, green, blue = pictures.unbind(1)
    return torch.stack([(red + 2.0 * green + blue) / 4.0, (red - blue) / 2.0, (2.0 * green - red - blue) / 4.0], dim=1)


def _snapped(x: torch.Tensor, bits: int, exact: bool) -> torch.Tensor:
    return torch.round(x * 2.0**bits) * 2.0**-bits if exact else x


def _halved(x: torch.Tensor, exact: bool) -> torch.Tensor:
    """Means of 2 × 2 pixels; sums of four whole numbers, then snapped."""
    return _snapped(functional.avg_pool2d(x, 2, divisor_override=1) / 4.0, _BITS, exact)


def _moduli(x: torch.Tensor, exact: bool) -> torch.Tensor:
    """|x ∗ ψ_θ| of every channel in all directions, (rows, channels · 8, height, width); borders are reflected."""
    rows, channels, height, width = x.shape
    flat = x.reshape(rows * channels, 1, height, width)
    framed = functional.pad(flat, [_SIDE // 2] * 4, mode="reflect")
    filters = _filters(x.device, x.dtype)
    if exact:
        found = _snapped(_answers(framed, filters), _ANSWER_BITS, exact)
    else:
        found = functional.conv2d(framed, filters[:, None])
    real, imaginary = found.chunk(2, dim=1)
    squares = real.square() + imaginary.square()
    # a root has no slope at 0, which a flat image would meet in training
    length = exact_root(squares) if exact else torch.sqrt(squares + _FLAT)
    return _snapped(length, _BITS, exact).reshape(rows, channels * _DIRECTIONS, height, width)


@lru_cache(maxsize=8)
def _filters(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """The wavelets where they are needed; kept, since a recorded step cannot copy to a device."""
    return torch.from_numpy(_wavelets().copy()).to(device=device, dtype=dtype)


def _answers(framed: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """A convolution by one product: other ways to compute it do not sum whole numbers."""
    height, width = (side - _SIDE + 1 for side in framed.shape[2:])
    found = torch.matmul(filters.flatten(1), functional.unfold(framed, _SIDE))
    return found.view(len(framed), -1, height, width)
