"""A privacy filter: what may be charged next when every earlier release may have decided what comes next.

Composing the events that happened is a theorem where their kinds are fixed beforehand. An analyst who chooses the next
event by what the last one released is covered by another one. Write h(ε) for an event's privacy curve, the larger of
both directions, and δ_µ(ε) for that of two Gaussians µ apart.

*One event.* If h(ε) ≤ δ_µ(ε) + λ for every ε ≥ 0, the event is a Gaussian mechanism of shift µ but for outcomes of mass
λ that count as lost. Proof: with h(c) = λ, the mass min(P, e^c·Q) of the first law P lacks exactly λ, and its curve
against the second law is max(h − λ, 0), hence below δ_µ; for ε < 0 the same follows from h(ε) = 1 − e^ε + e^ε·h'(−ε)
with the curve h' of the other direction. By Blackwell's theorem for convex functions that do not fall, a randomised
function of that Gaussian makes the second law, and at least this mass of the first.

*All events.* Gaussians chosen adaptively are one Gaussian of shift √Σµ² as long as Σµ² ≤ µ*² on every path, and lost
masses add up. So if µ* and λ* are fixed before the first release, and Σµ² ≤ µ*² and Σλ ≤ λ* hold on every path, then
δ(ε) ≤ δ_µ*(ε) + λ*. The budget (ε, δ) is kept with λ* = share·δ and the largest µ* that has δ_µ*(ε) ≤ (1 − share)·δ.
The share must not follow from a release: a rule that lets µ and λ trade after the fact, as "ε of √Σµ² at δ − Σλ" does,
breaks the budget. Here the first event decides it, before anything was released: next to nothing where it is a
Gaussian, which loses nothing, a tenth otherwise. Nor was anything seen before the first event, so the exact cost of
that one alone decides whether it may be charged.

The n-th event that loses mass may lose λ*/(n(n + 1)), which adds up to λ* however many come.

References
----------
Smith & Thakurta 2022, "Fully adaptive composition for Gaussian differential privacy"; Rogers, Roth, Ullman & Vadhan
2016, "Privacy odometers and filters"; Dong, Roth & Su 2022, "Gaussian differential privacy"; Vadhan & Zhang 2023,
"Concurrent composition theorems for differential privacy". Whole proofs: decision 15 of the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from privot.accounting.accountant import account, closed_shift, deltas
from privot.accounting.events import Composed, Event
from privot.accounting.laws import gaussian
from privot.accounting.laws.gaussian import bisect
from privot.accounting.pure import pure_epsilon

Array = NDArray[np.float64]

GAUSSIAN_SHARE = 1e-3
"""Share of δ that may be lost where the first event is a Gaussian: its ε is then 0.005 % larger than without."""
OTHER_SHARE = 0.1
_NODES = 320
_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-8, 1e4
_WIDE = 300.0
_WORTH = 1.02  # a pure event loses mass only if that lowers µ by more than this


class Counted(NamedTuple):
    """What an event takes of a filter: the `shift` µ of the Gaussian that dominates it once the mass `lost` is lost."""

    shift: float
    lost: float


NOTHING = Counted(0.0, 0.0)


@dataclass(frozen=True)
class PrivacyFilter:
    """A budget of `epsilon` at `delta` for events that are chosen one by one, and what they took so far.

    Examples
    --------
    >>> from privot import Adjacency
    >>> from privot.accounting import Gaussian
    >>> event = Gaussian(8.0, 1.0, Adjacency.ADD_REMOVE)
    >>> spent = PrivacyFilter(1.0, 1e-5).after(event)
    >>> round(spent.total, 4), round(spent.with_next(event), 4), round(spent.left, 4)
    (0.4344, 0.634, 0.8741)
    """

    epsilon: float
    delta: float
    events: tuple[Event, ...] = ()
    """What was charged, each event whole: all that one job may release is one event."""
    counted: tuple[Counted, ...] = ()

    @property
    def share(self) -> float:
        """The share of δ that may be lost, which the first event decided."""
        return _share(self.events[0]) if self.events else OTHER_SHARE

    def count(self, event: Event) -> Counted:
        """What `event` takes if it comes next; an infinite shift where no Gaussian dominates it."""
        shift = closed_shift(event)
        if shift is not None:
            return Counted(shift, 0.0)
        whole = (self.share if self.events else _share(event)) * self.delta
        lossy = sum(c.lost > 0.0 for c in self.counted) + 1
        found = _counted(event, whole / (lossy * (lossy + 1)))
        if math.isinf(found.shift) and self.counted:
            # what fails with a probability of its own may need all that is left
            found = _counted(event, max(0.0, whole - _lost(self.counted)))
        elif math.isinf(found.shift):
            found = _counted(event, whole)
        return found

    def after(self, event: Event, counted: Counted | None = None) -> PrivacyFilter:
        """The filter after `event`, which took `counted` (found out unless given); it refuses nothing."""
        taken = self.count(event) if counted is None else counted
        return replace(self, events=(*self.events, event), counted=(*self.counted, taken))

    def with_next(self, event: Event, counted: Counted | None = None) -> float:
        """The ε that a budget needs to accept `event` after all earlier ones: it fits if that is at most `epsilon`."""
        if not self.events:
            return account(event, self.delta).epsilon()
        after = self.after(event, counted)
        return _epsilon(_shift(after.counted), _lost(after.counted), self.share, self.delta)

    @property
    def total(self) -> float:
        """The ε that a budget needed to accept all that was charged; exact for one event."""
        if not self.events:
            return 0.0
        if len(self.events) == 1:
            return account(self.events[0], self.delta).epsilon()
        return _epsilon(_shift(self.counted), _lost(self.counted), self.share, self.delta)

    @property
    def exact(self) -> bool:
        """Whether `total` is what composing the events says: one event, or Gaussians only, whose µ² add up anyway."""
        return len(self.events) <= 1 or all(closed_shift(event) is not None for event in self.events)

    @property
    def left(self) -> float:
        """ε of the largest Gaussian mechanism that may still be charged, at the budget's δ; 0 if none may."""
        if not self.events:
            return self.epsilon
        if _lost(self.counted) > self.share * self.delta:
            return 0.0
        room = gaussian.largest_shift(self.epsilon, (1.0 - self.share) * self.delta) ** 2 - _shift(self.counted) ** 2
        return gaussian.epsilon(math.sqrt(room), self.delta) if room > 0.0 else 0.0

    @property
    def curve(self) -> FilterCurve:
        """The privacy curve of everything together, for whatever analyst chose it."""
        return FilterCurve(_shift(self.counted), _lost(self.counted), self.share, Composed(self.events))


