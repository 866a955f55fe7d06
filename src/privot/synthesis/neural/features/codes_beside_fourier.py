"""What maps of an image's codes share: the codes beside Fourier features of them, weighted to norm 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from privot.errors import UsageError
from privot.synthesis.neural.features.fourier import Fourier

DRAWN = ("shape", "frequencies", "bandwidths", "seed", "low", "high", "share")
"""Names of the parameters that such a map is drawn again from."""
_INSIDE = 1.0 - 2.0**-20
"""So that no rounding of a norm brings the features outside of the ball."""


class CodesBesideFourier(ABC):
    """φ(x) = (√s·z, √(1−s)·ψ(z)), z codes of x of norm at most 1, ψ random Fourier features of z: so ‖φ‖ ≤ 1.

    A map that extends it says what z is (`codes`), and calls `_draw` once it knows how many numbers z has.

    Formal guarantee: ‖φ(x)‖² = (1 − 2⁻²⁰)²·(s·‖z‖² + (1 − s)·‖ψ‖²) ≤ 1 wherever ‖z‖ ≤ 1, which the map itself has to
    see to, since ‖ψ‖ = 1. φ depends on nothing but z: to the last bit in its first part, to `rounding` in ψ.
    """

    shape: tuple[int, ...]
    low: float | list[float]
    high: float | list[float]
    share: float
    bandwidths: tuple[float, ...]
    fourier: Fourier
    rounding = Fourier.rounding

    def _draw(self, width: int, frequencies: int, bandwidths: Sequence[float], seed: int, share: float) -> None:
        """Keep the share s and draw ψ for codes of `width` numbers."""
        self.share, self.bandwidths = float(share), tuple(float(h) for h in bandwidths)
        # codes from −1 to 1 are scaled to [0, 1]: distances are halved
        halved = [h / 2.0 for h in self.bandwidths]
        self.fourier = Fourier(width, frequencies, halved, seed, -1.0, 1.0, "independent")

    @property
    def size(self) -> int:
        """The numbers of z, and a cosine and a sine for every frequency."""
        return self.fourier.dim + self.fourier.size

    @property
    def weights(self) -> tuple[float, float]:
        """Of z and of ψ."""
        return math.sqrt(self.share) * _INSIDE, math.sqrt(1.0 - self.share) * _INSIDE

    @abstractmethod
    def codes(self, x: Tensor) -> Tensor:
        """z, of shape (rows, numbers), in the number type of `x`."""

    def features(self, x: Tensor) -> Tensor:
        """(rows, size) from (rows, dim)."""
        codes, (a, b) = self.codes(x), self.weights
        return torch.cat([codes * a, self.fourier.features(codes) * b], dim=1)

    def _drawn(self) -> dict[str, Any]:
        """What `to_dict` of every such map states."""
        return {
            "shape": list(self.shape),
            "frequencies": self.fourier.frequencies,
            "bandwidths": list(self.bandwidths),
            "seed": self.fourier.seed,
            "low": self.low,
            "high": self.high,
            "share": self.share,
        }


def check_share(share: float) -> None:
    """Refuse a share of the codes that leaves nothing for one of both parts."""
    if not 0.0 < share < 1.0:
        raise UsageError(f"The share of the codes themselves must lie strictly between 0 and 1, got {share!r}.")
