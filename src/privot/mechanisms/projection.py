"""Releases every record's noisy projections on public random directions (DP-SWD); it shows nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Bound, Event, Frame, Projection, Sampled
from privot.accounting.sampling import FixedSize
from privot.common import arguments
from privot.common.devices import usable_cores
from privot.common.image_axes import Axes, image_axes
from privot.errors import UsageError, brief
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.directions import check_own_seed, drawn, fresh_seed
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.noise import NoiseSource
from privot.noise.adding import add_noise, check_ratio

_CACHED = 2**15
"""Numbers of directions that a core works with at a time: 256 KiB."""
_FINITE = 1e100
"""A bound on norms, above that of any meaningful record, so that sums of pixels cannot overflow."""


@dataclass(frozen=True)
class RandomProjection:
    """DP-SWD: every record's noisy projections on public random directions, (U, XU + V).

    X are the records, clipped by row to the vault's public clip C; U are `slices` public directions; V is i.i.d.
    N(0, `sigma`²).

    Parameters
    ----------
    slices
        How many directions U has.
    sigma
        σ, the standard deviation of the noise.
    frame
        "orthogonal": Haar-random orthonormal frames, more informative; "independent": independent unit vectors.
    batch
        How many records each step shows, drawn without replacement and in random order; without it, all.
    steps
        How many releases a vault streams for one charge; each draws its sample, directions and noise anew.
    seed
        Names the public directions, for two parties that want the same ones. A vault takes a seed once, and it must
        have been chosen without looking at the records; left out, every step draws its own.
    label_weight
        w: what is projected is [x; w·one-hot(label)], clipped to C as a whole. The labels are part of what is
        accounted.
    outer
        What is projected is one-hot(label) ⊗ x: x in the columns of its class and zeros elsewhere.
    bound
        "exact" counts the law of the directions exactly; "bernstein" and "clt" charge by the published bounds on H.
        What runs is the same.
    failure
        The probability with which such a bound fails at every draw of U.
    shape, pool
        With `pool` p > 1 and the public `shape` of an image, x is the image made coarser, squares of p × p pixels
        summed and divided by p, and clipped to C after that: directions in fewer dimensions say more per column.

    Returns
    -------
    Release
        Of the vault: a value of shape (records, slices), or (batch, slices). `directions_of(release.public)` draws U
        again.

    Raises
    ------
    UsageError
        If a parameter is out of range, or does not fit the public facts of the records, before anything is paid.
    NoTheoremError
        Under add-remove, since rows can be counted.

    Notes
    -----
    Formal guarantees, replace-one neighbours:
      * two values of one row differ by at most 2C, and only that row of XU depends on the record; making an image
        coarser is a public function of one record, and what it gives is clipped like any other row;
      * the law of U is the one that is counted: Haar frames (`orthogonal`) or independent unit vectors
        (`independent`), independent of X and of each other step's;
      * the sampler that runs is the object that is counted, and so is σ;
      * in floating point, rows are clipped a margin below C, and noise is added on a grid that both neighbours share;
        noise too small for that is refused before anything is paid.

    References
    ----------
    Rakotomamonjy & Ralaivola 2021, "Differentially private sliced Wasserstein distance", with the law of the directions
    counted exactly.

    Examples
    --------
    >>> from privot import Vault
    >>> vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> release = vault.release(RandomProjection(slices=4, sigma=1.0, batch=2), purpose="a first look")
    >>> release.value.shape, release.guarantee.epsilon() < 10.0
    ((2, 4), True)
    """

    stable_name: ClassVar[str] = "privot.mechanisms.projection.RandomProjection"

    slices: int
    sigma: float
    frame: Frame = "orthogonal"
    batch: int | None = None
    steps: int = 1
    seed: int | None = None
    label_weight: float | None = None
    outer: bool = False
    bound: Bound = "exact"
    failure: float | None = None
    shape: tuple[int, ...] | None = None
    pool: int = 1

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "slices", arguments.whole("The number of slices", self.slices, 1))
        set_(self, "sigma", arguments.sigma(self.sigma))
        set_(self, "steps", arguments.whole("The number of steps", self.steps, 1))
        arguments.check_frame(self.frame)
        if self.bound in ("published", "published-clt"):
            raise UsageError(f"Nothing is released on the bound {self.bound}: no theorem allows it; plan with it only.")
        if self.batch is not None:
            set_(self, "batch", arguments.whole("The batch", self.batch, 1))
        if self.seed is not None:
            check_own_seed(self.seed)
        weight = self.label_weight
        if weight is not None and (isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0.0):
            raise UsageError(f"The weight of the labels must be a number greater than 0, got {weight!r}.")
        if weight is not None and self.outer:
            raise UsageError("Labels are appended with a weight or multiplied in (outer), not both.")
        set_(self, "pool", arguments.whole("The side of the squares that are pooled", self.pool, 1))
        if self.shape is not None:
            if not isinstance(self.shape, list | tuple):
                raise UsageError(f"The shape of an image is a few whole numbers, got {brief(self.shape)}.")
            set_(self, "shape", tuple(arguments.whole("A side of the image", s, 1) for s in self.shape))
            image_axes(self.shape).coarser(self.pool)
        elif self.pool > 1:
            raise UsageError("Pixels are pooled in images: state their shape.")

    @property
    def needs(self) -> Needs:
        """At least as many records as one batch shows."""
        return Needs(least_records=self.batch or 1, labels=self.label_weight is not None or self.outer)

    @property
    def standing(self) -> Standing:
        """PROVEN: the event's own theorem is all it rests on."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice; refuses directions that are drawn anew each time."""
        if self.seed is None:
            raise UsageError("Directions without a seed are drawn anew each time: use release, or give a seed.")
        return repr([(field.name, getattr(self, field.name)) for field in fields(self)]).encode()

    def projected(self, facts: Facts) -> int:
        """Columns of what is projected: the record's, with its label's where labels take part."""
        classes, dim = facts.classes or 1, facts.dim
        if self._axes is not None:
            if math.prod(self._axes[:3]) != dim:
                raise UsageError(f"Records of {dim} columns are not images of the shape {self.shape}.")
            dim = math.prod(self._axes.coarser(self.pool)[:3])
        return dim * classes if self.outer else dim + (0 if self.label_weight is None else classes)

    @property
    def _axes(self) -> Axes | None:
        return None if self.pool == 1 or self.shape is None else image_axes(self.shape)

    def event(self, facts: Facts) -> Event:
        """What one step costs: a projection with Δ = 2C, of a sample if there is a batch."""
        projection = Projection(
            dim=self.projected(facts),
            slices=self.slices,
            sigma=self.sigma,
            sensitivity=facts.adjacency.sensitivity(facts.clip),
            adjacency=facts.adjacency,
            frame=self.frame,
            bound=self.bound,
            failure=self.failure,
        )
        # before anything is paid for: noise this small could not be added safely
        check_ratio(facts.clip, self.sigma)
        if self.batch is None:
            return projection
        if facts.records is None:
            raise UsageError("A batch is drawn from a public number of records: use replace-one neighbours.")
        return Sampled(projection, FixedSize(self.batch, facts.records))

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
        """XU + V of shape (rows, slices), and what it takes to draw U again."""
        sampling = event.sampling if isinstance(event, Sampled) else None
        projection = event.event if isinstance(event, Sampled) else event
        if not isinstance(projection, Projection) or projection.adjacency is not Adjacency.REPLACE_ONE:
            raise UsageError("A random projection runs on the event it made.")
        indices = None if sampling is None else sampling.draw(noise, records.count)
        seed = fresh_seed() if self.seed is None else self.seed
        directions = drawn(projection.dim, projection.slices, projection.frame, seed, step)
        value = add_noise(self._along(records, indices, directions), noise, projection.sigma)
        public = {
            "mechanism": "projection",
            "dim": projection.dim,
            "slices": projection.slices,
            "frame": projection.frame,
            "sigma": projection.sigma,
            "clip": records.facts.clip,
            "batch": self.batch,
            "records": records.facts.records,
            "seed": seed,
            "step": step,
            "label_weight": self.label_weight,
            "outer": self.outer,
            "shape": None if self.shape is None else list(self.shape),
            "pool": self.pool,
            "bound": projection.bound,
        }
        return value, public

    def _along(
        self, records: Records, indices: NDArray[np.int64] | None, directions: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """XU, of clipped rows; each row of it depends on its own record alone, to the last bit."""
        if self.outer:
            return _by_class(self._clipped(records, indices), records.labels(indices), directions)
        if self.label_weight is None:
            return self._clipped(records, indices) @ directions
        hot = np.eye(records.facts.classes or 0)[records.labels(indices)]
        whole = np.concatenate([self._rows(records, indices), self.label_weight * hot], axis=1)
        return clip_rows(whole, records.facts.clip) @ directions

    def _rows(self, records: Records, indices: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """What is projected of the records themselves, unbounded."""
        if self._axes is None:
            return records.rows(indices)
        return self._axes.pooled(clip_rows(records.rows(indices), _FINITE), self.pool)

    def _clipped(self, records: Records, indices: NDArray[np.int64] | None) -> NDArray[np.float64]:
        if self._axes is None:
            return records.clipped(indices)
        return clip_rows(self._rows(records, indices), records.facts.clip)


def _by_class(
    rows: NDArray[np.float64], labels: NDArray[np.int64], directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(one-hot ⊗ x)U: a row meets only the directions' rows of its class."""
    blocks = directions.reshape(-1, rows.shape[1], directions.shape[1])
    own = [np.flatnonzero(labels == label) for label in range(len(blocks))]
    # a label that is no class meets nothing
    out = np.zeros((len(rows), directions.shape[1]))

    def fill(start: int) -> None:
        for where, block in zip(own, blocks, strict=True):
            some = np.ascontiguousarray(block[:, start : start + width].T)
            # a product for every row, which stays where it is: one of all rows of a class rounds otherwise where there
            # is one row than where there are two, and some libraries round by where in memory a row begins
            for i in where:
                out[i, start : start + width] = some @ rows[i]

    # as many directions at a time as stay in a core's cache while every row passes by
    width = max(1, _CACHED // rows.shape[1])
    starts = range(0, directions.shape[1], width)
    with ThreadPoolExecutor(min(len(starts), usable_cores())) as pool:
        list(pool.map(fill, starts))
    return out
