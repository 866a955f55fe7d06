"""Composition of privacy losses by one tilted FFT: ε(δ) of any number of steps, tight, fast and small.

Each step is discretised by `cells`. The T-fold sum is computed after *tilting* by e^{λℓ} with the λ at which Chernoff's
bound on δ is smallest. Tilting commutes with convolution, moves the window of the FFT to the losses that decide δ, and
turns the FFT's absolute rounding error into a relative one, so that δ = 1e-12 after 10⁷ steps is as accurate as δ = ½
after one. What the window misses is bounded by Chernoff and kept below `_ALIASED`; rounding raises δ by `_SLACK`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privot.accounting.laws.gaussian import bisect
from privot.accounting.log_sums import log_sum_exp
from privot.accounting.pld.dominating_pairs import Step
from privot.accounting.pld.grid import Atoms, Cells, atoms_of, best_tilt, discretise, total_cumulant
from privot.errors import ConvergenceError

Array = NDArray[np.float64]

_INFLATION = 5e-4  # relative variance that the grid step may add
_RAISED = 1.5e-4  # share of ε that the grid step may add
_MAX_CELLS = 1 << 21
_ALIASED = 1e-13
_SLACK = 1e-7
_CUMULANT_SLACK = 2e-14  # relative rounding of one step's moments
_LONGEST = 1_000_000_000  # steps beyond which rounding of the powers rules out the FFT; Chernoff's bound remains
_TAIL_SHARE = 1e-6  # share of δ that the cut-off upper tails may take
_NOTHING = 1e-15  # a δ below which a curve need not be tight
_READERS = 9  # tilted laws from which a whole curve is read


class _Law(NamedTuple):
    """The tilted law of the total loss, and what Chernoff's bound needs."""

    tilted: Array
    losses: Array
    tilt: float
    log_scale: float
    lost: float
    mean: float
    spread: float


class _Tails(NamedTuple):
    """δ at each of `losses` and the discounted tail above it, in units of e^{unit}; `lost` is never small enough."""

    losses: Array
    excess: Array
    q_tail: Array
    unit: float
    lost: float
    raised: float


