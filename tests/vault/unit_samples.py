"""Tables with planted units of 1, 5 and 500 rows, and a mechanism that shows exact counts through a vault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.guarantee import Standing
from privot.kinds import Unit
from privot.mechanisms import Facts, Needs
from privot.mechanisms.mechanism import Records
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import NoiseSource

PLANTED = (1, 5, 500)
AXES = (Axis(0, 4), Axis(1, 3), Axis(LABEL, 2))
MARGINALS = Marginals(AXES, ((0,), (0, 1), (1, 2)), 1.0)


@dataclass(frozen=True)
class Rows:
    """Records of two columns of categories, a label, and whose they are."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    units: list[str]

    def without(self, unit: str) -> Rows:
        """All that is not of `unit`."""
        return self.at(np.array([place for place, of in enumerate(self.units) if of != unit]))

    def at(self, places: NDArray[np.int64]) -> Rows:
        """The rows at `places`."""
        return Rows(self.x[places], self.y[places], [self.units[place] for place in places])

    def held(self, per_unit: int) -> dict[str, Any]:
        """What a vault of them is made with."""
        told = {"clip": 8.0, "classes": 2, "adjacency": "add-remove", "budget": (1e300, 0.5), "label": "made up"}
        return {"x": self.x, "y": self.y, "units": self.units, "unit": Unit("patient_id", per_unit), **told}


def table(seed: int, planted: int, alike: bool = False) -> Rows:
    """About 200 rows of 40 units, and `planted` rows of the unit "planted" at random places; `alike`: all one row."""
    dice = np.random.default_rng(seed)
    units = [f"unit {number}" for number in dice.integers(0, 40, 200)] + ["planted"] * planted
    x = np.column_stack([dice.integers(0, 4, len(units)), dice.integers(0, 3, len(units))]).astype(np.float64)
    y = dice.integers(0, 2, len(units))
    if alike:
        x[200:], y[200:] = [3.0, 2.0], 1
    order = dice.permutation(len(units))
    return Rows(x[order], y[order], [units[place] for place in order])


@dataclass(frozen=True)
class ExactCounts:
    """The counts of `MARGINALS`, *without noise*, under the event of them: for tests of what a unit can move."""

    steps: int = 1
    seed: int | None = None
    standing: Standing = Standing.PROVEN

    @property
    def needs(self) -> Needs:
        return MARGINALS.needs

    def event(self, facts: Facts) -> Event:
        return MARGINALS.event(facts)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
        counts = records.sums(CellCounts(MARGINALS.axes, MARGINALS.sets))
        return np.concatenate(counts).astype(np.float64), {}
