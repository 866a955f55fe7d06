"""What one's own labels mean, by the class means of a labelled sketch: whole classes may have exchanged their names.

The n_c own records labelled c have the mean b_c; the sketch has the mean a_k of n′_k records of class k, with privacy
noise of variance v_k in each of q coordinates. If label c means class π(c), and a share s of labels is wrong anyhow,

    b_c ~ N((1 − s) a_π(c), S/n_c + (1 − s)² (S/n′ + v I)),    n′ and v those of class π(c),

all means around the middle of their side, so that a shift that all classes share has no part; S is the covariance of
one's own records within labels. π is the most likely permutation if every label keeps its name with probability
1 − M: the best assignment of −ln p(b_c | k) + ln((1 − M)(K − 1)/M)·1[k ≠ c]. A mean averages all records of its label,
so noise that hides the class of a single record leaves π to be seen. It touches a release and one's own records only.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linear_sum_assignment

from privot.valuation.labelled_records import Array, Labels

RIGHT_LABELS = 0.9
"""1 − s, the share of right labels assumed before anything is seen."""
MOVED = 0.05
"""M, the prior probability that a label means another class."""
MIN_COUNT, MIN_COUNT_DEVIATIONS = 5.0, 2.0
"""A class needs this many records on both sides, and this many deviations of the noise of its count in the sketch."""
RIDGE = 1e-2
"""Added to S, as a share of the mean variance: a coordinate may not vary at all."""


def label_meanings(
    u: Array, y: Labels, sums: Array, count: Array, sum_noise: float, count_noise: float
) -> tuple[Labels, Array]:
    """(π of shape (classes,), and how far noise leaves it to be seen, by label).

    Parameters
    ----------
    u, y
        Features (n, q) of one's own records, as the sketch has them, and their labels from 0 to classes − 1.
    sums, count
        Noisy sums (classes, q) and counts (classes,) of the sketch.
    sum_noise, count_noise
        The standard deviations of the noise in each of them.

    Returns
    -------
    tuple
        π, and per label 1 − L′/L, L the likelihood and L′ that of the best exchange with another label: 0 where noise
        hides what a label means, and for labels that one side lacks, which keep their names.
    """
    classes, width = sums.shape
    members = np.bincount(y, minlength=classes)
    own = np.zeros((classes, width))
    np.add.at(own, y, u)
    own /= np.maximum(members, 1)[:, None]
    within = (u - own[y]).T @ (u - own[y]) / len(u)
    meaning, seen = np.arange(classes), np.zeros(classes)
    at = np.flatnonzero((members >= MIN_COUNT) & (count >= max(MIN_COUNT, MIN_COUNT_DEVIATIONS * count_noise)))
    if len(at) < 2:
        return meaning, seen
    # in the axes of S every covariance here is diagonal
    variance, axes = np.linalg.eigh(within)
    variance = np.maximum(variance, 0.0) + RIDGE * max(float(np.trace(within)) / width, 1e-12)
    theirs = sums[at] / count[at, None]
    mine, theirs = (own[at] - own[at].mean(0)) @ axes, (theirs - theirs.mean(0)) @ axes
    unlikely = np.empty((len(at), len(at)))
    for row, label in enumerate(at):
        spread = variance * (1.0 / members[label] + RIGHT_LABELS**2 / count[at, None])
        spread = spread + (RIGHT_LABELS * sum_noise / count[at, None]) ** 2
        unlikely[row] = 0.5 * ((mine[row] - RIGHT_LABELS * theirs) ** 2 / spread + np.log(spread)).sum(1)
    other = math.log((1.0 - MOVED) * (len(at) - 1) / MOVED)
    _, found = linear_sum_assignment(unlikely + other * (1.0 - np.eye(len(at))))
    meaning[at] = at[found]
    # likelihoods of exchanging the meanings of two labels, against those found
    chosen = unlikely[:, found]
    kept = np.diag(chosen)
    exchanged = chosen + chosen.T - kept[:, None] - kept
    np.fill_diagonal(exchanged, math.inf)
    seen[at] = -np.expm1(-np.maximum(exchanged.min(1), 0.0))
    return meaning, seen