@dataclass(frozen=True)
class FilterCurve:
    """The curve of adaptively chosen `events`: at δ, the ε of the Gaussian of `shift` at δ without the lost share."""

    shift: float
    lost: float
    share: float
    events: Composed

    def epsilon(self, delta: float) -> float:
        """The smallest ε that a budget at `delta` needed."""
        return _epsilon(self.shift, self.lost, self.share, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest δ that a budget at `epsilon` needed."""
        return min(1.0, max(float(gaussian.delta(self.shift, epsilon)) / (1.0 - self.share), self.lost / self.share))

    def compose(self, others: Sequence[object]) -> FilterCurve:
        """Refused: what comes after goes through the filter."""
        from privot.errors import UsageError

        raise UsageError("What a ledger holds composes in the ledger: charge what comes after it there.")


def dominating_shift(event: Event, lost: float) -> float:
    """The smallest µ with h(ε) ≤ δ_µ(ε) + `lost` for every ε ≥ 0, from above; infinite where there is none.

    The curve h is convex in e^ε, so that between two points it lies below its chord; there δ_µ, convex as well, lies
    above its tangents at both. Both are compared cell by cell, so that what is found holds for every ε and not only at
    points.
    """
    shift = closed_shift(event)
    if shift is not None:
        return shift
    # beyond `last` all that is left of h is lost mass
    last = pure_epsilon(event) if lost == 0.0 else account(event, lost).curve.epsilon(0.999 * lost)
    if not math.isfinite(last):
        return math.inf
    for _ in range(8):
        nodes = np.unique(np.concatenate([np.linspace(0.0, last, _NODES), np.geomspace(1e-4, 1.0, _NODES // 4) * last]))
        curve = deltas(event, nodes.tolist()).copy()
        if lost == 0.0:
            curve[-1] = 0.0
        if curve[-1] <= lost:
            break
        last *= 1.02
    else:
        return math.inf
    high = 1.0
    while not _dominates(high, nodes, curve - lost):
        high *= 2.0
        if high > _LARGEST_SHIFT:
            return math.inf
    # smaller shifts are read as the smallest, which would not be from above
    return max(_SMALLEST_SHIFT, bisect(0.0, high, lambda mu: not _dominates(mu, nodes, curve - lost), 1e-7))


def _dominates(mu: float, nodes: Array, curve: Array) -> bool:
    """Whether δ_µ is at least the chords of `curve` on every cell between `nodes`."""
    above = gaussian.delta(mu, nodes) * (1.0 - 1e-9) - curve
    if float(above.min()) < 0.0 and bool(np.any(above[curve > 0.0] < 0.0)):
        return False
    # in x = e^{ε−a} on the cell [a, b]: δ_µ has the slope −e^ε·Φ(−ε/µ − µ/2), over x
    second = _second(mu, nodes)
    widths = np.diff(nodes)
    # too wide for e^x: there the curve at a must lie below δ_µ at b
    wide = widths > _WIDE
    growth = np.expm1(np.minimum(widths, _WIDE))
    chord = np.diff(curve) / growth
    left, right = -second[:-1] - chord, -second[1:] * np.exp(-widths) - chord
    f, g = above[:-1], above[1:]
    # where the tangent at a falls and the one at b rises they meet inside, below the convex difference
    inside = (left < 0.0) & (right > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = (g - right * growth - f) / (left - right)
        lowest = np.where(inside, f + left * meets, np.minimum(f, g))
    lowest = np.where(wide, g + curve[1:] - curve[:-1], lowest)
    return bool(np.all((lowest >= 0.0) | (curve[:-1] <= 0.0)))


def _second(mu: float, epsilon: Array) -> Array:
    """e^ε·Φ(−ε/µ − µ/2), the part of δ_µ that is subtracted; without overflow."""
    low, high = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    return np.asarray(np.exp(-0.5 * low**2) * 0.5 * erfcx(high / math.sqrt(2.0)))


def _share(first: Event) -> float:
    return GAUSSIAN_SHARE if closed_shift(first) is not None else OTHER_SHARE


@lru_cache(maxsize=512)
def _counted(event: Event, lost: float) -> Counted:
    found = Counted(dominating_shift(event, lost), lost)
    if math.isfinite(pure_epsilon(event)):
        without = dominating_shift(event, 0.0)
        if without <= _WORTH * found.shift:
            return Counted(without, 0.0)
    return found


def _shift(counted: Sequence[Counted]) -> float:
    return math.sqrt(math.fsum(c.shift**2 for c in counted))


def _lost(counted: Sequence[Counted]) -> float:
    return math.fsum(c.lost for c in counted)


def _epsilon(shift: float, lost: float, share: float, delta: float) -> float:
    # λ*/2 + λ*/6 + … stays below λ* but for rounding
    if not (math.isfinite(shift) and lost <= share * delta * (1.0 + 1e-12)):
        return math.inf
    return gaussian.epsilon(shift, (1.0 - share) * delta)
