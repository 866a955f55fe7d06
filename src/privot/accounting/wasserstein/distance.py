"""Exact W_μ between what mechanisms release, by transport on the line; not by the published bounds.

On the line the monotone coupling is optimal for every μ ≥ 1, so

    W_μ(P, Q)^μ = ∫₀¹ |F⁻¹(u) − G⁻¹(u)|^μ du,        W₁(P, Q) = ∫ |F(x) − G(x)| dx  (Kantorovich's form).

Two facts carry this to mechanisms with many coordinates, in Euclidean norm. A release f(D) + V and its neighbour's are
*translates*: W_μ = ‖f(D) − f(D')‖ whatever the noise, because Jensen's inequality forbids less and the translation
attains it. A sampled release differs from its neighbour's along one direction only; across it both are the same noise:
projecting (a 1-Lipschitz map) cannot enlarge W_μ, and coupling the rest identically attains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtri_exp

from privot.accounting.log_sums import log_sum_exp
from privot.accounting.wasserstein.absolute_moment import check_order
from privot.accounting.wasserstein.line_laws import LineLaw
from privot.common.arguments import check_positive, is_number
from privot.errors import UsageError, brief

Array = NDArray[np.float64]

_FARTHEST = 40.0  # standard deviations; beyond them a Gaussian has mass below 1e-350
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_SMALL = 1e-5  # displacements (in σ) below which a difference of quantiles would lose digits
_CLOSEST = 1e-13


def translation_distance(shift: float) -> float:
    """W_μ between f(D) + V and f(D') + V, for any noise V and any μ ≥ 1: the shift ‖f(D) − f(D')‖ itself."""
    if not is_number(shift) or shift < 0.0:
        raise UsageError(f"A distance must be a finite number of at least 0, got {brief(shift)}.")
    return float(shift)


def _panels(edges: Array) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on every panel between `edges`."""
    edges = np.unique(edges)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    return (middle[:, None] + half[:, None] * _NODES).ravel(), (half[:, None] * _WEIGHTS).ravel()


def sampled_distance(mu: float, share: float, shift: float, sigma: float) -> float:
    """W_μ between (1 − q)N(0, σ²) + qN(d, σ²) and N(0, σ²), q = `share`, d = `shift`: one sampled Gaussian step.

    It equals q·d for μ = 1, d for q = 1, and tends to q^{1/μ}·d as σ → 0; it falls as σ grows.
    """
    mu = check_order(mu)
    check_positive("σ", sigma)
    if not is_number(share) or not 0.0 < share <= 1.0:
        raise UsageError(f"The share q must lie in (0, 1], got {brief(share)}.")
    d = translation_distance(shift) / sigma
    if d == 0.0 or share == 1.0:
        return float(shift)
    if mu == 1.0:
        return float(share) * float(shift)  # the mixture lies stochastically above the noise
    q = float(share)
    # h(y)^μ·φ(y) may peak far out, near y = μ·d, until h reaches d where e^{dy} reaches 1/q
    reach = _FARTHEST + min(mu * d, -math.log(q) / d)
    edges = np.concatenate([np.arange(-_FARTHEST, reach + 0.25, 0.25), d + np.arange(-_FARTHEST, reach + 0.25, 0.25)])
    # where the noise's own tail falls to q the map turns from following the first bump to reaching for the second
    turn = -float(ndtri_exp(math.log(q)))
    edges = np.concatenate([edges, turn + np.linspace(-2.0, 2.0, 33)])
    y, weight = _panels(edges)
    log_density = np.logaddexp(math.log1p(-q) - 0.5 * y**2, math.log(q) - 0.5 * (y - d) ** 2)
    with np.errstate(divide="ignore"):
        terms = mu * np.log(_displacement(q, d, y)) + log_density - 0.5 * math.log(2.0 * math.pi) + np.log(weight)
    return sigma * math.exp(float(log_sum_exp(terms)) / mu)


def _displacement(q: float, d: float, y: Array) -> Array:
    """y − x, where x has as much standard normal mass on either side as y has mixture mass; from 0 to d.

    On each side the nearer tail T is used: ln T(x) = ln T(y) + ln(1 + q·(T(y moved by d)/T(y) − 1)). A small
    displacement solves the second-order expansion of ln T; a larger one is a difference of quantiles.
    """
    out = np.empty_like(y)
    for upper in (True, False):
        part = y >= 0.0 if upper else y < 0.0
        z = y[part]
        side = -z if upper else z  # the tail is Φ(side), side ≤ 0
        hazard = math.sqrt(2.0 / math.pi) / erfcx(-side / math.sqrt(2.0))
        growth = _log_tail_growth(side, d if upper else -d, hazard)
        modest, huge = np.minimum(growth, 30.0), np.maximum(growth, 30.0)
        log_ratio = np.where(
            growth > 30.0,
            huge + math.log(q) + np.log1p((1.0 - q) / q * np.exp(-huge)),
            np.log1p(q * np.expm1(modest)),
        )
        # ln Φ(side ± h) − ln Φ(side) = ±λh − λ(λ + side)h²/2 with λ = φ/Φ
        first = np.abs(log_ratio) / hazard
        bend = 0.5 * first**2 * (hazard + side)
        direct_side = ndtri_exp(np.minimum(log_ndtr(side) + log_ratio, -1e-300))
        direct = direct_side - side if upper else side - direct_side
        out[part] = np.where(first * (1.0 - side) < _SMALL, first + bend if upper else first - bend, direct)
    return np.clip(out, 0.0, d)


