"""Sums of cosines and sines of whole-number phases, exact: a record adds pairs from one public table, and nothing else.

A map gives each record one phase per frequency, a whole number of 2⁻³² turns; its upper 12 bits p are looked up:

    (c, s)[p] = (rint(A·cos 2π(p + ½)/4096), rint(A·sin 2π(p + ½)/4096)),   A = 2²².

Formal guarantees, whatever the map and the record:
  * the norm of what a record adds is at most √m·R for m frequencies, R² = max over p of c² + s², taken over the entries
    of the table as they are, in whole numbers. A phase is an unsigned number of 32 bits, so it always is one
    of the entries. `pair_unit(m)` times that norm is below 1 − MARGIN;
  * a record with a value that is not a number adds zero;
  * the sums are exact: c and s are packed into one number 2³²·c + s, of which at most `_ROWS` = 256 are added before
    they are taken apart, |Σ s| ≤ 256·2²² < 2³¹; 2³¹ records add up to at most 2⁵³ < 2⁶³.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import Totals
from privot.errors import PrivotError, UsageError
from privot.mechanisms.exact_sums import MARGIN, FeatureMap

PHASE_BITS = 32
"""A phase is a whole number of 2⁻³² turns."""
TABLE_BITS = 12
AMPLITUDE = 1 << 22
_ROWS, _COLUMNS = 256, 512
"""Records, and frequencies of them, that are looked up at once: what is held then fits in a core's second cache."""


class PhaseMap(FeatureMap, Protocol):
    """A feature map of cosines, then sines, whose phases are whole numbers: φ(x) = (cos 2πp(x), sin 2πp(x))/√m."""

    @property
    def frequencies(self) -> int:
        """m; `size` is 2·m."""
        ...

    def phases(self, rows: NDArray[np.float64]) -> NDArray[np.uint32]:
        """The phases, of shape (frequencies, rows), in 2⁻³² turns: of each row alone, the same to the bit."""
        ...


def _table() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    angles = (np.arange(1 << TABLE_BITS) + 0.5) * (2.0 * math.pi / (1 << TABLE_BITS))
    # no entry lies within 1e-5 of a half, so every library of functions rounds to the same whole number
    return (np.rint(AMPLITUDE * np.cos(angles)).astype(np.int64), np.rint(AMPLITUDE * np.sin(angles)).astype(np.int64))


COSINES, SINES = _table()
LARGEST_SQUARE = int((COSINES * COSINES + SINES * SINES).max())
"""R², the largest c² + s² of an entry."""
_PACKED = (COSINES << 32) + SINES


def has_phases(features: FeatureMap) -> bool:
    """Whether the sums of this map are those of `PhaseSums`."""
    return callable(getattr(features, "phases", None))


def pair_unit(frequencies: int) -> float:
    """u with u·√m·R ≤ 1 − MARGIN: what one step of the table is worth in a release.

    >>> 0.99998 < pair_unit(2000) * math.sqrt(2000 * LARGEST_SQUARE) < 1 - MARGIN
    True
    """
    # at least 1 above √(m·R²), far more than the division rounds
    return (1.0 - MARGIN) / (math.isqrt(frequencies * LARGEST_SQUARE) + 2)


def pairs(phases: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The table's cosine and sine of each phase."""
    at = phases >> np.uint32(PHASE_BITS - TABLE_BITS)
    return COSINES[at], SINES[at]


def try_phases(features: PhaseMap) -> None:
    """Refuse a map that fails on public rows, or gives a row other phases when other rows stand beside it."""
    dice = np.random.default_rng(0)
    rows, company = dice.uniform(size=(4, features.dim)), dice.normal(size=(6, features.dim)) * 1e3
    try:
        together = checked_phases(features, rows)
        alone = np.concatenate([checked_phases(features, row[None]) for row in rows], axis=1)
        among = checked_phases(features, np.concatenate([company, rows[::-1]]))[:, -1 : -len(rows) - 1 : -1]
    except PrivotError:
        raise
    except Exception as error:
        raise UsageError(
            f"The feature map cannot be evaluated on public rows ({type(error).__name__}): it must take any number "
            "of rows, also one."
        ) from None
    if not (np.array_equal(together, alone) and np.array_equal(together, among)):
        raise UsageError("The feature map gives a row other phases when other rows stand beside it: correct the map.")


def checked_phases(features: PhaseMap, rows: NDArray[np.float64]) -> NDArray[np.uint32]:
    """`features.phases(rows)`, if they are whole numbers of 32 bits, one for each frequency and row."""
    found = features.phases(rows)
    shape = (features.frequencies, len(rows))
    if found.dtype != np.uint32 or found.shape != shape or features.size != 2 * features.frequencies:
        raise UsageError(
            f"Expected phases of shape {shape} as uint32 and two features for each frequency, got {found.shape} as "
            f"{found.dtype}: correct the map."
        )
    return found


@dataclass(frozen=True, eq=False)
class PhaseSums:
    """Σ of the table's cosines, then sines, by class as whole numbers, and the number of records of each class."""

    features: PhaseMap
    classes: int
    labels: bool
    tensors: ClassVar[bool] = False

    def zeros(self) -> Totals:
        """An array (classes, size), and one of length `classes`."""
        return np.zeros((self.classes, self.features.size), np.int64), np.zeros(self.classes, np.int64)

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Add the pairs of one block of rows, a few at a time, class by class."""
        if labels is None:
            labels = np.zeros(len(rows), dtype=np.int64)
        order = np.argsort(labels, kind="stable")
        for start in range(0, len(rows), _ROWS):
            taken = order[start : start + _ROWS]
            self._add(totals[0], rows[taken], labels[taken])
        totals[1][:] += np.bincount(labels, minlength=self.classes)

    def _add(self, sums: NDArray[np.int64], rows: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
        """Add at most `_ROWS` rows, whose labels ascend."""
        m, lost = self.features.frequencies, np.isnan(rows).any(axis=1)
        phases = checked_phases(self.features, rows)
        starts = np.flatnonzero(np.diff(labels, prepend=-1))
        own = labels[starts]
        for first in range(0, m, _COLUMNS):
            held = _PACKED.take(phases[first : first + _COLUMNS] >> np.uint32(PHASE_BITS - TABLE_BITS))
            if lost.any():
                held[:, lost] = 0
            both = np.add.reduceat(held, starts, axis=1)
            sines = ((both + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
            last = first + len(held)
            sums[own, first:last] += ((both - sines) >> 32).T
            sums[own, m + first : m + last] += sines.T

    def floats(self, totals: Totals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Σ φ in the unit of a release, of norm at most 1 − MARGIN per record, rounded twice; and the counts."""
        return totals[0].astype(np.float64) * pair_unit(self.features.frequencies), totals[1].astype(np.float64)
