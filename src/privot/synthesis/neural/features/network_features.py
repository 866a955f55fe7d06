"""Features of a small convolutional network, computed exactly; the network is public, trained on synthetic samples."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError
from privot.synthesis.neural.features.fourier import BITS, kept_on, public_range, to_unit

CONSTANT = 0.3125
"""The last feature of every image, for an offset of each class; on the grid."""
_MIN_BITS = 8
"""Behind the point of a weight."""
_MAX_HELD = 2**25
"""Numbers that are held at a time: 256 MB in float64."""
_POOL = 2


class NetworkFeatures:
    """φ(x) = (flat(x)·P + s, 0.3125), flat the flattened output of convolutions, each with ReLU and max-pooling by 2.

    `convolutions` are (weights of shape (filters, channels, width, width), offsets), with zeros around an image;
    `projection` is P, `shift` is s. x is scaled from [`low`, `high`] to [0, 1]. The norm of φ is not bounded: a
    mechanism that releases a function of φ bounds it.

    Everything is exact in float64, so that a row's features do not depend on the rows beside it, to the last bit:
    numbers between layers lie on a grid of 2⁻¹⁶, weights on grids of their own, fine enough and coarse enough that a
    layer's sums are whole numbers of units below 2⁵³, in whatever order they are summed (`Bank`, the same idea).
    """

    kind = "network"
    rounding = 0.0

    def __init__(
        self,
        shape: Sequence[int],
        convolutions: Sequence[tuple[NDArray[Any], NDArray[Any]]],
        projection: NDArray[Any],
        shift: NDArray[Any],
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
    ) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.axes = image_axes(self.shape)
        self.dim = math.prod(self.axes[:3])
        self.low, self.high = public_range(low, high, self.dim)
        self.convolutions: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        height, width, channels, _ = self.axes
        top, held_a_row = 1.0, 1
        for weights, offsets in convolutions:
            if weights.ndim != 4 or weights.shape[1] != channels or len(weights) != len(offsets):
                raise UsageError("The convolutions of a network do not fit each other or the image.")
            held_a_row = max(held_a_row, height * width * (weights[0].size + len(weights)))
            channels, height, width = len(weights), height // _POOL, width // _POOL
            held, moved, top = _on_grid(weights.reshape(channels, -1).T, offsets, top)
            self.convolutions.append((held.T.reshape(weights.shape), moved))
        self._at_once = max(1, _MAX_HELD // held_a_row)
        flat = channels * height * width
        if not flat or projection.ndim != 2 or len(projection) != flat or shift.shape != projection.shape[1:]:
            raise UsageError(f"The projection of this network is from {flat} numbers.")
        self.projection, self.shift, _ = _on_grid(projection, shift, top)
        self._kept: dict[Any, Any] = {}

    @property
    def size(self) -> int:
        """The columns of the projection and one more."""
        return int(self.projection.shape[1]) + 1

    @property
    def classes(self) -> int:
        """The number of scores, where the features are scores of classes."""
        return self.size - 1

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """All features but the last, which are the scores of the classes if the map is a classifier."""
        return self.features(x)[:, :-1]

    def flat(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs of the convolutions, of shape (rows, filters · positions); exact in float64."""
        _, low, span = kept_on(self, x, lambda: (0.0, self.low, self.high))
        seen = self.axes.pictures(to_unit(x, low, span))
        for number in range(len(self.convolutions)):
            weights, offsets = self._on(x, number)
            if x.dtype == torch.float64:
                seen = _snapped(_answers(seen, weights, offsets))
            else:
                seen = torch.nn.functional.conv2d(seen, weights, offsets, padding=weights.shape[-1] // 2)
            seen = torch.nn.functional.max_pool2d(seen.relu(), _POOL)
        return seen.flatten(1)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, size) from (rows, dim)."""
        step = self._at_once
        return torch.cat([self._features(x[i : i + step]) for i in range(0, len(x), step)])

    def _features(self, x: torch.Tensor) -> torch.Tensor:
        projection, shift = self._on(x, -1)
        seen = self.flat(x) @ projection + shift
        if x.dtype == torch.float64:
            seen = _snapped(seen)
        return torch.cat([seen, seen.new_full((len(seen), 1), CONSTANT)], dim=1)

    def _on(self, x: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A layer's weights and offsets where `x` is and in its number type; −1 is the projection."""
        key = (x.device, x.dtype, layer)
        if key not in self._kept:
            pair = (self.projection, self.shift) if layer < 0 else self.convolutions[layer]
            self._kept[key] = tuple(torch.as_tensor(np.ascontiguousarray(a)).to(x) for a in pair)
        return self._kept[key]  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """A description with a digest that identifies the map; its arrays are large and lie in a file (`tensors`)."""
        facts = {"kind": self.kind, "shape": list(self.shape), "low": self.low, "high": self.high}
        return {**facts, "digest": digest_of_arrays(self.tensors())}

    def tensors(self) -> dict[str, torch.Tensor]:
        """All arrays, on their grids, in float64."""
        held: dict[str, NDArray[np.float64]] = {"projection": self.projection, "shift": self.shift}
        for number, (weights, offsets) in enumerate(self.convolutions):
            held |= {f"weights.{number}": weights, f"offsets.{number}": offsets}
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in held.items()}

    @classmethod
    def from_tensors(cls, fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> NetworkFeatures:
        """The map that `to_dict` and `tensors` wrote, to the last bit."""
        try:
            arrays = {name: t.numpy() for name, t in tensors.items()}
            layers = sum(name.startswith("weights.") for name in arrays)
            pairs = [(arrays[f"weights.{i}"], arrays[f"offsets.{i}"]) for i in range(layers)]
            # numbers that lie on their grid stay where they are
            made = cls(fields["shape"], pairs, arrays["projection"], arrays["shift"], fields["low"], fields["high"])
            if made.to_dict() != dict(fields):
                raise DataError("This network is not the one that its features were released for.")
            return made
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"This is not a network that privot wrote ({type(error).__name__}).") from None


