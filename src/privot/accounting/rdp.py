"""Rényi accounting: exact curves of the base mechanisms, sampled curves, and the way to (ε, δ).

A curve is a function of the order α; all composition is addition. Sampled curves are exact or bounded at integer
orders and interpolated between them: (α−1)·ε(α) is convex and 0 at α = 1, so its chord lies above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from privot.accounting.events import Event, Gaussian, Laplace, Projection, Renyi, Sampled
from privot.accounting.laws.projection_law import log_moment
from privot.accounting.log_sums import log_sum_exp
from privot.accounting.sampling import Poisson
from privot.errors import NoTheoremError

Array = NDArray[np.float64]

ORDERS: Array = np.unique(
    np.concatenate(
        [
            1.0 + np.geomspace(0.005, 0.9, 25),
            np.arange(2, 65),
            np.round(np.geomspace(65, 1024, 40)),
        ]
    ).astype(float)
)


def curve(event: Event, orders: Array) -> Array:
    """ε(α) of a leaf event at `orders` > 1; inf where nothing is known. Published bounds: outside their failure."""
    if isinstance(event, Sampled):
        return _sampled(event, orders)
    if isinstance(event, Gaussian):
        return orders * (event.sensitivity / event.sigma) ** 2 / 2.0
    if isinstance(event, Projection):
        if event.bound != "exact":
            return orders * event.squared_sensitivity / event.sigma**2 / 2.0
        # the divergence averages over the public directions inside the logarithm
        c = orders * (orders - 1.0) * (event.sensitivity / event.sigma) ** 2 / 2.0
        return log_moment(event.dim, event.slices, event.frame == "orthogonal", c) / (orders - 1.0)
    if isinstance(event, Laplace):
        # Mironov 2017, Proposition 6
        t = event.sensitivity / event.scale
        first = (orders - 1.0) * t + np.log(orders / (2.0 * orders - 1.0))
        second = -orders * t + np.log((orders - 1.0) / (2.0 * orders - 1.0))
        return np.maximum(np.logaddexp(first, second), 0.0) / (orders - 1.0)
    if isinstance(event, Renyi):
        return _interpolate(np.array(event.orders), np.array(event.epsilons), orders, event.pure)
    return np.full(orders.shape, math.inf)


def failure(steps: Iterable[tuple[Event, int]]) -> float:
    """δ that published bounds give up for bad directions: at every draw, or once where counted as published."""
    out = 0.0
    for event, times in steps:
        inner = event.event if isinstance(event, Sampled) else event
        if isinstance(inner, Projection) and inner.failure is not None:
            out += inner.failure if inner.fails_once else times * inner.failure
    return out


def _interpolate(known: Array, values: Array, orders: Array, beyond: float) -> Array:
    """ε at `orders` from ε at `known` orders, by chords of (α−1)·ε(α); `beyond` the last known order."""
    known = np.concatenate([[1.0], known])
    moments = np.concatenate([[0.0], (known[1:] - 1.0) * values])
    upper = np.searchsorted(known, orders, side="left").clip(1, len(known) - 1)
    low, high = known[upper - 1], known[upper]
    share = (orders - low) / (high - low)
    left = np.where(share < 1.0, moments[upper - 1], 0.0)  # keep inf·0 out of the exact hits
    out = (left * (1.0 - share) + np.where(share > 0.0, moments[upper], 0.0) * share) / (orders - 1.0)
    return np.where(orders > known[-1], beyond, out)


def _log_binomials(top: int, j: Array) -> Array:
    return np.asarray(gammaln(top + 1.0) - gammaln(j + 1.0) - gammaln(top - j + 1.0))


def _log_expm1(x: Array) -> Array:
    """ln(e^x − 1) for x ≥ 0 of any size."""
    with np.errstate(divide="ignore"):
        return np.where(x > 30.0, x, np.log(np.expm1(np.minimum(x, 30.0))))


def _sampled(event: Sampled, orders: Array) -> Array:
    integers = np.unique(np.concatenate([np.floor(orders), np.ceil(orders)]))
    integers = integers[integers >= 2.0]
    q = event.sampling.share
    if q == 1.0:
        return curve(event.event, orders)
    base = curve(event.event, np.arange(2.0, integers[-1] + 1.0))
    values = np.array([_sampled_at(event, int(a), q, base[: int(a) - 1]) for a in integers])
    pure = event.event.pure if isinstance(event.event, Renyi) else math.inf
    beyond = math.log1p(q * math.expm1(pure)) if pure < 700.0 else math.inf
    amplified = np.minimum(_interpolate(integers, values, orders, math.inf), beyond)
    return np.minimum(amplified, curve(event.event, orders))


def _sampled_at(event: Sampled, order: int, q: float, base: Array) -> float:
    """ε'(α) at an integer order from base[j−2] = ε(j), j = 2…α."""
    if isinstance(event.sampling, Poisson):
        bounds = [_poisson(event.event, order, q, base)]
    else:
        bounds = [_fixed_size_general(event.event, order, q, base)]
        if not isinstance(event.event, Renyi):
            bounds.append(_fixed_size_pair(order, q, base))
    # sampling never hurts: the divergence is quasi-convex, and samples without the changed record agree
    return min(*bounds, (order - 1.0) * float(base[-1])) / (order - 1.0)


def _mixture_excess(order: int, q: float, base: Array) -> float:
    """ln of E_Q[(1−q+qr)^α] − 1 = Σ_{j≥2} C(α,j)(1−q)^{α−j}q^j·(e^{(j−1)ε(j)} − 1): all terms positive."""
    j = np.arange(2.0, order + 1.0)
    terms = _log_binomials(order, j) + (order - j) * math.log1p(-q) + j * math.log(q)
    return float(log_sum_exp(terms + _log_expm1((j - 1.0) * base)))


