"""Releases records moved part of the way towards other points (FedWad, TriangleWad): NO privacy, and it says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Unbounded
from privot.errors import DataError, UsageError
from privot.guarantee import Standing
from privot.mechanisms.mechanism import Facts, Needs, Once, Records
from privot.noise import NoiseSource


@dataclass(frozen=True, eq=False)
class Interpolation(Once):
    """η = (1 − t)·x + t·T(x), T the barycentric map of the optimal plan to `towards` (m, d).

    There is no noise, and no theorem covers it: a party that holds `towards` can recover the records from η (for equal
    sizes the optimal plan from η is the plan from x). Its event is unbounded: a vault refuses it without
    `allow_unproven=True`, and with it every budget still refuses, because every budget is finite.
    """

    towards: NDArray[np.float64]
    t: float = 0.5
    p: float = 2.0

    def __post_init__(self) -> None:
        towards = np.array(self.towards, dtype=np.float64)
        if towards.ndim != 2 or towards.size == 0 or not np.isfinite(towards).all():
            raise DataError("The points to interpolate towards must be finite numbers of shape (points, dimension).")
        if not 0.0 <= self.t < 1.0:
            raise UsageError(f"t must lie from 0 to below 1, got {self.t!r}.")
        object.__setattr__(self, "towards", towards)

    @property
    def needs(self) -> Needs:
        """Records in the space of the points."""
        return Needs(dim=self.towards.shape[1], tensors=True)

    @property
    def standing(self) -> Standing:
        """UNPROVEN: as published."""
        return Standing.UNPROVEN

    def event(self, facts: Facts) -> Event:
        """No finite ε."""
        return Unbounded("interpolation", facts.adjacency)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[np.float64]], Mapping[str, Any]]:
        """η of shape (records, dimension), and W_p(x, towards), which FedWad sends along."""
        from privot.transport import exact, interpolate

        x = records.rows()
        found = exact(x, self.towards, p=self.p)
        eta = interpolate(x, self.towards, self.t, p=self.p, plan=found.plan).value
        value = {"points": np.asarray(eta), "distance": np.array([float(found.value)])}
        return value, {"mechanism": "interpolation", "t": self.t, "p": self.p}
