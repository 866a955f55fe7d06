"""Releases noisy counts of records in the cells of a public list of marginals; it shows nothing else.

A marginal is a set of axes; its table counts the records in each combination of their cells. Together the tables are
the sum over records of one embedding φ(x): for each marginal a one-hot vector times its weight w_m, so ‖φ(x)‖² = Σ w_m²
for every x. So it is a mean embedding with indicators for features, released by one Gaussian mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Gaussian
from privot.common import arguments
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma
from privot.noise.shared_noise import agree

MAX_CELLS = 50_000_000
_UP = 1.0 + 1e-12
"""The sensitivity is stated this much too large, which covers the rounding of the norm and of σ/w."""


@dataclass(frozen=True)
class Marginals:
    """Counts in every cell of every marginal in `sets` (tuples of places in `axes`), plus Gaussian noise.

    Marginal m gets N(0, (σ/w_m)²) in each cell, w_m its weight (1 unless `weights` are given). The value is one long
    array: the marginals one after another, each in C order. With `most`, Σ w_m² is stated as `most`, which it may not
    exceed: weights can then be chosen after the cost is fixed.

    Formal guarantees. One record stands in exactly one cell of each marginal, so in units of the noise,
      * adding or removing it moves one cell per marginal by w_m: Δ = √(Σ w_m²);
      * replacing it moves, in each marginal, one cell down and one up, or none: Δ = √(2·Σ w_m²), reached when the two
        records share no cell.
    Counts are whole numbers and noise is added on a grid that holds them (`privot.noise.noisy_counts`), so no rounding
    adds to Δ. Which cells exist is public; no count, and no number of records, can make the release fail.
    """

    axes: tuple[Axis, ...]
    sets: tuple[tuple[int, ...], ...]
    sigma: float
    weights: tuple[float, ...] | None = None
    most: float | None = None
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", arguments.sigma(self.sigma))
        if not self.axes or not all(isinstance(axis, Axis) for axis in self.axes):
            raise UsageError("Marginals need at least one axis.")
        if not self.sets:
            raise UsageError("Name at least one marginal.")
        for places in self.sets:
            if not places or len(set(places)) != len(places):
                raise UsageError("A marginal names each of its axes once, and at least one.")
            if not all(isinstance(p, int) and not isinstance(p, bool) and 0 <= p < len(self.axes) for p in places):
                raise UsageError(f"A marginal names axes by their place, from 0 to {len(self.axes) - 1}.")
        check_once(self.steps, self.seed)
        if self.weights is not None:
            if len(self.weights) != len(self.sets):
                raise UsageError(
                    f"There are {len(self.sets)} marginals and {len(self.weights)} weights: give one each."
                )
            if not all(isinstance(w, int | float) and 1e-6 <= w <= 1e6 for w in self.weights):
                raise UsageError("The weight of a marginal is a number from 1e-6 to 1e6.")
            if self.most is not None and not math.fsum(w * w for w in self.weights) <= self.most:
                raise UsageError(f"The squares of the weights add up to more than the {self.most:g} that is paid for.")
        elif self.most is not None and not len(self.sets) <= self.most:
            raise UsageError(f"There are {len(self.sets)} marginals, more than the {self.most:g} that is paid for.")
        if sum(self.lengths) > MAX_CELLS:
            raise UsageError(f"These marginals have more than {MAX_CELLS} cells: use fewer of them, or coarser ones.")
        for scale in dict.fromkeys(self.scales):
            check_counting_sigma(scale)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each marginal's table."""
        sizes = [axis.size for axis in self.axes]  # hundreds of axes are in tens of thousands of marginals
        return tuple(tuple(sizes[place] for place in places) for places in self.sets)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many cells each marginal has."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def scales(self) -> tuple[float, ...]:
        """The standard deviation of the noise in the cells of each marginal, σ/w_m."""
        weights = self.weights or (1.0,) * len(self.sets)
        return tuple(self.sigma / weight for weight in weights)

    @property
    def norm(self) -> float:
        """‖φ(x)‖ = √(Σ w_m²), the same for every record, or the bound on it that `most` states."""
        if self.most is not None:
            return math.sqrt(self.most)
        return math.sqrt(math.fsum(w * w for w in self.weights or (1.0,) * len(self.sets)))

    @property
    def needs(self) -> Needs:
        """Labels, where a marginal has an axis of them."""
        return Needs(labels=any(axis.start == LABEL for axis in self.axes), sums_only=True, shareable=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the Gaussian mechanism's own theorem is all it rests on."""
        return Standing.PROVEN

    def sensitivity(self, adjacency: Adjacency) -> float:
        """‖φ(x)‖ if a record is added or removed, √2·‖φ(x)‖ if one is replaced."""
        return self.norm * (1.0 if adjacency is Adjacency.ADD_REMOVE else math.sqrt(2.0)) * _UP

    def event(self, facts: Facts) -> Event:
        """One Gaussian release of all marginals together."""
        for axis in self.axes:
            if axis.start == LABEL and axis.cells != facts.classes:
                raise UsageError("The axis of labels has another number of cells than the vault has classes.")
            if axis.start + (axis.width if axis.start != LABEL else 0) > facts.dim:
                raise UsageError(f"An axis reads beyond the {facts.dim} coordinates that the vault's rows have.")
        return Gaussian(self.sigma, self.sensitivity(facts.adjacency), facts.adjacency)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
        """The noisy counts, and what it takes to read them."""
        if event != self.event(records.facts):
            raise UsageError("Marginals run on the event they made.")
        return self.noisy(records.sums(CellCounts(self.axes, self.sets)), noise)

    def noisy(
        self, counts: Sequence[NDArray[np.int64]], noise: NoiseSource
    ) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
        """`counts` of every marginal with noise, and what it takes to read them: for `run`, after a charge."""
        agree(noise, self)
        parts = [add_noise_to_counts(count, noise, scale) for count, scale in zip(counts, self.scales, strict=True)]
        public = {
            "mechanism": "marginals",
            "sets": [list(places) for places in self.sets],
            "shapes": [list(shape) for shape in self.shapes],
            "scales": list(self.scales),
            "sigma": self.sigma,
        }
        return np.concatenate(parts), public


def check_once(steps: int, seed: int | None) -> None:
    """Refuse steps and seeds, which every mechanism states and no release of counts has."""
    if steps != 1 or seed is not None:
        raise UsageError("Marginals are released once and draw nothing public: leave out steps and seed.")