def _poisson(event: Event, order: int, q: float, base: Array) -> float:
    """(α−1)·ε'(α) under Poisson sampling, add/remove.

    Exact for symmetric pairs (Mironov, Talwar & Zhang 2019, §3.3: removing dominates adding); for a curve alone,
    Zhu & Wang 2019, Theorem 5.
    """
    if not isinstance(event, Renyi):
        return float(np.logaddexp(0.0, _mixture_excess(order, q, base)))
    j = np.arange(2.0, order + 1.0)
    terms = _log_binomials(order, j) + (order - j) * math.log1p(-q) + j * math.log(q) + (j - 1.0) * base
    terms[1:] += math.log(3.0)
    first = (order - 1.0) * math.log1p(-q) + math.log1p((order - 1.0) * q)
    return max(0.0, float(log_sum_exp(np.append(terms, first))))


def _fixed_size_pair(order: int, q: float, base: Array) -> float:
    """(α−1)·ε'(α) for fixed-size sampling, replace-one, of a symmetric pair.

    The Rényi moment of the dominating pair in `pairs` is E_Q[r'^α; r>1] + E_Q[r'^{1−α}; r>1] + its atom at 0. Against
    E_Q[r'^α] (the "remove" pair) it exceeds by at most C(α,2)·q²·E_Q[(r−1)²; r>1] ≤ C(α,2)·q²·(e^{ε(2)} − 1): expand
    r'^{1−α} to second order (its third derivative is negative), use Bernoulli's inequality for r < 1; the first-order
    terms cancel because E_Q[(r−1)₊] = E_Q[(1−r)₊].
    """
    extra = math.log(order * (order - 1.0) / 2.0) + 2.0 * math.log(q) + float(_log_expm1(base[:1])[0])
    return float(np.logaddexp(0.0, np.logaddexp(_mixture_excess(order, q, base), extra)))


def _fixed_size_general(event: Event, order: int, q: float, base: Array) -> float:
    """(α−1)·ε'(α), fixed-size sampling, replace-one, of *any* curve: Wang, Balle & Kasiviswanathan 2019, Theorem 9."""
    pure = event.pure if isinstance(event, Renyi) else math.inf
    j = np.arange(2.0, order + 1.0)
    # min{2, (e^{ε(∞)} − 1)^j}, in logarithms
    log_pure = float(_log_expm1(np.array([pure]))[0]) if pure < math.inf else math.inf
    cap = np.minimum(math.log(2.0), j * log_pure) if log_pure < math.inf else np.full(j.shape, math.log(2.0))
    terms = j * math.log(q) + _log_binomials(order, j) + (j - 1.0) * base + cap
    two = 2.0 * math.log(q) + _log_binomials(order, j[:1])[0]
    terms[0] = two + min(math.log(4.0) + float(_log_expm1(base[:1])[0]), float(base[0] + cap[0]))
    return float(np.logaddexp(0.0, log_sum_exp(terms)))


def total(steps: list[tuple[Event, int]], orders: Array = ORDERS) -> Array:
    """ε(α) of all steps together."""
    return np.asarray(np.sum([times * curve(event, orders) for event, times in steps], axis=0))


def epsilon(curve_values: Array, delta: float, orders: Array = ORDERS) -> float:
    """ε at δ: min over α of ε(α) + ln(1 − 1/α) − (ln δ + ln α)/(α−1) (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    bounds = curve_values + np.log1p(-1.0 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1.0)
    return float(max(0.0, np.min(np.where(np.isnan(bounds), math.inf, bounds))))


def delta(curve_values: Array, epsilon_at: float, orders: Array = ORDERS) -> float:
    """δ at ε by the same inequality, solved for δ."""
    logs = (orders - 1.0) * (curve_values - epsilon_at + np.log1p(-1.0 / orders)) - np.log(orders)
    return float(math.exp(min(0.0, np.min(np.where(np.isnan(logs), math.inf, logs)))))


def published_epsilon(steps: list[tuple[Event, int]], delta_at: float) -> float:
    """ε of Bernstein- or CLT-bounded projections as published (Rakotomamonjy & Ralaivola 2021, Proposition 2).

    Mironov's conversion min_α ε(α) + ln(1/δ')/(α−1), where δ' is what is left of δ after the failure probability has
    been charged at *every* draw of the directions; for the bounds "published" and "published-clt" once, as the paper
    does.
    """
    quadratic = 0.0  # Σ T·w/σ² of the unsampled ones
    sampled: list[tuple[Event, int]] = []
    for event, times in steps:
        inner = event.event if isinstance(event, Sampled) else event
        if not isinstance(inner, Projection) or inner.failure is None:
            raise NoTheoremError("The published bounds are stated for projections only.")
        if isinstance(event, Sampled):
            sampled.append((event, times))
        else:
            quadratic += times * inner.squared_sensitivity / inner.sigma**2
    left = delta_at - failure(steps)
    if left <= delta_at * 1e-9:
        return math.inf
    log = math.log(1.0 / left)
    if not sampled:  # α·c + log/(α−1) is smallest at α = 1 + √(log/c)
        return quadratic / 2.0 + math.sqrt(2.0 * quadratic * log)
    values = total(sampled) + ORDERS * quadratic / 2.0
    return float(np.min(values + log / (ORDERS - 1.0)))
