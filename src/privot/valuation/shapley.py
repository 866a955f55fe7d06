"""Shapley values of a game: exact from all coalitions, or from random orders with standard errors. No data is seen.

    φ_i = Σ_{S ∌ i} |S|! (k − |S| − 1)!/k! · (v(S ∪ {i}) − v(S))

the mean over all orders of what party i adds to those before it (Shapley 1953, "A value for n-person games"). They sum
to v(all) − v(∅), parties that add the same to every coalition have equal values, and one that adds nothing has 0.

A coalition is a whole number, whose bit i says whether party i is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privot.errors import UsageError
from privot.valuation.labelled_records import Array

MAX_EXACT = 10
"""Largest number of parties for which all 2^k coalitions are computed."""
ORDERS, MIN_GROUPS = 200, 5
"""Approximate number of random orders for more parties, in groups of 2k; and the smallest number of groups."""


@dataclass(frozen=True)
class CoalitionPlan:
    """The coalitions whose worth is needed, and the values that follow from their worths."""

    parties: int
    coalitions: tuple[int, ...]
    orders: tuple[tuple[int, ...], ...] | None

    @classmethod
    def of(cls, parties: int, seed: int = 0, most_exact: int = MAX_EXACT, orders: int = ORDERS) -> CoalitionPlan:
        """Exact for few parties; for more, about `orders` random orders from `seed`."""
        if parties < 1:
            raise UsageError("There must be at least one party.")
        if parties <= most_exact:
            return cls(parties, tuple(range(1 << parties)), None)
        generator = np.random.default_rng(seed)
        drawn: list[tuple[int, ...]] = []
        for _ in range(max(MIN_GROUPS, round(orders / (2 * parties)))):
            order = tuple(int(i) for i in generator.permutation(parties))
            # an order and its reverse, in all rotations: within a group every party has every place twice, and precedes
            # every other party half of the time, so that only interactions of three or more parties are left to chance
            drawn += [way[i:] + way[:i] for way in (order, order[::-1]) for i in range(parties)]
        all_parties = (1 << parties) - 1
        wanted = {0, all_parties}
        for i in range(parties):
            wanted |= {1 << i, all_parties ^ (1 << i)}
        for order in drawn:
            wanted.update(_prefixes(order))
        return cls(parties, tuple(sorted(wanted)), tuple(drawn))

    @property
    def all_parties(self) -> int:
        """The coalition of all parties."""
        return (1 << self.parties) - 1

    def worths(self, worth: Callable[[int], float]) -> dict[int, float]:
        """The worth of every coalition that is needed, each computed once."""
        return {coalition: worth(coalition) for coalition in self.coalitions}

    def values(self, worths: dict[int, float]) -> Array:
        """φ, or its mean over the drawn orders."""
        if self.orders is None:
            return _exact(self.parties, worths)
        return np.asarray(_along(self.orders, worths).mean(0))

    def errors(self, worths: dict[int, float]) -> Array | None:
        """Standard errors of differences of values, (k, k), over groups of orders; those of values on the diagonal."""
        if self.orders is None:
            return None
        groups = _along(self.orders, worths).reshape(-1, 2 * self.parties, self.parties).mean(1)
        apart = groups[:, :, None] - groups[:, None, :]
        apart[:, range(self.parties), range(self.parties)] = groups
        return np.asarray(apart.std(0, ddof=1) / math.sqrt(len(groups)))

    def left_out(self, worths: dict[int, float]) -> Array:
        """v(all) − v(all but i), for every party i."""
        return np.array([worths[self.all_parties] - worths[self.all_parties ^ (1 << i)] for i in range(self.parties)])


def _prefixes(order: Sequence[int]) -> list[int]:
    """The coalitions along an order, from the empty one to all parties."""
    out = [0]
    for i in order:
        out.append(out[-1] | 1 << i)
    return out


def _along(orders: Sequence[Sequence[int]], worths: dict[int, float]) -> Array:
    """What each party adds to those before it, one row per order."""
    out = np.zeros((len(orders), len(orders[0])))
    for row, order in enumerate(orders):
        out[row, list(order)] = np.diff([worths[coalition] for coalition in _prefixes(order)])
    return out


def _exact(parties: int, worths: dict[int, float]) -> Array:
    whole = math.factorial(parties)
    weight = [math.factorial(s) * math.factorial(parties - s - 1) / whole for s in range(parties)]
    values = np.zeros(parties)
    for coalition, worth in worths.items():
        size = coalition.bit_count()
        for i in range(parties):
            values[i] += weight[size - 1] * worth if coalition >> i & 1 else -weight[size] * worth
    return values
