"""Whether an attack recovers a record better if the record was in the data: the right baseline for recovery.

A guess that resembles a record shows nothing by itself: it may resemble every record of that kind. So a pool of
records is halved at random, many times; each half makes its own release, each release is attacked, and every record is
compared with the guesses from its own half and with those from the other half, which does not contain it. Both halves
follow one distribution and both releases have the same size, so the only difference is that the record was in. The
records are those of the experiment; no vault is opened here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from privot.audit.statistics.effects import Effect, Happened, share_above
from privot.audit.statistics.one_to_one import assignment
from privot.audit.statistics.recovery import CLEAR, is_exact, psnr
from privot.errors import UsageError

Array = NDArray[np.float64]
Attacked = Callable[[Array], Array]
"""Records → an attacker's guesses from what they send, one guess per record, in any order."""
Scored = Callable[[Array, Array], Array]
"""(records that were in, candidates) → a score per candidate; higher means more likely a member."""


@dataclass(frozen=True)
class Share:
    """The share of records that an attack recovers at one quality, by the guess most like each of them.

    `prior` needs no release; `outside` and `inside` are means over halvings. `beyond` is the share recovered inside
    that the prior does not recover, and `beyond_at_most` its upper bound at 95 %; records that the prior recovers do
    not reduce it.
    """

    prior: float
    outside: float
    inside: float
    over_prior: Effect
    over_outside: Effect
    beyond: float
    beyond_at_most: float

    @classmethod
    def of(cls, prior: Happened, outside: Happened, inside: Happened) -> Share:
        """From arrays (records, halvings); that of the prior is the same in every halving."""
        beyond = inside & ~prior
        return cls(
            float(prior.mean()),
            float(outside.mean()),
            float(inside.mean()),
            Effect.paired(inside, prior),
            Effect.paired(inside, outside),
            float(beyond.mean()),
            share_above(beyond),
        )


@dataclass(frozen=True)
class Gain:
    """The effect of membership on recovery: in dB of PSNR, and in the share of records recovered.

    `prior`, `outside` and `inside` are mean dB by the guess most like a record, which is about that record alone.
    `by_match` is the gain of inside over outside by the best one-to-one match, which also rewards knowing how *many*
    records of each kind there are. `exact` counts records that came back to EXACT of the range, `clear` those from
    CLEAR dB.
    """

    name: str
    prior: float
    outside: float
    inside: float
    over_prior: Effect
    over_outside: Effect
    by_match: Effect
    exact: Share
    clear: Share
    records: int
    halvings: int


def inside_gain(
    name: str, attacked: Attacked, prior: Array, pool: Array, *, halvings: int, span: float, seed: int = 0
) -> Gain:
    """Attack both halves of `pool`, `halvings` times; `prior` holds guesses that need no release."""
    shape = (2, len(pool), halvings)
    # inside and outside, by record and halving
    near, matched, exact = np.empty(shape), np.empty(shape), np.empty(shape, dtype=bool)
    for k, own, other in _halvings(len(pool), halvings, seed):
        guess = attacked(pool[own])
        for where, rows in enumerate((own, other)):
            truth = pool[rows]
            closest = _nearest(truth, guess)
            near[where, rows, k] = psnr(closest, truth, span)
            matched[where, rows, k] = psnr(guess[assignment(truth, guess)], truth, span)
            exact[where, rows, k] = is_exact(closest, truth, span)
    closest = _nearest(pool, prior)
    known = np.repeat(psnr(closest, pool, span)[:, None], halvings, axis=1)
    known_exact = np.repeat(is_exact(closest, pool, span)[:, None], halvings, axis=1)
    return Gain(
        name,
        float(known.mean()),
        float(near[1].mean()),
        float(near[0].mean()),
        Effect.of(near[0] - known),
        Effect.of(near[0] - near[1]),
        Effect.of(matched[0] - matched[1]),
        Share.of(known_exact, exact[1], exact[0]),
        Share.of(known >= CLEAR, near[1] >= CLEAR, near[0] >= CLEAR),
        len(pool),
        halvings,
    )


def membership_auc(scored: Scored, pool: Array, *, halvings: int, seed: int = 0) -> Effect:
    """How well scores separate members from non-members: area under the ROC curve (½: not at all), over halvings."""
    areas = []
    for _, own, other in _halvings(len(pool), halvings, seed):
        scores = scored(pool[own], pool[np.concatenate([own, other])])
        ranks = rankdata(scores)[: len(own)]
        areas.append((float(ranks.sum()) - len(own) * (len(own) + 1) / 2.0) / (len(own) * len(other)))
    return Effect.of(np.array(areas).reshape(halvings, 2).mean(1))


def _halvings(count: int, halvings: int, seed: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """(number, one half, the other half), in both orders for each number."""
    if count < 4 or count % 2 or halvings < 2:
        raise UsageError("A gain needs an even number of at least 4 records, and at least 2 halvings.")
    generator = np.random.default_rng(seed)
    for k in range(halvings):
        order = generator.permutation(count)
        one, two = order[: count // 2], order[count // 2 :]
        yield k, one, two
        yield k, two, one


def _nearest(rows: Array, guesses: Array) -> Array:
    """The nearest guess to each row."""
    return np.asarray(guesses[((guesses**2).sum(1) - 2.0 * rows @ guesses.T).argmin(1)])
