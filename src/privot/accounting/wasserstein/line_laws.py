"""Laws on the real line that mechanisms leave behind: mixtures of shifted Gaussian or Laplace noise.

Each law answers with the logarithms of its two tails, so that quantiles far out keep their digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from privot.common.arguments import LARGEST, check_positive, is_number
from privot.errors import UsageError, brief

Array = NDArray[np.float64]
Noise = Literal["gaussian", "laplace"]


@dataclass(frozen=True)
class LineLaw:
    """Σ_i `weights`[i] · law of (`centres`[i] + noise), the noise Gaussian (σ = `scale`) or Laplace (λ = `scale`)."""

    centres: tuple[float, ...]
    weights: tuple[float, ...]
    scale: float
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        check_positive("The scale of the noise", self.scale)
        if self.noise not in ("gaussian", "laplace"):
            raise UsageError(f"Unknown noise {brief(self.noise)}: say gaussian or laplace.")
        if not self.centres or len(self.centres) != len(self.weights):
            raise UsageError("A law needs as many weights as centres, and at least one.")
        if not all(is_number(c) and abs(c) <= LARGEST for c in self.centres):
            raise UsageError("The centres of a law must be finite numbers.")
        if not all(is_number(w) and w > 0.0 for w in self.weights) or abs(math.fsum(self.weights) - 1.0) > 1e-12:
            raise UsageError("The weights of a law must be greater than 0 and sum to 1.")

    @property
    def low(self) -> float:
        """The smallest centre."""
        return min(self.centres)

    @property
    def high(self) -> float:
        """The largest centre."""
        return max(self.centres)

    def log_below(self, x: Array) -> Array:
        """ln P(X ≤ x)."""
        return self._mixed(np.asarray(x, float), 1.0)

    def log_above(self, x: Array) -> Array:
        """ln P(X > x)."""
        return self._mixed(np.asarray(x, float), -1.0)

    def log_density(self, x: Array) -> Array:
        """The logarithm of the density."""
        z = (np.asarray(x, float)[..., None] - np.array(self.centres)) / self.scale
        gaussian = self.noise == "gaussian"
        logs = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi) if gaussian else -np.abs(z) - math.log(2.0)
        return _log_sum(logs + np.log(self.weights)) - math.log(self.scale)

    def _mixed(self, x: Array, sign: float) -> Array:
        z = sign * (x[..., None] - np.array(self.centres)) / self.scale
        logs = log_ndtr(z) if self.noise == "gaussian" else _log_laplace(z)
        return _log_sum(logs + np.log(self.weights))

    def quantile(self, logit: Array) -> Array:
        """The x with P(X ≤ x)/P(X > x) = e^`logit`, bracketed and refined in logarithms, to the last bits."""
        t = np.asarray(logit, float).ravel()
        # a mixture's quantile lies between those of its outermost parts
        reach = self.scale * (np.sqrt(2.0 * np.abs(t)) + 3.0 if self.noise == "gaussian" else np.abs(t) + 3.0)
        low, high = self.low - reach, self.high + reach
        x = 0.5 * (low + high)
        left = np.arange(t.size)  # those not found yet
        for turn in range(200):
            at = x[left]
            below, above = self.log_below(at), self.log_above(at)
            short = below - above < t[left]
            low[left], high[left] = np.where(short, at, low[left]), np.where(short, high[left], at)
            # Newton's step in the logit; bisection wherever that leaves the bracket, and now and then
            with np.errstate(over="ignore", invalid="ignore"):
                step = (t[left] - (below - above)) * np.exp(below + above - self.log_density(at))
            guess = at + step
            inside = (guess > low[left]) & (guess < high[left]) & (turn % 8 != 7)
            found = np.abs(step) <= 4e-15 * (np.abs(at) + self.scale)
            found |= np.abs(t[left] - (below - above)) <= 1e-15 * (1.0 + np.abs(below) + np.abs(above))
            x[left] = np.where(found, at, np.where(inside, guess, 0.5 * (low[left] + high[left])))
            narrow = high[left] - low[left] <= 1e-15 * (np.abs(at) + self.scale)
            left = left[~(found | narrow)]
            if left.size == 0:
                break
        return np.asarray(x.reshape(np.shape(logit)))


def _log_sum(logs: Array) -> Array:
    """ln Σ e^x over the last axis, for a handful of finite terms."""
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


def _log_laplace(z: Array) -> Array:
    """ln P(noise ≤ z) of a unit Laplace law."""
    with np.errstate(over="ignore"):
        return np.where(z < 0.0, np.minimum(z, 0.0) - math.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(z, 0.0))))


def additive(centre: float, scale: float, noise: Noise = "gaussian") -> LineLaw:
    """The output of an additive mechanism whose value is `centre`."""
    return LineLaw((float(centre),), (1.0,), float(scale), noise)


def sampled(share: float, shift: float, scale: float, noise: Noise = "gaussian") -> LineLaw:
    """(1 − q)·law(noise) + q·law(`shift` + noise), q = `share`: one record's effect on a sampled release."""
    if not is_number(share) or not 0.0 < share <= 1.0:
        raise UsageError(f"The share q must lie in (0, 1], got {brief(share)}.")
    if share == 1.0:
        return additive(shift, scale, noise)
    return LineLaw((0.0, float(shift)), (1.0 - float(share), float(share)), float(scale), noise)
