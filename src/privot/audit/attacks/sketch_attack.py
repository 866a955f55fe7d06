"""Attacks private sketches: a record is added far outside, or moved so that every block of a sketch changes most.

The default design with public data has two prototypes, ±2·e, knots of squared radii and one principal direction e. A
record far out along +e has a feature of length 1 and counts in the last shell, the second cell and the last residual; a
record at −2·e has the opposite feature, and counts in an inner shell, the first cell and the first residual. All four
bounds of a sketch are then reached at once, except for the margin for rounding. Without public data there are features
and shells only. Any other design can be attacked in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.audit.findings import Claim
from privot.audit.simulation.gaussian_trials import core_scores
from privot.audit.simulation.neighbours import Neighbour, releases
from privot.audit.simulation.noiseless import NoNoise
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.mechanisms.mechanism import Facts
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.mechanisms.sketching.sketch_design import KNOTS, WEIGHTS_PUBLIC
from privot.noise import NoiseSource, SystemNoise

Array = NDArray[np.float64]

_INNER = 2.0
"""Distance from the centre of the record that is replaced: beyond the radius, and its square is a knot."""
_FAR = 1e6


def worst_design(dim: int, classes: int = 0, public: bool = True) -> SketchDesign:
    """A design whose bounds two records reach in every block."""
    if not public:
        made = SketchDesign.plain(dim, _INNER, directions=dim)  # its knots are those of C²/4 = 1
    else:
        basis = np.eye(dim, 1)
        prototypes = np.vstack([-_INNER * basis.T, _INNER * basis.T])
        made = SketchDesign(dim, 1.5, np.zeros(dim), basis, prototypes, np.array(KNOTS), WEIGHTS_PUBLIC, 4)
    return made.labelled(classes)


@dataclass(frozen=True)
class SketchAttack:
    """An attack on `PrivateSketch` with noise of deviation `sigma`, without labels (`classes` 0) or with labels.

    With labels, the replaced record keeps its class, which moves features most, unless `relabelled`. `own_design` is
    attacked instead of the worst case if it is given.
    """

    sigma: float
    delta: float
    adjacency: Adjacency
    classes: int = 0
    relabelled: bool = False
    public: bool = True
    dim: int = 8
    records: int = 3
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"
    make: Callable[..., PrivateSketch] = field(default=PrivateSketch, repr=False)
    own_design: SketchDesign | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        labels = f", {self.classes} classes" if self.classes else ""
        labels += ", another class" if self.relabelled else ""
        around = "around prototypes" if self.public else "without public data"
        return f"sketch {around}, σ {self.sigma:g}{labels}, {self.adjacency}"

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        what = "added far outside" if self.adjacency is Adjacency.ADD_REMOVE else "moved from −2·e to far outside"
        return f"one record {what}; likelihood ratio along the change of all blocks, and the counts of each by itself"

    @cached_property
    def design(self) -> SketchDesign:
        """The public design: `own_design`, or the one whose bounds the canary reaches."""
        return worst_design(self.dim, self.classes, self.public) if self.own_design is None else self.own_design

    @cached_property
    def mechanism(self) -> PrivateSketch:
        """The mechanism under attack."""
        return self.make(self.design, self.sigma)

    @cached_property
    def claim(self) -> Claim:
        """What the mechanism's own event costs."""
        count = self.records if self.adjacency is Adjacency.REPLACE_ONE else None
        facts = Facts(self.dim, count, 1.0, self.adjacency, self.classes or None)
        shift = self.design.sensitivity(self.adjacency) / self.sigma
        return Claim.of(account(self.mechanism.event(facts), self.delta), shift)

    def neighbour(self, present: bool) -> Neighbour:
        """D or D': the first record is the canary, the others lie in the centre."""
        centre = np.asarray(self.design.centre, dtype=np.float64)
        x, y = np.tile(centre, (self.records, 1)), np.zeros(self.records, dtype=np.int64)
        x[0, 0] += _FAR * self._scale if present else -self._inner
        y[0] = int(self.classes > 1 and (self.adjacency is Adjacency.ADD_REMOVE or (self.relabelled and present)))
        if self.adjacency is Adjacency.ADD_REMOVE and not present:
            x, y = x[1:], y[1:]
        return Neighbour(x, y if self.classes else None, self.classes or None)

    @property
    def _scale(self) -> float:
        return 1.0 if self.own_design is None else self.own_design.radius

    @property
    def _inner(self) -> float:
        """Distance from the centre of the record that is replaced: on the first knot beyond the radius, if any."""
        if self.own_design is None:
            return _INNER
        knots = [k for k in self.own_design.knots[:-1] if k >= self.own_design.radius**2]
        return math.sqrt(min(knots, default=self.own_design.radius**2))

    def _values(self, present: bool, steps: int, noise: NoiseSource) -> tuple[Array, Array]:
        """(steps, all numbers of a sketch) in units in which each has noise σ; (steps, sums of its histograms)."""
        found = releases(
            self.neighbour(present), self.mechanism, steps, clip=1.0, adjacency=self.adjacency, noise=noise
        )
        rows, counts = [], []
        for release in found:
            value: Any = release.value
            weights = release.public["weights"]
            rows.append(np.concatenate([weights[name] * value[name] for name in sorted(value)]))
            by_class = value["shells"].reshape(max(1, self.classes), -1).sum(1)
            counts.append([*by_class, *(value[name].sum() for name in ("cells", "residuals") if name in value)])
        return np.array(rows), np.array(counts)

    @cached_property
    def change(self) -> tuple[Array, float]:
        """(change of the sketch without noise when one record changes, the σ that the code asks for)."""
        quiet = NoNoise(self.noise)
        values = [self._values(present, 1, quiet)[0][0] for present in (False, True)]
        return values[1] - values[0], max(quiet.sigmas)

    def real(self, present: bool, trials: int) -> Array:
        """Rows of (likelihood ratio, records by class, records by cell and by residual)."""
        seen, counts = self._values(present, trials, self.noise)
        direction, _ = self.change
        return np.column_stack([seen @ direction, counts])

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The change that the code makes, along its own direction, and the noise that it asks for."""
        direction, sigma = self.change
        gap = float(np.linalg.norm(direction))
        return core_scores(present, trials, gap=gap, sigma=sigma, noise=self.noise, device=self.device)
