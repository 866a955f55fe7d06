"""Independent answers for the accountants' tests: mpmath, quadrature and simulation; imports nothing that counts."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]


def gaussian_delta(shift: float, epsilon: float) -> mp.mpf:
    """Φ(s/2 − ε/s) − e^ε·Φ(−s/2 − ε/s), in 60 digits."""
    with mp.workdps(60):
        s, e = mp.mpf(shift), mp.mpf(epsilon)
        return mp.ncdf(s / 2 - e / s) - mp.exp(e) * mp.ncdf(-s / 2 - e / s)


def log_beta_moment(r: int, d: int, x: float) -> mp.mpf:
    """ln E[e^{xt}], t ~ Beta(r/2, (d−r)/2): by mpmath, or by quadrature in the logit where that gives up."""
    if r == d:
        return mp.mpf(x)
    with mp.workdps(40):
        a, b, x = mp.mpf(r) / 2, mp.mpf(d) / 2, mp.mpf(x)
        try:
            return mp.log(mp.hyp1f1(a, b, x))
        except mp.libmp.NoConvergence:
            pass
    with mp.workdps(30):

        def f(y: mp.mpf) -> mp.mpf:
            t = 1 / (1 + mp.exp(-y))
            return x * t - a * mp.log1p(mp.exp(-y)) - (b - a) * mp.log1p(mp.exp(y))

        t = (x - b + mp.sqrt((x - b) ** 2 + 4 * a * x)) / (2 * x)
        peak = mp.log(t / (1 - t))
        width = 1 / mp.sqrt(t * (1 - t) * mp.sqrt((x - b) ** 2 + 4 * a * x))
        marks = [peak + width * k for k in (-60, -30, -15, -8, -4, 0, 4, 8, 15, 30, 60, 120, 240)]
        area = mp.quad(lambda y: mp.exp(f(y) - f(peak)), marks)
        return f(peak) + mp.log(area) - mp.log(mp.beta(a, b - a))


def draw_shares(dim: int, slices: int, orthogonal: bool, count: int, seed: int) -> Array:
    """`count` draws of H = ‖zᵀU‖² for a unit vector z, with the directions themselves drawn, not the Beta law."""
    rng = np.random.default_rng(seed)
    out = np.zeros(count)
    left = slices
    while left > 0:
        if orthogonal:
            size = min(left, dim)
            # by symmetry z against a random frame is a random unit vector against the first `size` axes
            g = rng.standard_normal((count, dim))
            out += (g[:, :size] ** 2).sum(1) / (g**2).sum(1)
        else:
            size = 1
            g = rng.standard_normal((count, dim))
            out += g[:, 0] ** 2 / (g**2).sum(1)
        left -= size
    return out


def log_mixture(q: float, log_ratio: Array) -> Array:
    """ln(1 − q + q·r)."""
    return np.logaddexp(math.log1p(-q), math.log(q) + log_ratio) if q < 1.0 else log_ratio


class GaussianGrid:
    """N(0, 1) = Q and N(s, 1) = P on a fine grid wide enough for orders up to `reach`."""

    def __init__(self, shift: float, reach: float = 1.0) -> None:
        self.x = np.linspace(-14.0 - reach * shift, 14.0 + (1.0 + reach) * shift, 200_001)
        self.step = float(self.x[1] - self.x[0])
        self.log_q = -0.5 * self.x**2 - 0.5 * math.log(2.0 * math.pi)
        self.log_ratio = shift * self.x - 0.5 * shift**2

    def integrate(self, logs: Array) -> float:
        """ln ∫ e^logs."""
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).sum()) * self.step)

    def remove(self, q: float, order: float) -> float:
        """ln E_Q[r'^α]: (α−1) times the Rényi divergence of ((1−q)Q + qP, Q)."""
        return self.integrate(self.log_q + order * log_mixture(q, self.log_ratio))

    def add(self, q: float, order: float) -> float:
        """ln E_Q[r'^{1−α}]: the other direction."""
        return self.integrate(self.log_q + (1.0 - order) * log_mixture(q, self.log_ratio))

    def symmetric(self, q: float, order: float) -> float:
        """ln of the moment of the pair that is the "remove" pair on r > 1, mirrored below, and 0 for the rest."""
        up = self.log_ratio > 0.0
        log_q, log_m = self.log_q[up], log_mixture(q, self.log_ratio[up])
        atom = 1.0 - float(np.exp(log_q + log_m).sum() + np.exp(log_q).sum()) * self.step
        moments = [self.integrate(log_q + order * log_m), self.integrate(log_q + (1.0 - order) * log_m)]
        return float(np.logaddexp.reduce([*moments, math.log(atom)]))


def hockey_stick(p: Array, q: Array, epsilon: float, cell: float = 1.0) -> float:
    """H_{e^ε}(P ‖ Q) = ∫ (p − e^ε·q)₊ of densities on a grid, or of probabilities with cell 1."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * cell


def sampled_delta(q: float, shift: float, epsilon: Array, adding: bool) -> Array:
    """δ of one Poisson-sampled Gaussian step at any real ε, either direction, from the two normal tails."""
    if adding:  # H_α(Q ‖ M) = 1 − α + α·H_{1/α}(M ‖ Q)
        return 1.0 - np.exp(epsilon) + np.exp(epsilon) * sampled_delta(q, shift, -epsilon, adding=False)
    ratio = 1.0 + np.expm1(epsilon) / q
    with np.errstate(divide="ignore"):
        edge = np.where(ratio > 0.0, np.log(np.maximum(ratio, 1e-300)) / shift + shift / 2.0, -np.inf)
    p_tail, q_tail = ndtr(shift - edge), ndtr(-edge)
    return np.maximum((1.0 - q) * q_tail + q * p_tail - np.exp(epsilon) * q_tail, 0.0)


def twice_sampled_delta(q: float, shift: float, epsilon: float, adding: bool) -> float:
    """δ of two such steps: E over the first loss ℓ of the second step's δ at ε − ℓ."""
    x = np.linspace(-12.0, 12.0 + shift, 50_001)
    base = np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
    loss = np.log1p(q * np.expm1(shift * x - 0.5 * shift**2))
    if adding:
        weight, loss = base, -loss
    else:
        weight = base * np.exp(loss)
    return float((weight * sampled_delta(q, shift, epsilon - loss, adding)).sum() * (x[1] - x[0]))


def fixed_size_delta(q: float, shift: float, epsilon: Array) -> Array:
    """δ of one fixed-size sampled Gaussian step at any real ε: q·δ_M(1 + (e^ε − 1)/q), mirrored below 0."""
    base = np.log1p(np.expm1(np.abs(epsilon)) / q)
    above = q * (ndtr(shift / 2.0 - base / shift) - np.exp(base) * ndtr(-shift / 2.0 - base / shift))
    return np.where(epsilon >= 0.0, above, -np.expm1(epsilon) + np.exp(np.minimum(epsilon, 0.0)) * above)


def twice_fixed_size_delta(q: float, shift: float, epsilon: float) -> float:
    """δ of two such steps: the second one's averaged over the first one's loss, an atom at 0 included."""
    edges = np.linspace(0.0, math.log1p(q * math.expm1(min(600.0, shift * (10.0 + shift)))), 40_001)
    base = np.log1p(np.expm1(edges) / q)
    q_tail = ndtr(-shift / 2.0 - base / shift)
    p_tail = (1.0 - q) * q_tail + q * ndtr(shift / 2.0 - base / shift)
    middle = 0.5 * (edges[1:] + edges[:-1])
    up, down = -np.diff(p_tail), -np.diff(q_tail)
    atom = 1.0 - float(p_tail[0]) - float(q_tail[0])
    second = fixed_size_delta(q, shift, epsilon - middle)
    total = float(up @ second) + float(down @ fixed_size_delta(q, shift, epsilon + middle))
    return total + atom * float(fixed_size_delta(q, shift, np.array([epsilon]))[0]) + float(p_tail[-1])
