"""What all simple numbers share: ε in, σ found, an interval for the noise out; it sees no record."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.calibration import calibrate
from privot.accounting.events import Event, Gaussian
from privot.accounting.units import for_unit
from privot.common.arguments import check_delta, check_epsilon, is_number
from privot.common.privacy_unit import Unit
from privot.errors import UsageError, brief
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.mechanism import Facts, Needs, Once, PublicColumn, name_of
from privot.mechanisms.table_counts.cell_axes import LABEL

COVERED = "the privacy noise alone, not how the records were sampled"
"""What an interval speaks of."""
UP = 1.0 + 1e-12
"""Sensitivities that are roots are stated this much too large, which covers their rounding."""


@lru_cache(maxsize=256)
def _sigma(epsilon: float, delta: float, sensitivity: float, adjacency: Adjacency, unit: Unit | None) -> float:
    return calibrate(lambda s: for_unit(Gaussian(s, sensitivity, adjacency), unit), epsilon=epsilon, delta=delta)


@dataclass(frozen=True, kw_only=True)
class Summary(Once):
    """Base of the simple numbers: a target (ε, δ) and the level of the interval that comes with the answer."""

    epsilon: float
    delta: float
    level: float = 0.95

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon), check_delta(self.delta)
        if not is_number(self.level) or not 0.0 < self.level < 1.0:
            raise UsageError(f"The level of an interval must lie strictly between 0 and 1, got {brief(self.level)}.")

    @property
    def needs(self) -> Needs:
        """Sums, and nothing of all data: what a column must be is checked with the event, before anything is paid."""
        return Needs(sums_only=True, shareable=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the Gaussian mechanism's own theorem is all it rests on."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Which number it is, and every choice."""
        class_name = name_of(self).rpartition(".")[2]
        return repr([class_name, *((f.name, getattr(self, f.name)) for f in fields(self))]).encode()

    @property
    def reach(self) -> float:
        """z: noise stays within z·σ with probability `level`."""
        return NormalDist().inv_cdf(0.5 + self.level / 2.0)

    def calibrated(self, sensitivity: float, facts: Facts) -> Gaussian:
        """The Gaussian release of that sensitivity per record: σ is found here and read off the event later.

        It costs (ε, δ) for what the facts protect, one record or one unit.
        """
        # a row that holds everything of one unit is a single record of it
        unit = None if facts.whole_units else facts.unit
        sigma = _sigma(self.epsilon, self.delta, sensitivity, facts.adjacency, unit)
        return Gaussian(sigma, sensitivity, facts.adjacency)

    def paid_sigma(self, event: Event, wanted: Event) -> float:
        """σ of the event that was paid for, which must be the one that this mechanism states."""
        if event != wanted or not isinstance(event, Gaussian):
            raise UsageError(f"{type(self).__name__} runs on the event it made.")
        return event.sigma

    def around(self, counts: Any, sigma: float, facts: Facts) -> dict[str, NDArray[np.float64]]:
        """Noisy counts as `estimate`, with `low` and `high` cut to what a number of records can be."""
        most, reach = np.inf if facts.records is None else float(facts.records), self.reach * sigma
        low, high = (np.clip(counts + side, 0.0, most) for side in (-reach, reach))
        return {"estimate": np.asarray(counts), "low": np.asarray(low), "high": np.asarray(high)}

    def public(self, name: str, facts: Facts, sigma: float, **further: Any) -> dict[str, Any]:
        """What a release states beside its value."""
        stated = {"mechanism": name, "sigma": sigma, "level": self.level, "interval_covers": COVERED}
        return {**stated, "records": facts.records, **further}


@dataclass(frozen=True)
class ColumnSum:
    """Base of the sums over one column: which coordinate of a row is looked at."""

    column: PublicColumn

    @property
    def labels(self) -> bool:
        """Whether the column is that of the labels."""
        return self.column.place == LABEL

    def coordinates(self, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """The column's coordinates in a block of rows."""
        return rows[:, self.column.place] if labels is None else labels.astype(np.float64)
