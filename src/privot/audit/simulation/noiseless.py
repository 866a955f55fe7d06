"""A noise source without noise: it shows a mechanism's values, and how much noise the mechanism asks for.

It is for records that the audit made itself only: it shows exactly what noise must hide.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import Shape
from privot.guarantee import Standing
from privot.noise import NoiseSource

if TYPE_CHECKING:
    import torch


class NoNoise:
    """A source whose normals are all zero and whose samples are those of `source`; it records each requested σ."""

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self.sigmas: set[float] = set()

    @property
    def standing(self) -> Standing:
        """UNPROVEN: there is no noise at all."""
        return Standing.UNPROVEN

    @property
    def assumptions(self) -> tuple[str, ...]:
        """In words."""
        return ("no noise was added: an audit examined its own records",)

    def normal(self, shape: Shape, sigma: float) -> NDArray[np.float64]:
        """Zeros."""
        self.sigmas.add(float(sigma))
        return np.zeros(shape)

    def normal_tensor(self, shape: Shape, sigma: float, device: torch.device | str, dtype: torch.dtype) -> torch.Tensor:
        """Zeros."""
        import torch

        self.sigmas.add(float(sigma))
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        return torch.zeros(lengths, device=device, dtype=dtype)

    def discrete_gaussian(self, sigma_squared: Fraction | float, size: Shape) -> NDArray[np.int64]:
        """Zeros."""
        self.sigmas.add(float(sigma_squared) ** 0.5)
        return np.zeros(size, dtype=np.int64)

    def uniform_bits(self, count: int) -> NDArray[np.uint64]:
        """The source's."""
        return self._source.uniform_bits(count)

    def integers(self, bound: int, count: int) -> NDArray[np.int64]:
        """The source's."""
        return self._source.integers(bound, count)

    def sample_without_replacement(self, records: int, batch: int) -> NDArray[np.int64]:
        """The source's."""
        return self._source.sample_without_replacement(records, batch)

    def poisson_sample(self, records: int, rate: float) -> NDArray[np.int64]:
        """The source's."""
        return self._source.poisson_sample(records, rate)
