"""What a design takes from public rows: prototypes, principal directions, the spread that matching leaves.

All of it is a function of public rows and a seed alone; it never sees a record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_CALIBRATION = 600


def rounded(array: Array) -> Array:
    """Rounded to single precision, so that the last digits of one machine do not change the design."""
    return np.asarray(array.astype(np.float32).astype(np.float64))


def cluster(rows: Array, count: int, seed: int, rounds: int = 25) -> Array:
    """`count` cluster means of public rows: k-means++ and Lloyd's steps, from the seed alone."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 20,)))
    square = (rows * rows).sum(1)

    def to(means: Array) -> Array:
        return np.asarray(np.maximum(square[:, None] + (means * means).sum(1) - 2.0 * rows @ means.T, 0.0))

    means = rows[[int(generator.integers(len(rows)))]]
    while len(means) < count:
        nearest = to(means).min(1)
        total = nearest.sum()
        chance = nearest / total if total > 0.0 else np.full(len(rows), 1.0 / len(rows))
        means = np.concatenate([means, rows[[int(generator.choice(len(rows), p=chance))]]])
    for _ in range(rounds):
        which = to(means).argmin(1)
        size = np.bincount(which, minlength=count)
        sums = np.zeros_like(means)
        np.add.at(sums, which, rows)
        means = rounded(np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], means))
    return means


def principal(centred: Array, count: int) -> Array:
    """The first `count` principal directions, each with its largest entry positive."""
    _, vectors = np.linalg.eigh(centred.T @ centred)
    top = vectors[:, ::-1][:, :count]
    return np.asarray(top * np.sign(top[np.abs(top).argmax(0), np.arange(count)]))


def calibrate(rows: Array, means: Array, seed: int) -> tuple[tuple[tuple[float, float, float], ...], float]:
    """Shares of spread and of residual that matching two public samples leaves, at two sizes; the effective rank."""
    from scipy.optimize import linear_sum_assignment

    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 + (1 << 20),)))
    spread = float(((rows - rows.mean(0)) ** 2).sum(1).mean())
    residual = float(np.mean([((means - row) ** 2).sum(1).min() for row in rows]))
    shares = []
    for size in sorted({max(2, min(len(rows) // 2, MAX_CALIBRATION) // k) for k in (4, 1)}):
        left = []
        for _ in range(4):
            pick = generator.permutation(len(rows))[: 2 * size]
            a, b = rows[pick[:size]], rows[pick[size:]]
            cost = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2.0 * a @ b.T
            left.append(float(cost[linear_sum_assignment(cost)].mean()))
        matched = float(np.mean(left)) / 2.0
        # rows that are all prototypes leave no residual, and the caller refuses the share that this then is
        shares.append((float(size), matched / max(spread, 1e-300), matched / max(residual, 1e-300)))
    centred = rows - rows.mean(0)
    covariance = centred.T @ centred
    rank = float(np.trace(covariance) ** 2 / np.maximum((covariance**2).sum(), 1e-300))
    return tuple(shares), max(1.0, rank / 3.0)
