"""What somebody with several records is promised: group privacy of an event; it changes no event.

All of privot's events protect one record. If k records differ, a chain of k neighbours leads from one data set to the
other, so noise of sensitivity Δ has sensitivity k·Δ at most. Where a step is sampled, or projected on random
directions, that argument does not scale the law, and the curve itself is chained: (ε, δ) for one record gives
(k·ε, δ·(1 + e^ε + … + e^{(k−1)ε})) for k of them.
"""

from __future__ import annotations

import math

from privot.accounting import account
from privot.accounting.events import Event
from privot.accounting.units import group_event
from privot.common.arguments import check_count, check_delta
from privot.guarantee import Guarantee

_HALVINGS = 40
_LARGEST = 400.0
"""Largest ε of one record that is tried; a promise of that size promises nothing."""


def epsilon_of_person(event: Event, guarantee: Guarantee, records: int) -> float:
    """ε at the guarantee's δ for somebody with `records` records; infinite where neither argument bounds it.

    Parameters
    ----------
    event, guarantee
        What is charged, and its guarantee for one record.
    records
        k, the most records of one person.

    Notes
    -----
    Formal guarantee: if the standing is PROVEN for one record, it is for `records` records at this ε.

    References
    ----------
    Dwork & Roth 2014, "The algorithmic foundations of differential privacy", theorem 2.2; Vadhan 2017, "The complexity
    of differential privacy", lemma 2.2 (the sum of its chain is used, not the bound on that sum).

    Examples
    --------
    >>> from privot.accounting import Gaussian
    >>> from privot.guarantee import Adjacency
    >>> event = Gaussian(4.0, 1.0, Adjacency.ADD_REMOVE)
    >>> round(epsilon_of_person(event, account(event, 1e-5), 2), 3)  # as Gaussian(4.0, 2.0, …)
    1.993
    """
    check_count("The number of records of one person", records)
    check_delta(guarantee.at_delta)
    if records == 1:
        return guarantee.epsilon()
    scaled = group_event(event, records)
    if scaled is not None:
        return account(scaled, guarantee.at_delta).epsilon()
    return _chained(guarantee, records)


def _chained(guarantee: Guarantee, records: int) -> float:
    """The smallest k·ε found whose chained δ fits; every ε that fits is a bound, so none has to be the smallest."""
    delta = math.log(guarantee.at_delta)

    def fits(epsilon: float) -> bool:
        one = guarantee.delta(epsilon)
        # log(1 + e^ε + … + e^{(k−1)ε}), from its largest term, and a little more for rounding
        chain = (records - 1) * epsilon + math.log(sum(math.exp(-i * epsilon) for i in range(records)))
        return one <= 0.0 or math.log(one) + chain + 1e-9 <= delta

    high = max(guarantee.epsilon(), 1e-6)
    while not fits(high):
        high *= 2.0
        if not high <= _LARGEST:
            return math.inf
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if fits(middle) else (middle, high)
    return records * high * (1.0 + 1e-12)
