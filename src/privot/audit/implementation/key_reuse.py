"""Looks for noise that is drawn twice: in successive calls, and in threads that draw at the same time.

It draws noise only; no record is involved.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from privot.audit.findings import Check
from privot.noise import NoiseSource

_DRAWS = 2000
_EACH = 4


def no_key_twice(noise: NoiseSource, draws: int = _DRAWS) -> Check:
    """Whether `draws` small draws, half of them from four threads, have no number in common.

    A normal variate has about 2⁶⁰ values, so two independent draws agree with probability below 1e-10 in all of this.
    """
    alone = [noise.normal(_EACH, 1.0) for _ in range(draws // 2)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: noise.normal(_EACH, 1.0), range(draws - draws // 2)))
    numbers = np.concatenate(alone + together)
    repeated = len(numbers) - len(np.unique(numbers))
    words = np.concatenate([noise.uniform_bits(_EACH) for _ in range(draws)])
    repeated += len(words) - len(np.unique(words))
    detail = f"{len(numbers)} normals and {len(words)} words from {2 * draws} draws, {repeated} of them repeated"
    return Check("no key serves twice", repeated == 0, detail)


def draws_are_uncorrelated(noise: NoiseSource, draws: int = 200, size: int = 500) -> Check:
    """Whether noise of one draw predicts another: the largest correlation of all pairs of draws."""
    rows = np.stack([noise.normal(size, 1.0) for _ in range(draws)])
    correlation = np.corrcoef(rows) - np.eye(draws)
    largest = float(np.abs(correlation).max())
    # the largest of 19,900 independent correlations of 500 pairs exceeds 6.5/√500 less than once in 10⁶ times
    bound = 6.5 / size**0.5
    return Check("draws are uncorrelated", largest < bound, f"largest correlation {largest:.3f}, bound {bound:.3f}")
