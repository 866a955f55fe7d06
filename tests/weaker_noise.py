"""Noise that is weaker than was asked for: what a test of noise must be able to tell from the right one."""

from __future__ import annotations

from typing import Any

import numpy as np

from privot.noise import SystemNoise


class WeakerNoise(SystemNoise):
    """Noise of `factor` times the deviation that was asked for."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def normal(self, shape: Any, sigma: float) -> np.ndarray:
        return super().normal(shape, sigma * self.factor)
