"""Bounded features of a scattering: what textures and edges an image has, and where; nothing in them is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from privot.errors import UsageError
from privot.mechanisms.gradients.linear_head import bounded
from privot.synthesis.neural.features.codes_beside_fourier import DRAWN, CodesBesideFourier, check_share
from privot.synthesis.neural.features.fourier import register
from privot.synthesis.neural.features.scattering import Scattering, cell_for

MOST = 2_048
"""The most averages of an image: those over smaller cells bring more noise than they tell."""


class Scattered(CodesBesideFourier):
    """φ(x) = (√s·z, √(1−s)·ψ(z)), z the scattering of x with norm 1, ψ random Fourier features of z.

    The scattering is standardised by fixed constants of photographs (`Scattering.of_photographs`), so z of nearly every
    image has norm 1; shorter ones stay as they are. ⟨φ(x), φ(y)⟩ is s times the cosine of z, plus 1 − s times a
    Gaussian kernel between them: means of z say what a class looks like, those of ψ how it spreads.

    Parameters
    ----------
    shape
        The public shape of an image, both sides at least 16.
    frequencies, bandwidths, seed
        Those of ψ; the codes of two images are at most 2 apart.
    low, high
        The public range of the records.
    share
        s, strictly between 0 and 1.

    Notes
    -----
    Formal guarantees:
      * in float64, z of a record depends on that record alone, to the last bit: the scattering does (`Scattering`), and
        its norm comes from exact sums (`linear_head.bounded`); ψ to the `rounding` of `Fourier`;
      * ‖φ‖ ≤ 1 for every record; a record with a number that is not finite has z = 0.

    >>> held = Scattered((16, 16, 3), 10, [0.5], seed=0)
    >>> x = torch.rand(3, 768, dtype=torch.float64)
    >>> bool((held.features(x).norm(dim=1) <= 1.0).all()), held.features(x).shape[1] == held.size
    (True, True)
    """

    kind = "scattered"

    def __init__(
        self,
        shape: Sequence[int],
        frequencies: int,
        bandwidths: Sequence[float],
        seed: int,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        share: float = 0.5,
    ) -> None:
        check_share(share)
        self.map = Scattering(shape, cell_for(shape, MOST)).of_photographs(low, high)
        self.shape, self.dim, self.low, self.high = self.map.shape, self.map.dim, self.map.low, self.map.high
        self._draw(self.map.size, frequencies, bandwidths, seed, share)

    def codes(self, x: torch.Tensor) -> torch.Tensor:
        """z, of shape (rows, numbers), in the number type of `x`."""
        if x.dtype is torch.float64:
            return bounded(self.map.features(x))
        found = self.map.at_once(x)
        scaled: torch.Tensor = found / torch.linalg.vector_norm(found, dim=1, keepdim=True).clamp(min=1.0)
        return scaled

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again, with the digest of the scattering's constants."""
        return {"kind": self.kind, **self._drawn(), "scattering": self.map.to_dict()["digest"]}

    def exact_bytes(self) -> bytes:
        """The map to the last bit."""
        return repr(sorted(self.to_dict().items())).encode() + self.fourier.exact_bytes()


@register("scattered")
def _scattered(fields: Mapping[str, Any]) -> Scattered:
    made = Scattered(**{name: fields[name] for name in DRAWN})
    if made.to_dict()["scattering"] != fields["scattering"]:
        # another release of privot may have other constants; its samples would be compared with other features
        raise UsageError("This scattering is not the one that its features were released for.")
    return made
