"""Which records take part in a step, drawn without bias from 64-bit words; it may not see the records.

Both samplers are exact in integer arithmetic: no probability here goes through floating point except the rate
that Poisson sampling is given, which is rounded down by less than 2⁻⁶⁴.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Bits = Callable[[int], NDArray[np.uint64]]
"""How many words are wanted → that many independent words, uniform on {0, …, 2⁶⁴ − 1}."""

_POISSON_CHUNK = 1 << 20


def below(bits: Bits, bound: int, count: int) -> NDArray[np.int64]:
    """`count` independent integers uniform on {0, …, bound − 1}, 1 ≤ bound ≤ 2⁶³.

    Words from the last, incomplete stretch of `bound` values are drawn again, so that the remainder has no
    bias.
    """
    limit = (1 << 64) // bound * bound
    words = bits(count)
    if limit < 1 << 64:
        while (bad := np.flatnonzero(words >= np.uint64(limit))).size:
            words[bad] = bits(bad.size)
    return (words % np.uint64(bound)).astype(np.int64)


def without_replacement(bits: Bits, records: int, batch: int) -> NDArray[np.int64]:
    """A uniformly random ordered tuple of `batch` distinct indices below `records`.

    Each of the records!/(records − batch)! tuples has the same probability. A small batch costs O(batch), a
    batch of more than half the records one pass over them.
    """
    draw = _first_distinct if 2 * batch <= records else _smallest_keys
    return draw(bits, records, batch)


def _first_distinct(bits: Bits, records: int, batch: int) -> NDArray[np.int64]:
    """The first `batch` distinct values of an i.i.d. uniform sequence, in order of first appearance.

    Given what came before, the next new value is uniform on the values not yet seen: the definition of
    sampling without replacement. The sequence is drawn in pieces, which changes nothing in it.
    """
    drawn = below(bits, records, batch + batch // 2 + 1)
    while True:
        _, first = np.unique(drawn, return_index=True)
        if first.size >= batch:
            return drawn[np.sort(first)[:batch]]
        drawn = np.concatenate([drawn, below(bits, records, batch)])


def _smallest_keys(bits: Bits, records: int, batch: int) -> NDArray[np.int64]:
    """The records with the `batch` smallest of i.i.d. uniform keys, in the order of their keys.

    Without ties the order of exchangeable keys is uniform. "The batch + 1 smallest keys are distinct"
    treats all records alike, so drawing everything again when it fails leaves the order uniform and decides
    every tie.
    """
    while True:
        keys = bits(records)
        nearest = np.argpartition(keys, batch)[: batch + 1] if batch < records else np.arange(records)
        order = nearest[np.argsort(keys[nearest])]
        ranked = keys[order]
        if np.all(ranked[1:] > ranked[:-1]):
            return order[:batch].astype(np.int64)


def poisson(bits: Bits, records: int, rate: float) -> NDArray[np.int64]:
    """Indices below `records`, rising, each there independently with probability ⌊rate·2⁶⁴⌋/2⁶⁴ ≤ rate.

    Rounded down because a record that takes part less often loses less. Each record's word is compared with the rate
    from the top: its first byte decides, but where it equals the rate's; only then are the other seven drawn.
    """
    threshold = int(Fraction(rate) * (1 << 64))
    if threshold == 1 << 64:
        return np.arange(records, dtype=np.int64)
    first, rest = divmod(threshold, 1 << 56)
    chosen = [np.empty(0, dtype=np.int64)]
    for start in range(0, records, _POISSON_CHUNK):
        count = min(_POISSON_CHUNK, records - start)
        heads = bits(-(-count // 8)).view(np.uint8)[:count]
        # one pass over all records: few come this far where the rate is small
        near = np.flatnonzero(heads <= first)
        taken = heads[near] < first
        ties = np.flatnonzero(~taken)
        taken[ties] = bits(ties.size) >> np.uint64(8) < np.uint64(rest)
        chosen.append(start + near[taken])
    return np.concatenate(chosen)
