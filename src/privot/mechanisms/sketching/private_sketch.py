"""Releases one noisy sum of bounded coordinates of all records, a private sketch; it shows nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Gaussian
from privot.common import arguments
from privot.common.block_sums import Totals
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.mechanism import Facts, Needs, Once, Records
from privot.mechanisms.sketching.sketch_design import BLOCKS, SketchDesign
from privot.noise import NoiseSource
from privot.noise.adding import add_noise, check_ratio, grid_of

BLOCK_ROWS, BLOCK_NUMBERS = 4096, 1 << 24
UNIT = 2.0**-32
"""Coordinates are summed as whole numbers of this: exact for up to 2³¹ records, within the margin for up to 10⁹."""


@dataclass(frozen=True)
class PrivateSketch(Once):
    """A private sketch: the noisy sum Σ_i w∘v(x_i) + N(0, σ²) of bounded coordinates of all records, released once.

    Anybody can compare sketches of one design, at any later time (`privot.compare_sketches`); `privot.sketch`
    releases one and signs it on request.

    Parameters
    ----------
    design
        A `SketchDesign`: the public coordinates v and weights w, which all parties share.
    sigma
        σ, the standard deviation of the noise of the whole vector; that of block b is σ/w_b.

    Returns
    -------
    Release
        Of the vault: arrays by block of the design, each divided by its weight again.

    Raises
    ------
    UsageError
        If the design does not fit the records' columns or classes, or rounding could outgrow its margin: before
        anything is paid.

    Notes
    -----
    Formal guarantees, for add-remove and for replace-one neighbours:
      * the sum moves by at most `design.sensitivity(adjacency)` in L2 for all records: nothing is assumed about
        them, not even the vault's clip;
      * directions, prototypes and radii are public and fixed beforehand, and the bound holds for all of them, so
        a seed may be used again, by any party;
      * the number of records is shown under replace-one, where all neighbours share it, and never under add-remove;
      * in floating point, coordinates are added as whole numbers, so the sum is exact in any order; each block
        stays a margin below its bound, which covers the rest of the rounding, or the release is refused before it is
        paid.

    Examples
    --------
    >>> from privot import Vault
    >>> design = SketchDesign.plain(2, radius=1.0)
    >>> vault = Vault(np.eye(2), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    >>> sigma = 4.0 * design.sensitivity(Adjacency.ADD_REMOVE)
    >>> release = vault.release(PrivateSketch(design, sigma), purpose="a sketch for a partner")
    >>> release.guarantee.epsilon() < 1.0
    True
    """

    stable_name: ClassVar[str] = "privot.mechanisms.sketching.private_sketch.PrivateSketch"

    design: SketchDesign
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", arguments.sigma(self.sigma))

    @property
    def needs(self) -> Needs:
        """Records in as many dimensions as the design, and labels if it keeps classes apart."""
        return Needs(dim=self.design.dim, labels=self.design.classes > 0, sums_only=True, shareable=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the Gaussian mechanism."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """The design to the last bit, and σ: together they identify this sketch."""
        return self.design.exact_bytes() + repr(self.sigma).encode()

    def event(self, facts: Facts) -> Event:
        """The Gaussian mechanism at the design's sensitivity."""
        if self.design.classes and self.design.classes != facts.classes:
            raise UsageError(f"The sketch is for {self.design.classes} classes, the vault has {facts.classes}.")
        if facts.records is not None:
            # before anything is paid for: noise this small could not be added safely
            check_ratio(facts.records * max(self.design.weights.values()), self.sigma)
        # every block stays a share of MARGIN below its bound, which leaves room for what is rounded: coordinates
        # to whole numbers of UNIT, sums to 53 bits, and all of them to the grid that noise is added on
        bound = self.design.sensitivity(Adjacency.ADD_REMOVE)
        root = math.sqrt(sum(self.design.widths.values()))
        rounding = (grid_of(self.sigma) + 2.0 * UNIT * max(self.design.weights.values())) * root
        # the norm of each block's sum is at most the number of records, where that is public
        rounding += (facts.records or 0) * 2.0**-51 * bound
        if rounding > MARGIN * bound / 2.0:
            raise UsageError(
                f"σ = {self.sigma:g}, or the number of records, is so large that rounding could outgrow the margin: "
                "use less noise, or fewer records."
            )
        return Gaussian(self.sigma, self.design.sensitivity(facts.adjacency), facts.adjacency)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[np.float64]], Mapping[str, Any]]:
        """Noisy sums by block, each divided by its weight again; noise of block b has deviation σ/w_b."""
        facts, design = records.facts, self.design
        if not isinstance(event, Gaussian) or event.sensitivity < design.sensitivity(facts.adjacency):
            raise UsageError("A sketch runs on the event it made.")
        used = [(name, width, design.weights[name]) for name, width in design.widths.items() if width]
        (whole,) = records.sums(SketchSums(design))
        total = whole * UNIT * np.repeat([w for _, _, w in used], [width for _, width, _ in used])
        noisy = add_noise(total, noise, event.sigma)
        cuts = np.cumsum([width for _, width, _ in used])[:-1]
        value = {name: piece / w for (name, _, w), piece in zip(used, np.split(noisy, cuts), strict=True)}
        public = {**design_facts(design), "sigma": event.sigma, "records": facts.records}
        return value, public


