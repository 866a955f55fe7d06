"""Counts by Rényi divergences: exact at every order for Poisson-sampled Gaussian steps, also at fractional ones."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privot.accounting import rdp
from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.events import Event, Gaussian, Sampled
from privot.accounting.log_sums import log_sum_exp
from privot.accounting.sampling import Poisson
from privot.common.arguments import check_delta, is_number
from privot.common.declared import declared
from privot.errors import UsageError
from privot.guarantee import Standing

Array = NDArray[np.float64]

ORDERS: tuple[float, ...] = tuple(
    float(a)
    for a in np.unique(
        np.concatenate(
            [1.0 + np.arange(1, 100) / 10.0, np.arange(11.0, 65.0), np.round(np.geomspace(65.0, 1024.0, 40))]
        )
    )
)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_WIDEST = 4000.0
_MAX_EXPONENT = 600.0


@lru_cache(maxsize=512)
def curve(event: Event, orders: tuple[float, ...]) -> tuple[float, ...]:
    """ε(α) of one leaf; where `renyi.curve` takes a chord between whole orders, the integral itself."""
    given = np.array(orders)
    out = rdp.curve(event, given)
    if isinstance(event, Sampled) and isinstance(event.event, Gaussian) and isinstance(event.sampling, Poisson):
        q, shift = event.sampling.share, event.event.sensitivity / event.event.sigma
        for i, alpha in enumerate(orders):
            if q < 1.0 and alpha != math.floor(alpha) and alpha * shift < _WIDEST:
                out[i] = min(out[i], _fractional(alpha, q, shift))
    return tuple(float(e) for e in out)


def _fractional(alpha: float, q: float, shift: float) -> float:
    """1/(α−1) · ln ∫ φ(x)·(1 − q + q·e^{sx − s²/2})^α dx: Mironov, Talwar & Zhang 2019, eq. (2), by quadrature.

    Removing a record dominates adding one there (their Theorem 5), so one direction is enough. Infinite, which says
    nothing, where neither way of adding up keeps its digits.
    """
    edges = np.arange(-40.0, alpha * shift + 40.5, 0.5)
    middle = 0.5 * (edges[1:] + edges[:-1])
    x = (middle[:, None] + 0.25 * _NODES).ravel()
    weights = np.tile(0.25 * _WEIGHTS, len(middle)) / math.sqrt(2.0 * math.pi)
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + shift * x - 0.5 * shift**2)
    logs = alpha * log_ratio - 0.5 * x * x
    # far out, where the ratio is largest; beyond what a float holds the excess below cannot be summed
    largest = max(shift * float(x[-1]) - 0.5 * shift**2, alpha * float(log_ratio[-1]))
    total = float(log_sum_exp(logs, weights))
    if total < 0.1:
        # a moment near 1: sum the excess, E[r^α − 1 − α(r − 1)] (E[r] = 1), so that small divergences keep their digits
        if largest > _MAX_EXPONENT:
            return math.inf
        rise = q * np.expm1(shift * x - 0.5 * shift**2)
        near = np.abs(alpha * rise) < 1e-4
        small = np.where(near, rise, 0.0)
        excess = np.where(
            near,
            0.5 * alpha * (alpha - 1.0) * small**2 * (1.0 + (alpha - 2.0) * small / 3.0),
            np.expm1(alpha * log_ratio) - alpha * rise,
        )
        return max(0.0, math.log1p(float(weights @ (excess * np.exp(-0.5 * x * x))))) / (alpha - 1.0)
    return total / (alpha - 1.0)


class RenyiAccountant(RunningAccountant):
    """Rényi differential privacy (Mironov 2017), converted by Canonne, Kamath & Steinke 2020, Proposition 12.

    Formal guarantee: the run is (epsilon(δ), δ)-DP under the adjacency of its events.
    """

    name: str = "Rényi"
    standing: ClassVar[Standing] = Standing.PROVEN
    meaning: ClassVar[str] = "(ε, δ)-differential privacy of the whole run, by Rényi composition"

    @declared(orders="list")
    def __init__(self, orders: tuple[float, ...] = ORDERS) -> None:
        super().__init__()
        values = tuple(float(a) for a in orders if is_number(a) and a > 1.0)
        if not values or len(values) != len(tuple(orders)) or list(values) != sorted(set(values)):
            raise UsageError("Rényi orders must be finite, greater than 1 and rising.")
        self.orders = values

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        if not np.isfinite(curve(leaf, self.orders)).any():
            raise UsageError(f"No Rényi curve is known of a {leaf.kind} event.")
        return np.zeros(0)

    def total(self) -> Array:
        """ε(α) of everything so far, at `orders`."""
        out = np.zeros(len(self.orders))
        for event, times in self._steps.items():
            out += times * np.array(curve(event, self.orders))
        return out

    def epsilon(self, delta: float) -> float:
        """ε at the best order, at what published bounds that may fail leave of `delta`."""
        check_delta(delta)
        if not self._steps:
            return 0.0
        left = delta - rdp.failure(self._steps.items())
        return rdp.epsilon(self.total(), left, np.array(self.orders)) if left > 0.0 else math.inf

    def settings(self) -> dict[str, Any]:
        """The orders."""
        return {"orders": list(self.orders)}