def digest_of_arrays(arrays: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of the names, shapes and numbers of all arrays."""
    seal = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        seal.update(f"{name} {tuple(array.shape)}".encode() + array.numpy().astype("<f8").tobytes())
    return seal.hexdigest()


def _on_grid(
    weights: NDArray[np.float64], offsets: NDArray[np.float64], top: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Weights of shape (inputs, outputs) and offsets, so rounded that sums of inputs up to `top` are exact; the most.

    |answer| ≤ b = top·Σ|w| + |offset|, and inputs have 16 bits behind the point: w may have 51 − 16 − ⌈log₂ b⌉.
    """
    weights, offsets = (np.asarray(a, dtype=np.float64) for a in (weights, offsets))
    if not (np.isfinite(weights).all() and np.isfinite(offsets).all()):
        raise UsageError("The weights of a network must be finite numbers.")

    offsets = np.ldexp(np.rint(np.ldexp(offsets, BITS)), -BITS)
    # again where rounding brings a sum over a power of two: what is on its grid must stay there when it is read back
    while True:
        most = float((top * np.abs(weights).sum(axis=0) + np.abs(offsets)).max())
        # twice, for what rounding adds
        bits = 51 - BITS - math.frexp(2.0 * most + 1.0)[1]
        if bits < _MIN_BITS:
            raise UsageError("The weights of this network are too large for exact sums.")
        rounded = np.ldexp(np.rint(np.ldexp(weights, bits)), -bits)
        if np.array_equal(rounded, weights):
            return weights, offsets, most
        weights = rounded


def _snapped(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x * 2.0**BITS) * 2.0**-BITS


def _answers(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """A convolution by one product: other ways to compute it do not sum whole numbers."""
    filters, _, width, _ = weights.shape
    patches = torch.nn.functional.unfold(x, width, padding=width // 2)
    found = torch.matmul(weights.view(filters, -1), patches) + offsets[:, None]
    return found.view(len(x), filters, *x.shape[2:])
