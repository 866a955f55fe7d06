"""Whether an attack gets a record back better when the record was in than when it was not: the right null for recovery.

A guess that resembles a record shows nothing by itself: it may resemble every record of that kind. So a pool of
records is halved at random, again and again; each half makes a release of its own, each release is attacked, and every
record is compared with the guesses from its own half and with those from the other half, which never saw it. Both
halves follow one distribution and both releases have the same size, so all that is left between the two is that the
record was in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from privot.audit.bounds import rate_above, rate_below
from privot.audit.protocols import assignment
from privot.audit.recovery import EXACT, psnr
from privot.errors import UsageError

Array = NDArray[np.float64]
Attacked = Callable[[Array], Array]
"""Records → what an attacker makes of what they send, one guess a record, in any order."""
Scored = Callable[[Array, Array], Array]
"""(records that were in, candidates) → a score for each candidate, higher where it seems to have been in."""

LEVEL = 0.05


@dataclass(frozen=True)
class Effect:
    """A mean and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Effect:
        """From (records, halvings): the wider of two intervals by Student's t, over records and over halvings.

        Within one halving a half's luck with its release helps its own records inside and the other half's outside, so
        it cancels in the mean over both.
        """
        middle, widths = float(values.mean()), []
        for axis in range(values.ndim):
            means = values.mean(tuple(k for k in range(values.ndim) if k != axis))
            spread = float(means.std(ddof=1)) / math.sqrt(len(means))
            widths.append(float(student.ppf(1.0 - LEVEL / 2, len(means) - 1)) * spread)
        return cls(middle, middle - max(widths), middle + max(widths))

    def __str__(self) -> str:
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


@dataclass(frozen=True)
class Gain:
    """What being in does to a record's recovery, in dB of PSNR.

    `prior`, `outside` and `inside` are means by the guess most like a record, which is about that record alone.
    `by_match` is the gain of inside over outside by the best one-to-one match, which also rewards knowing how *many*
    records are of each kind. `exact` is the share of records that came back to EXACT of the range, with its interval.
    """

    name: str
    prior: float
    outside: float
    inside: float
    over_prior: Effect
    over_outside: Effect
    by_match: Effect
    exact: float
    exact_interval: tuple[float, float]
    records: int
    halvings: int


def inside_gain(
    name: str, attacked: Attacked, prior: Array, pool: Array, *, halvings: int, span: float, seed: int = 0
) -> Gain:
    """Attack both halves of `pool`, `halvings` times; `prior` are guesses that need no release at all."""
    shape = (2, len(pool), halvings)
    # inside and outside, by record and halving
    near, matched, exact = np.empty(shape), np.empty(shape), np.zeros(len(pool), dtype=bool)
    for k, own, other in _halvings(len(pool), halvings, seed):
        guess = attacked(pool[own])
        for where, rows in enumerate((own, other)):
            truth = pool[rows]
            closest = _nearest(truth, guess)
            near[where, rows, k] = psnr(closest, truth, span)
            matched[where, rows, k] = psnr(guess[assignment(truth, guess)], truth, span)
            if where == 0:
                exact[rows] |= np.abs(closest - truth).max(1) <= EXACT * span
    known = psnr(_nearest(pool, prior), pool, span)
    hits, count = int(exact.sum()), len(pool)
    return Gain(
        name,
        float(known.mean()),
        float(near[1].mean()),
        float(near[0].mean()),
        Effect.of(near[0] - known[:, None]),
        Effect.of(near[0] - near[1]),
        Effect.of(matched[0] - matched[1]),
        hits / count,
        (float(rate_below(hits, count, LEVEL / 2)), float(rate_above(hits, count, LEVEL / 2))),
        count,
        halvings,
    )


def membership_auc(scored: Scored, pool: Array, *, halvings: int, seed: int = 0) -> Effect:
    """How well scores tell who was in from who was not: the area under the curve, ½ for nothing, over halvings."""
    areas = []
    for _, own, other in _halvings(len(pool), halvings, seed):
        scores = scored(pool[own], pool[np.concatenate([own, other])])
        ranks = rankdata(scores)[: len(own)]
        areas.append((float(ranks.sum()) - len(own) * (len(own) + 1) / 2.0) / (len(own) * len(other)))
    return Effect.of(np.array(areas).reshape(halvings, 2).mean(1))


def _halvings(count: int, halvings: int, seed: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """(number, one half, the other half), both ways round for each number."""
    if count < 4 or count % 2 or halvings < 2:
        raise UsageError("A gain is measured on an even number of records from 4, and by at least 2 halvings.")
    generator = np.random.default_rng(seed)
    for k in range(halvings):
        order = generator.permutation(count)
        one, two = order[: count // 2], order[count // 2 :]
        yield k, one, two
        yield k, two, one


def _nearest(rows: Array, guesses: Array) -> Array:
    """For each row the guess that is most like it."""
    return np.asarray(guesses[((guesses**2).sum(1) - 2.0 * rows @ guesses.T).argmin(1)])
