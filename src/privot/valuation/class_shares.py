"""Shares of classes as far as sketches tell them apart: what noise and the choice of records explain is no difference.

Moving records between classes costs in proportion to their number, so a few records too many of a class, or noise in
their count, would be charged in full to the party that happens to have them. With p_i the shares of party i of n_i
records, p the median of the parties and p′ the shares of the validation side, party i is read as having the shares

    r + a_i (p_i − r),     r = p′ + b (p − p′)

where b says how clearly all parties differ from the validation side, and a_i how clearly party i differs from all.
With v and v′ the variances of p and p′, all are most likely to have the shares q = p′ + w (p − p′), of variance u,
w = b + (1 − b) v′/(v + v′). With s_i the deviation of the noise and f + 1 classes,

    Q_i = Σ_c (p_ic − q_c)²/v_ic,     v_ic = q_c (1 − q_c)/n_i + s_i² + u_c,     z_i = (Q_i − f)/√(2f)

a_i is 0 for z_i ≤ 1, where chance explains the difference, 1 for z_i ≥ 5, where it does not, and a line between them:
firm shrinkage, which leaves a clear difference as it is (Gao & Bruce 1997, "WaveShrink with firm shrinkage"). b is
the same of p − p′, with the variance v + v′. A coalition's shares are moved by the mean of what its parties' shares are
moved by, weighted by records. On plain records nothing is read anew: shares are what they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privot.valuation.class_profiles import Profile
from privot.valuation.labelled_records import Array

CHANCE, CLEAR = 1.0, 5.0
"""z up to which chance explains a difference, and from which it is taken as it is."""
MEDIAN = math.pi / 2.0
"""Variance of the median of many Gaussians relative to that of their mean."""


@dataclass(frozen=True, eq=False)
class CountedShares:
    """Shares of all classes of a sketch, the variance of the noise in each, and the number of records."""

    share: Array
    noise: float
    records: float

    @classmethod
    def of(cls, profile: Profile, classes: int, noise: float, records: float) -> CountedShares:
        """Of a profile, in which classes that do not stand out are missing."""
        return cls(_over_all(profile, classes), noise, records)

    def variance(self, share: Array) -> Array:
        """The variance by noise and by the choice of records, if these are the shares without either."""
        return share * (1.0 - share) / self.records + self.noise

    def read(self, common: CommonShares) -> Array:
        """The shares above."""
        clear = clarity(self.share - common.likely, self.variance(common.likely) + common.variance)
        return common.read + clear * (self.share - common.read)


@dataclass(frozen=True, eq=False)
class CommonShares:
    """What all parties have in common: r, q and the variance u of q, of the formula above."""

    read: Array
    likely: Array
    variance: Array

    @classmethod
    def of(cls, parties: Sequence[CountedShares], validation: CountedShares) -> CommonShares:
        """From the parties and the validation side."""
        middle = np.median([one.share for one in parties], axis=0)
        middle = middle / middle.sum() if middle.sum() > 0.0 else validation.share
        both = (middle + validation.share) / 2.0
        theirs, gap = validation.variance(both), middle - validation.share
        mine = MEDIAN * np.mean([one.variance(both) for one in parties], axis=0) / len(parties)
        clear = clarity(gap, mine + theirs)
        weight = clear + (1.0 - clear) * theirs / np.maximum(mine + theirs, 1e-300)
        variance = (1.0 - weight) ** 2 * theirs + weight**2 * mine
        return cls(validation.share + clear * gap, validation.share + weight * gap, variance)


def clarity(gap: Array, variance: Array) -> float:
    """How clearly a difference of shares is more than chance, from 0 to 1: a_i above."""
    there = variance > 0.0
    free = float(np.count_nonzero(there) - 1)
    if free < 1.0:
        return 1.0
    z = (float((gap[there] ** 2 / variance[there]).sum()) - free) / math.sqrt(2.0 * free)
    return min(1.0, max(0.0, (z - CHANCE) / (CLEAR - CHANCE)))


def moved_by(pool: Profile, moved: Array) -> Profile:
    """A coalition's profile with all its classes' shares moved by so much."""
    share = np.maximum(_over_all(pool, len(moved)) + moved, 0.0)[pool.names]
    return replace(pool, share=share / share.sum()) if share.sum() > 0.0 else pool


def _over_all(profile: Profile, classes: int) -> Array:
    share = np.zeros(classes)
    share[profile.names] = profile.share
    return share
