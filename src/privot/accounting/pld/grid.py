"""One step of a composition as masses on a grid of privacy losses, and the tilt at which a composition is read best.

A step is discretised by *connecting the dots* (Doroshenko et al. 2022): the mass of a cell of losses moves to the
cell's two ends so that its P and its Q are both kept. The result dominates the step and is off by second order only.
Cells are one grid step wide near 0 and grow with the loss, so a handful of cells covers a long tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privot.accounting.log_sums import log_sum_exp
from privot.accounting.pld.dominating_pairs import Step
from privot.errors import ConvergenceError

Array = NDArray[np.float64]
Cells = tuple[NDArray[np.int64], Array, float]
"""Grid indices, their masses under P, and the mass that is lost to infinity."""

_GROWTH = 0.03  # cell width over loss: inflates the variance of the loss by at most _GROWTH²/6
_LINEAR = 0.04  # cell width times (1 + λ) in the tail …
_COARSE = 1e-4  # … but never finer than this share of the loss, so that a loss of 10⁶ needs no 10⁸ cells


@dataclass(frozen=True)
class Atoms:
    """Losses with their mass under P, for choosing the tilt."""

    losses: Array
    log_masses: Array
    times: int

    def cumulant(self, tilt: Array) -> Array:
        """ln E_P e^{λℓ}."""
        return log_sum_exp(self.log_masses + tilt[:, None] * self.losses)


@lru_cache(maxsize=256)
def _largest_loss(step: Step, mass: float) -> tuple[float, float]:
    """Where the upper tail of P, and the lower tail of P, fall below `mass`; every attempt at one answer asks again."""

    def solve(side: str) -> float:
        def above(c: float) -> bool:
            p, q, _ = (step.forward if side == "up" else step.backward)(np.array([c]))
            return float(p[0] if side == "up" else q[0]) > mass

        high = 1e-9
        while above(high):
            high *= 2.0
            if high > 1e300:
                raise ConvergenceError("The privacy loss has no finite scale: is σ far too small?")
        low = high / 2.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if above(middle) else (low, middle)
        return high

    return solve("up"), solve("down")


def _masses(tails: tuple[Array, ...]) -> tuple[Array, ...]:
    """Cell masses from the tails at the cells' edges."""
    return tuple(np.maximum(-np.diff(t), 0.0) for t in tails)


def atoms_of(step: Step, times: int, cut: float) -> Atoms:
    """A rough picture of a step: one atom a cell on a logarithmic grid, at the cell's own ln(P/Q)."""
    up, down = _largest_loss(step, cut)
    losses, masses = [], []
    for tails, top, sign in ((step.forward, up, 1.0), (step.backward, down, -1.0)):
        edges = np.concatenate([[0.0], np.geomspace(top * 1e-7, top, 500)])
        first, second, _ = _masses(tails(edges))
        p = first if sign > 0 else second
        keep = p > 0.0
        with np.errstate(divide="ignore"):  # a law that underflows leaves the ratio infinite: clipped to the cell
            ratio = np.log(first[keep]) - np.log(second[keep])
        losses.append(sign * np.clip(ratio, edges[:-1][keep], edges[1:][keep]))
        masses.append(p[keep])
    all_losses, all_masses = np.concatenate([[0.0], *losses]), np.concatenate([[0.0], *masses])
    all_masses[0] = max(1.0 - all_masses.sum(), 1e-300)
    return Atoms(all_losses, np.log(np.maximum(all_masses, 1e-300)), times)


def total_cumulant(atoms: Sequence[Atoms], tilt: Array) -> Array:
    return np.asarray(np.sum([a.times * a.cumulant(tilt) for a in atoms], axis=0))


def best_tilt(atoms: Sequence[Atoms], epsilon: float | None, delta: float | None) -> float:
    """The λ > 0 at which Chernoff's bound on ε (given δ) or on δ (given ε) is smallest.

    Kept below the λ at which one step's largest loss would outweigh everything else, so that the tilted law of bounded
    losses does not collapse to a point.
    """
    top = max(float(a.losses.max()) for a in atoms)
    low, high = min(1e-4, 1e-4 / top), 700.0 / top
    for _ in range(4):
        grid = np.geomspace(low, high, 80)
        total = total_cumulant(atoms, grid)
        bound = (total - math.log(delta)) / grid if delta is not None else total - grid * (epsilon or 0.0)
        best = int(np.argmin(bound))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(math.sqrt(low * high))


def _edges(top: float, step: float, tilt: float, fine: float) -> NDArray[np.int64]:
    """Grid indices 0 = e₀ < e₁ < … of the cells that cover [0, top]: one step wide near 0, then growing."""
    growth, linear = _GROWTH * fine, _LINEAR * fine
    limit = math.ceil(top / step)
    at = min(limit, int(2.0 / growth) + 1)
    parts = [np.arange(at + 1)]
    while at < limit:
        loss = at * step
        width = max(1, int(min(growth * loss, max(linear / (1.0 + tilt), _COARSE * loss)) / step))
        # blocks of equal cells, each block an eighth of the way to doubling the loss, so this loop is short
        count = max(1, min(max(32, at // (8 * width)), math.ceil((limit - at) / width)))
        parts.append(at + width * np.arange(1, count + 1))
        at += width * count
    return np.concatenate(parts)


def discretise(step: Step, grid: float, tilt: float, cut: float, fine: float = 1.0) -> Cells:
    """Grid indices, masses under P, and the mass lost to infinity, of a discrete pair that dominates the step."""
    up, down = _largest_loss(step, cut)
    indices: list[NDArray[np.int64]] = []
    masses: list[Array] = []
    lost = step.lost
    for tails, top, sign in ((step.forward, up, 1), (step.backward, down, -1)):
        edges = _edges(top, grid, tilt, fine)
        first_tail, second_tail, gap_tail = tails(np.asarray(edges * grid, dtype=np.float64))
        first, second, _ = _masses((first_tail, second_tail, gap_tail))
        gap = -np.diff(gap_tail)  # first − second, of either sign
        low, width = edges[:-1] * grid, np.diff(edges) * grid
        # kept: first = near + far, second = near·e^{−low} + far·e^{−low−width}: so far is first − e^{low}·second over
        # 1 − e^{−width}; the numerator as gap − (e^{low} − 1)·second where losses are small, else by logarithms
        with np.errstate(divide="ignore"):
            large = -np.expm1(np.minimum(low + np.log(second) - np.log(np.maximum(first, 1e-320)), 0.0)) * first
        small = gap - np.expm1(np.minimum(low, 1.0)) * second
        far = np.clip(np.where(low < 0.1, small, large) / -np.expm1(-width), 0.0, first)
        near = first - far
        if sign < 0:  # the mirrored pair's first law is Q: weigh by e^{loss} to get P
            near, far = near * np.exp(-low), far * np.exp(-low - width)
        indices += [sign * edges[:-1], sign * edges[1:]]
        masses += [near, far]
        if sign > 0:
            lost += float(first_tail[-1])
        else:  # P's mass far below is moved up to the last edge
            indices.append(np.array([-edges[-1]]))
            masses.append(np.array([float(second_tail[-1])]))
    index, mass = np.concatenate(indices), np.concatenate(masses)
    rest = 1.0 - lost - float(mass.sum())
    return np.append(index, 0), np.append(mass, max(rest, 0.0)), lost