class Composition:
    """`steps` as (step, how often), composed. All steps are seen from one direction; see `accountant`.

    `fine` < 1 shrinks all cells by that factor: the answer is a bound at any, and closer to the truth with smaller ones
    (within 1e-6 of it at 0.01, where the default may be 0.03 % above), at the price of seconds.
    """

    def __init__(self, steps: Sequence[tuple[Step, int]], fine: float = 1.0) -> None:
        self.steps, self.fine = tuple(steps), fine
        self.total = sum(times for _, times in steps)

    @property
    def ceiling(self) -> float:
        """The largest total loss there can be: no δ needs a larger ε (unless mass is lost)."""
        if any(step.lost > 0.0 for step, _ in self.steps):
            return math.inf
        return sum(times * step.ceiling for step, times in self.steps)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 at which the composition's δ is at most `delta`; infinite if there is none."""
        if self.total > 1:
            return self._solve(None, delta)
        if self._single(0.0) <= delta:
            return 0.0
        high = 1e-12
        while self._single(high) > delta:
            high *= 4.0
            if high > 1e300:
                return math.inf
        return bisect(0.0, high, lambda e: self._single(e) > delta, 1e-13)

    def delta(self, epsilon: float) -> float:
        """The composition's δ at `epsilon` ≥ 0."""
        return min(1.0, self._solve(epsilon, None) if self.total > 1 else self._single(epsilon))

    def deltas(self, epsilons: Array) -> Array:
        """Upper bounds on δ at many ε ≥ 0 at once, from a few tilts: tight where δ is above 1e-12, a bound everywhere.

        One tilted law is read at all of `epsilons`; laws tilted for ε along the way take over from each other.
        """
        if self.total == 1:
            return np.array([min(1.0, self._single(float(e))) for e in epsilons])
        found = np.ones(len(epsilons))
        # no loss exceeds the ceiling, so nothing is left above it
        below = epsilons < self.ceiling
        found[~below], epsilons = 0.0, epsilons[below]
        if below.any():
            found[below] = self._deltas(epsilons)
        return found

    def _deltas(self, epsilons: Array) -> Array:
        cut = max(_TAIL_SHARE * 1e-14 / self.total, 1e-290)
        atoms = [atoms_of(step, times, cut) for step, times in self.steps]
        found = np.ones(len(epsilons))
        for place in np.linspace(0, len(epsilons) - 1, _READERS).astype(int):
            if found[place] < _NOTHING:
                # nor is more left above
                return np.asarray(np.minimum.accumulate(found))
            near = epsilons[place]
            tilt = best_tilt(atoms, float(near), None)
            for _ in range(8):
                law, ceiling = self._law(atoms, tilt, cut, float(near))
                found = np.minimum(found, law.lost + np.exp(np.minimum(0.0, ceiling - tilt * epsilons)))
                if self.total > _LONGEST:
                    break
                tails = self._tails(law)
                at = np.searchsorted(tails.losses, epsilons, side="right")
                seen = (at > 0) & (at < len(tails.losses))
                read = np.ones(len(epsilons))
                read[seen] = _read_deltas(tails, at[seen], epsilons[seen])
                found = np.minimum(found, read)
                if abs(near - law.mean) <= 6.0 * law.spread or found[place] < _NOTHING:
                    break
                tilt /= 8.0
        return np.asarray(np.minimum.accumulate(found))

    def _single(self, epsilon: float) -> float:
        """δ of one step, straight from its tails: P(ℓ > ε) − e^ε·Q(ℓ > ε) = gap − (e^ε − 1)·Q(ℓ > ε)."""
        step = self.steps[0][0]
        p, q, gap = (float(t[0]) for t in step.forward(np.array([epsilon])))
        if epsilon < 0.1:
            found = gap - math.expm1(epsilon) * q
        else:
            found = p - (math.exp(min(epsilon + math.log(q), 0.0)) if q > 0.0 else 0.0)
        return step.lost + max(0.0, found) + 4e-16 * p

    def _solve(self, epsilon: float | None, delta: float | None) -> float:
        """ε at δ or δ at ε; where the answer lies below the window of the best tilt, smaller tilts move it down."""
        cut = max(_TAIL_SHARE * (delta if delta is not None else 1e-14) / self.total, 1e-290)
        atoms = [atoms_of(step, times, cut) for step, times in self.steps]
        tilt = best_tilt(atoms, epsilon, delta)
        best = math.inf
        for _ in range(8):
            found, inside = self._attempt(atoms, tilt, cut, epsilon, delta)
            best = min(best, found)
            if inside:
                break
            tilt /= 8.0
        return best

    def _attempt(
        self, atoms: Sequence[Atoms], tilt: float, cut: float, epsilon: float | None, delta: float | None
    ) -> tuple[float, bool]:
        """A bound on ε or δ with one tilt, and whether it was read off inside the window, where it is tight."""
        if delta is not None:
            reach = (float(total_cumulant(atoms, np.array([tilt]))[0]) - math.log(delta)) / tilt
        else:
            reach = epsilon or 0.0
        law, ceiling = self._law(atoms, tilt, cut, reach)
        lost = law.lost
        if epsilon is not None:
            chernoff = lost + math.exp(min(0.0, ceiling - tilt * epsilon))
        else:
            assert delta is not None
            chernoff = max(0.0, (ceiling - math.log(delta - lost)) / tilt) if delta > lost else math.inf
        if self.total > _LONGEST:
            return chernoff, True
        tails = self._tails(law)
        if epsilon is not None:
            found, inside = _read_delta(tails, epsilon)
        else:
            assert delta is not None
            found, inside = _read_epsilon(tails, delta)
        # far from the centre rounding noise, raised by the tilt below it, makes what is read there large: try on
        at = epsilon if epsilon is not None else found
        return min(found, chernoff), inside and abs(at - law.mean) <= 6.0 * law.spread

    def _law(self, atoms: Sequence[Atoms], tilt: float, cut: float, reach: float) -> tuple[_Law, float]:
        """The law of the total loss under one tilt, fine enough for ε about `reach`, and ln of Chernoff's factor."""
        spread = self._spread(atoms, tilt)
        # finer than the rule asks where that is cheap
        grid = math.sqrt(6.0 * _INFLATION / self.total) * spread * self.fine
        grid = min(grid, 24.0 * spread / (1 << 15))
        # a variance V ≤ T·grid²/6 more raises the cumulant by λ(1+λ)·V/2, hence ε by (1+λ)·V/2: rare large losses make
        # the spread a poor measure of that, so hold it against ε itself, or Chernoff's bound on it
        if reach > 0.0:
            finer = self.fine * math.sqrt(12.0 * _RAISED * reach / (self.total * (1.0 + tilt)))
            grid = max(min(grid, finer), 24.0 * spread / _MAX_CELLS)
        while True:
            pieces = [discretise(step, grid, tilt, cut, self.fine) for step, _ in self.steps]
            log_scale, mean, window = self._window(pieces, grid, tilt)
            cells = _fast_size(2.0 * window / grid + 64)
            if cells <= _MAX_CELLS:
                break
            grid *= cells / _MAX_CELLS
        tilted = self._convolve(pieces, grid, tilt, cells) if self.total <= _LONGEST else np.empty(0)
        lowest = round(mean / grid) - cells // 2
        losses = np.asarray((lowest + np.arange(cells)) * grid, dtype=np.float64)
        # ln(1 − lost mass) over all steps
        kept = sum(
            t * (math.log1p(-lost) if lost < 1.0 else -math.inf)
            for (_, t), (_, _, lost) in zip(self.steps, pieces, strict=True)
        )
        lost = -math.expm1(kept)
        # Chernoff's bound needs no convolution, only the cumulant (and what its rounding may have taken)
        ceiling = log_scale + _CUMULANT_SLACK * self.total
        return _Law(np.roll(tilted, -(lowest % cells)), losses, tilt, log_scale, lost, mean, spread), ceiling

    def _spread(self, atoms: Sequence[Atoms], tilt: float) -> float:
        """Standard deviation of the tilted total loss; with a floor, since losses may be all alike."""
        variance = self.total * (1e-9 * max(float(np.abs(a.losses).max()) for a in atoms)) ** 2
        for a in atoms:
            log_weights = a.log_masses + tilt * a.losses
            weights = np.exp(log_weights - log_sum_exp(log_weights))
            mean = float(weights @ a.losses)
            variance += a.times * float(weights @ (a.losses - mean) ** 2)
        return math.sqrt(variance)

    def _log_cumulant(self, pieces: Sequence[Cells], grid: float, tilt: float, small: float = 0.5) -> float:
        """Σ T·ln E_P e^{λℓ} of the discrete pairs, precise when it is tiny.

        Moments up to 1 + `small` are added up as differences from 1, which is quick, the others as logarithms.
        """
        total = 0.0
        for (_, times), (index, mass, _) in zip(self.steps, pieces, strict=True):
            exponent = np.asarray(tilt * index * grid, dtype=np.float64)
            moved = float(mass @ np.expm1(exponent)) if float(exponent.max()) < 600.0 else math.inf
            if -0.5 < moved < small:
                total += times * math.log1p(moved - (1.0 - float(mass.sum())))
            else:
                total += times * float(log_sum_exp(exponent, mass))
        return total

    def _window(self, pieces: Sequence[Cells], grid: float, tilt: float) -> tuple[float, float, float]:
        """(ln of the total moment at the tilt, tilted mean, half-width beyond which tilted mass is < _ALIASED)."""
        base = self._log_cumulant(pieces, grid, tilt)
        mean = variance = 0.0
        for (_, times), (index, mass, _) in zip(self.steps, pieces, strict=True):
            losses = index * grid
            with np.errstate(divide="ignore"):
                log_weights = np.log(mass) + tilt * losses
            weights = np.exp(log_weights - log_sum_exp(log_weights))
            step_mean = float(weights @ losses)
            mean += times * step_mean
            variance += times * float(weights @ (losses - step_mean) ** 2)
        spread = math.sqrt(max(variance, grid**2))
        half = 0.0
        present = [(index[mass > 0.0], mass[mass > 0.0], lost) for index, mass, lost in pieces]
        for sign in (1.0, -1.0):
            # P̃(±(L − mean) > w) ≤ exp(K(λ ± η) − K(λ) ∓ η·mean − η·w) for every η > 0
            best = math.inf
            for eta in np.geomspace(0.3, 30.0, 25) / spread:
                moment = self._log_cumulant(present, grid, tilt + sign * eta, math.inf) - base - sign * eta * mean
                best = min(best, (moment - math.log(_ALIASED)) / eta)
            half = max(half, best)
        return base, mean, half

    def _convolve(self, pieces: Sequence[Cells], grid: float, tilt: float, cells: int) -> Array:
        """The tilted law of the total loss on `cells` cells, wrapped around, raised by what rounding may take."""
        spectrum = np.ones(cells // 2 + 1, dtype=complex)
        alive = np.ones(cells // 2 + 1, dtype=bool)
        for (_, times), (index, mass, _) in zip(self.steps, pieces, strict=True):
            with np.errstate(divide="ignore"):
                log_weights = np.log(mass) + tilt * index * grid
            weights = np.exp(log_weights - log_sum_exp(log_weights))
            factor = np.fft.rfft(np.bincount(index % cells, weights, cells))
            # most frequencies vanish in the power: take logarithms only of those that stay above e^{−60}
            alive &= factor.real**2 + factor.imag**2 > math.exp(-120.0 / times)
            spectrum[alive] *= np.exp(times * np.log(factor[alive]))
        spectrum[~alive] = 0.0
        # rounding: each factor is off by a few units in the last place, its power by `times` as many, and a value of
        # the inverse transform by no more than that share of the mean modulus of the spectrum
        modulus = np.abs(spectrum)
        noise = 4e-16 * (self.total + 50.0) * float(2.0 * modulus.sum() - modulus[0]) / cells
        return np.maximum(np.fft.irfft(spectrum, n=cells), 0.0) + noise

    def _tails(self, law: _Law) -> _Tails:
        """δ(ε) = lost + Σ_{ℓ > ε} P(ℓ)·(1 − e^{ε−ℓ}) at every loss of the tilted law.

        With q_i = Σ_{j ≥ i} P(ℓ_j)·e^{ℓ_i−ℓ_j}, δ(ℓ_{i−1}) − δ(ℓ_i) = (1 − e^{−grid})·q_i, so δ is a sum of positive
        terms, run from above; a difference of two tails would drown small losses in P(ℓ_i), which adds nothing to δ.
        Below the centre the tilt magnifies noise, and below e^{600} nothing can be read: an answer that would lie there
        is bounded by the lowest loss that can.
        """
        tilted, losses, tilt = law.tilted, law.losses, law.tilt
        centre = losses[len(losses) // 2]
        first = int(np.argmax(tilt * (centre - losses) < 600.0))
        losses, tilted = losses[first:], tilted[first:]
        # P in units of e^{unit}; what lies above the window, at most _ALIASED of the tilted law, counts as lost
        p = tilted * np.exp(-tilt * (losses - centre))
        unit = law.log_scale - tilt * centre
        # the exponent is at most K(λ) − λK'(λ) ≤ K(0) ≤ 0: as a share it cannot exceed the whole
        lost = law.lost + _ALIASED * math.exp(min(0.0, law.log_scale - tilt * float(losses[-1])))
        grid = float(losses[1] - losses[0])
        q_tail = _discounted_tail(p, grid)
        excess = -math.expm1(-grid) * np.append(np.cumsum(q_tail[:0:-1])[::-1], 0.0)
        return _Tails(losses, excess, q_tail, unit, lost, 1.0 + _SLACK + _CUMULANT_SLACK * self.total)


def _read_deltas(tails: _Tails, at: NDArray[np.intp], epsilons: Array) -> Array:
    """δ at each of `epsilons`, which lies below the loss number `at`: linear in e^ε between two losses."""
    inner = tails.excess[at] - np.expm1(epsilons - tails.losses[at]) * tails.q_tail[at]
    share = np.exp(np.minimum(0.0, tails.unit + np.log(np.maximum(inner, 1e-300))))
    return np.asarray(tails.lost + tails.raised * share)


def _read_delta(tails: _Tails, epsilon: float) -> tuple[float, bool]:
    """δ at ε, and whether it was read inside the window; beyond it only Chernoff speaks."""
    at = int(np.searchsorted(tails.losses, epsilon, side="right"))
    if at == 0 or at >= len(tails.losses):
        return 1.0, False
    return float(_read_deltas(tails, np.array([at]), np.array([epsilon]))[0]), True


def _read_epsilon(tails: _Tails, delta: float) -> tuple[float, bool]:
    """ε at δ, and whether it was read inside the window."""
    losses, excess, q_tail = tails.losses, tails.excess, tails.q_tail
    room = delta / tails.raised - tails.lost
    if room <= 0.0:
        return math.inf, False
    # on [ℓ_{i−1}, ℓ_i] δ(ε) = δ(ℓ_i) + (1 − e^{ε−ℓ_i})·q_i: find the last ℓ_i that misses the target, then ε in the
    # next cell
    wanted = math.exp(min(math.log(room) - tails.unit, 700.0))
    exceeds = np.flatnonzero(excess > wanted)
    i = int(exceeds[-1]) + 1 if len(exceeds) else 0
    if i >= len(losses):
        raise ConvergenceError("The privacy loss did not fall inside its window: report this as a bug.")
    if i == 0:
        return max(0.0, float(losses[0])), losses[0] <= 0.0
    short = float(wanted - excess[i])
    inside = math.log1p(-short / q_tail[i]) if short < q_tail[i] else -math.inf
    return max(0.0, float(losses[i - 1]), float(losses[i] + inside)), True


def _fast_size(least: float) -> int:
    """An even number of at least `least` whose FFT is fast: 4, 5, 6 or 7 times a power of two."""
    power = max(2, math.ceil(math.log2(least / 7.0)))
    return next(base << power for base in (4, 5, 6, 7) if base << power >= least)


def _discounted_tail(p: Array, grid: float) -> Array:
    """Σ_{j ≥ i} p_j·e^{−(j−i)·grid} = e^{ℓ_i}·Q(ℓ ≥ ℓ_i) for every i, without ever forming a large exponential.

    Blocks short enough for plain cumulative sums, linked from above; where cells are wide, term by term until e^{−700}.
    """
    if grid > 30.0:
        total = p.copy()
        for k in range(1, min(len(p), int(700.0 / grid) + 1)):
            total[:-k] += math.exp(-k * grid) * p[k:]
        return total
    block = max(1, int(300.0 / grid))
    out = np.empty_like(p)
    above = 0.0
    for stop in range(len(p), 0, -block):
        start = max(0, stop - block)
        falling = np.exp(-grid * np.arange(stop - start))
        local = np.cumsum((p[start:stop] * falling)[::-1])[::-1] / falling
        out[start:stop] = local + above * math.exp(-grid) * falling[::-1] if above > 0.0 else local
        above = float(out[start])
    return out