def _log_tail_growth(side: Array, move: float, hazard: Array) -> Array:
    """ln Φ(side + move) − ln Φ(side), by its expansion where the difference would lose digits."""
    slope = -hazard * (hazard + side)
    near = move * hazard + 0.5 * move**2 * slope
    return np.where(abs(move) * (1.0 - side) < 1e-4, near, log_ndtr(side + move) - log_ndtr(side))


def distance(mu: float, first: LineLaw, second: LineLaw) -> float:
    """W_μ between any two laws on the line, by their quantiles.

    Absolute accuracy about 1e-12 of the larger scale; for one sampled Gaussian step `sampled_distance` is sharper.
    """
    mu = check_order(mu)
    if first == second:
        return 0.0
    if first.noise == second.noise and first.scale == second.scale and len(first.centres) == len(second.centres):
        shifts = {b - a for a, b in zip(first.centres, second.centres, strict=True)}
        if first.weights == second.weights and len(shifts) == 1:
            return abs(shifts.pop())
    # quantiles of well-separated mixtures jump where weights add up; Laplace's bend at the centres: panels shrink there
    bends: set[float] = {0.0}
    for law in (first, second):
        order = np.argsort(law.centres)
        below = np.cumsum(np.array(law.weights)[order])[:-1]
        above = np.cumsum(np.array(law.weights)[order][::-1])[::-1][1:]
        bends.update(np.log(below) - np.log(above))
        centres = np.array(law.centres)
        bends.update(law.log_below(centres) - law.log_above(centres))
    close = np.concatenate([[0.0], np.geomspace(_CLOSEST, 2.0, 32)])
    wide = np.concatenate([np.arange(0.0, 40.0), np.geomspace(40.0, 5000.0, 70)])
    edges = np.concatenate([-wide, wide, *[b + s * close for b in bends for s in (-1.0, 1.0)]])

    def gap(t: Array) -> Array:
        return first.quantile(t) - second.quantile(t)

    t, weight, gaps = _signed(edges, gap)
    log_mass = -np.logaddexp(0.0, t) - np.logaddexp(0.0, -t)  # du = u(1 − u) dt
    with np.errstate(divide="ignore"):
        return math.exp(float(log_sum_exp(mu * np.log(np.abs(gaps)) + log_mass + np.log(weight))) / mu)


def _signed(edges: Array, function: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """Nodes, weights and values of a function whose absolute value is integrated: panels end where it changes sign."""
    x, weight = _panels(edges)
    values = function(x)
    turns = np.flatnonzero(values[:-1] * values[1:] < 0.0)
    if turns.size == 0 or turns.size > 64:  # many changes are rounding about 0
        return x, weight, values
    low, high, sign = x[turns], x[turns + 1], np.sign(values[turns])
    for _ in range(22):  # a kink misplaced by η costs η² only
        middle = 0.5 * (low + high)
        same = np.sign(function(middle)) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    x, weight = _panels(np.concatenate([edges, 0.5 * (low + high)]))
    return x, weight, function(x)


def kantorovich(first: LineLaw, second: LineLaw) -> float:
    """W₁ = ∫ |F − G| dx: what the best 1-Lipschitz test function can tell the two laws apart by."""
    _, weight, values = _signed(_line(first, second), lambda x: _difference(first, second, x))
    return float(weight @ np.abs(values))


def potential(first: LineLaw, second: LineLaw) -> Callable[[Array], Array]:
    """The test function φ with |φ'| ≤ 1 whose means differ by W₁: φ' is the sign of G − F. φ is 0 at the left end."""
    x, weight, values = _signed(_line(first, second), lambda at: _difference(first, second, at))
    heights = np.concatenate([[0.0], np.cumsum(-weight * np.sign(values))])
    ends = x[0] + np.concatenate([[0.0], np.cumsum(weight)])
    return lambda at: np.interp(np.asarray(at, float), ends, heights)


def _difference(first: LineLaw, second: LineLaw, x: Array) -> Array:
    """F − G, taken on the side where both are small."""
    left = np.exp(first.log_below(x)) - np.exp(second.log_below(x))
    right = np.exp(second.log_above(x)) - np.exp(first.log_above(x))
    return np.where(first.log_below(x) < math.log(0.5), left, right)


def _line(first: LineLaw, second: LineLaw) -> Array:
    """Edges of panels that cover both laws."""
    edges = []
    for law in (first, second):
        reach = _FARTHEST if law.noise == "gaussian" else 2.0 * _FARTHEST
        around = law.scale * np.arange(-reach, reach + 0.25, 0.25)
        edges += [centre + around for centre in law.centres]
    return np.concatenate(edges)