@dataclass(frozen=True)
class SketchSums:
    """Σ of the coordinates of `design` in whole numbers of UNIT, all blocks one after another."""

    design: SketchDesign

    @property
    def labels(self) -> bool:
        """Whether the design keeps classes apart."""
        return self.design.classes > 0

    def zeros(self) -> Totals:
        """One long array."""
        return (np.zeros(sum(self.design.widths.values()), dtype=np.int64),)

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Add the coordinates of one block of rows."""
        used = [name for name, width in self.design.widths.items() if width]
        block = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // len(totals[0])))
        for start in range(0, len(rows), block):
            some = slice(start, start + block)
            part = self.design.coordinates(rows[some], None if labels is None else labels[some])
            # whole numbers: their sum does not depend on the order or number of the others
            totals[0][:] += np.concatenate([_whole(name, part[name]).sum(0) for name in used])


def design_facts(design: SketchDesign) -> dict[str, Any]:
    """What a sketch states about its design."""
    return {
        "mechanism": "sketch",
        "design": design.digest(),
        "dim": design.dim,
        "radius": design.radius,
        "knots": design.knots.tolist(),
        "weights": {name: design.weights[name] for name, width in design.widths.items() if width},
        "prototype_costs": design.prototype_costs().tolist(),
        "unmatched": [list(row) for row in design.unmatched],
        "rank": design.rank,
        "seed": design.seed,
        "classes": design.classes,
        # written only where it holds: readers of an earlier version still read all other sketches
        **({"bounded": True} if design.bounded else {}),
    }


def _whole(name: str, block: NDArray[np.float64]) -> NDArray[np.int64]:
    """Coordinates in whole numbers of UNIT; histograms a share of MARGIN below 1, as features are already."""
    scale = (1.0 if name == "features" else 1.0 - MARGIN) / UNIT
    return np.rint(block * scale).astype(np.int64)


def noise_deviation(public: Mapping[str, Any], name: str) -> float:
    """The deviation of the noise in each coordinate of block `name`, from the public facts."""
    return float(public["sigma"]) / float(public["weights"][name])


def expected_sensitivity(weights: Mapping[str, float], replace_one: bool) -> float:
    """The sensitivity that weights by block imply, for a reader of another party's sketch."""
    factors = {name: (4.0 if name == "features" else 2.0) if replace_one else 1.0 for name in BLOCKS}
    return math.sqrt(sum(factors[name] * w * w for name, w in weights.items()))
