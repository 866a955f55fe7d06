"""What two parties agree on before they sketch: directions, radii, prototypes, weights; it never sees a record.

A design turns a record x into coordinates v(x) in four blocks, each bounded by construction:

    features   G(x − c)/C, cut to the unit ball: principal directions of public data and a random frame of the rest
    shells     ‖x − c‖² shared between the two nearest of a few knots; the last knot holds everything further out
    cells      one for the nearest public prototype, zero for the others                 (with public data only)
    residuals  ‖x − nearest prototype‖² shared between knots, the last one the outliers    (with public data only)

The last three are non-negative with sum 1, so ‖v‖ ≤ 1 and ‖v − v′‖² ≤ ‖v‖² + ‖v′‖² ≤ 2; features obey ‖v‖ ≤ 1 and
‖v − v′‖ ≤ 2. Weighted by w and put side by side, one record moves the sum Σ v(x_i) by at most

    add-remove    √(w_f² + w_s² + w_c² + w_r²)
    replace-one   √(4 w_f² + 2 w_s² + 2 w_c² + 2 w_r²)

and both are attained in the limit. Sharing a squared radius linearly between knots keeps its mean exact.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.directions import check_own_seed, draw_directions

Array = NDArray[np.float64]
VERSION = 1
BLOCKS = ("features", "shells", "cells", "residuals")
KNOTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Knots of squared radii, in units of the median squared radius of public data, or of C²/4."""
WEIGHTS_PLAIN = {"features": 1.0, "shells": 1.5, "cells": 0.0, "residuals": 0.0}
WEIGHTS_PUBLIC = {"features": 0.9, "shells": 1.5, "cells": 0.9, "residuals": 1.1}
UNMATCHED = 0.3
"""Share of the spread that optimal matching of samples leaves, where no public data says: see docs/evidence/issue-7."""
MOST_CALIBRATION = 600


@dataclass(frozen=True, eq=False, repr=False)
class SketchDesign:
    """Public choices shared by all sketches that are to be compared; made by `plain` or `around`.

    `basis` (d, q) are principal directions of public data, `prototypes` (K, d), K = 0 without public data;
    `unmatched` holds (sample size, share of spread, share of residual) measured on public data: which part of
    2·E‖x − c‖² a best matching of two samples of one distribution leaves. `rank` is the effective number of
    directions records of one distribution spread in; 1 is the cautious answer.
    """

    dim: int
    radius: float
    centre: Array
    basis: Array
    prototypes: Array
    knots: Array
    weights: Mapping[str, float]
    directions: int
    seed: int = 0
    unmatched: tuple[tuple[float, float, float], ...] = ((1.0, UNMATCHED, UNMATCHED),)
    rank: float = 1.0
    matrix: Array = field(init=False)

    def __post_init__(self) -> None:
        check_own_seed(self.seed)
        if not (math.isfinite(self.radius) and self.radius > 0.0):
            raise UsageError(f"The radius of a sketch must be a finite number greater than 0, got {self.radius!r}.")
        for name in ("centre", "basis", "prototypes", "knots"):
            # read-only copies: the sensitivity rests on what is checked here
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if len(self.knots) < 2 or self.knots[0] != 0.0 or not (np.diff(self.knots) > 0.0).all():
            raise UsageError("The knots of a sketch must rise from 0.")
        object.__setattr__(self, "weights", MappingProxyType({name: float(self.weights[name]) for name in BLOCKS}))
        used = [self.weights[name] for name in (BLOCKS if len(self.prototypes) else BLOCKS[:2])]
        if not all(math.isfinite(w) and 0.01 <= w <= 100.0 for w in used):
            raise UsageError("The weights of a sketch must be numbers from 0.01 to 100.")
        q = self.basis.shape[1]
        if self.dim <= q + self.directions:
            matrix = np.eye(self.dim)  # few enough coordinates: all of them, exactly
        else:
            frame = draw_directions(self.dim, self.directions, "orthogonal", self.seed)
            rest = (frame - self.basis @ (self.basis.T @ frame)) * math.sqrt(self.dim / self.directions)
            matrix = np.concatenate([self.basis, rest], axis=1)
        object.__setattr__(self, "matrix", matrix / self.radius)

    @classmethod
    def plain(
        cls, dim: int, radius: float, *, centre: Any = None, seed: int = 0, directions: int = 128
    ) -> SketchDesign:
        """Without public data: `radius` is a public guess of what most ‖x − centre‖ stay below (centre 0 unless given).

        A wrong guess costs accuracy, never privacy.
        """
        middle = np.zeros(dim) if centre is None else _rows(np.atleast_2d(centre), dim)[0]
        none = np.zeros((0, dim))
        knots = np.array(KNOTS) * float(radius) ** 2 / 4.0
        return cls(dim, float(radius), middle, none.T, none, knots, WEIGHTS_PLAIN, directions, seed)

    @classmethod
    def box(cls, dim: int, low: float, high: float, *, seed: int = 0, directions: int = 128) -> SketchDesign:
        """Without public data, for columns that all range from `low` to `high`: the middle, and half the diagonal.

        No record inside the box is then cut, which a guessed radius cannot promise; records outside may be.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"The range of the columns must rise from a finite low to a finite high, got {low}, {high}."
            )
        middle = np.full(dim, (low + high) / 2.0)
        return cls.plain(dim, (high - low) / 2.0 * math.sqrt(dim), centre=middle, seed=seed, directions=directions)

    @classmethod
    def around(
        cls, public: Any, *, prototypes: int = 30, seed: int = 0, directions: int = 32, principal: int = 16
    ) -> SketchDesign:
        """Around *public* rows: their mean, radii, principal directions, and `prototypes` means of their clusters."""
        rows = _rows(public)
        count = min(prototypes, len(rows) // 4)
        if count < 2:
            raise DataError("Public data for a sketch needs at least 8 rows: give more, or none.")
        centre = _rounded(rows.mean(0))
        square = ((rows - centre) ** 2).sum(1)
        middle = float(np.median(square))
        if middle <= 0.0:
            raise DataError("The public rows are all the same: a sketch cannot be built around them.")
        means = _cluster(rows, count, seed)
        basis = _principal(rows - centre, min(principal, len(rows) - 1, rows.shape[1]))
        knots = np.array(KNOTS) * float(f"{middle:.6g}")
        radius = float(f"{1.5 * math.sqrt(middle):.6g}")
        shares, rank = _calibrate(rows, means, seed)
        return cls(rows.shape[1], radius, centre, basis, means, knots, WEIGHTS_PUBLIC, directions, seed, shares, rank)

    @property
    def widths(self) -> dict[str, int]:
        """How many coordinates each block has."""
        knots, cells = len(self.knots), len(self.prototypes)
        return dict(zip(BLOCKS, (self.matrix.shape[1], knots, cells, knots if cells else 0), strict=True))

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The most one record moves the weighted sum, in L2; the formula stands at the top of this module."""
        squares = {name: self.weights[name] ** 2 for name, width in self.widths.items() if width}
        if adjacency is Adjacency.ADD_REMOVE:
            return math.sqrt(sum(squares.values()))
        return math.sqrt(sum((4.0 if name == "features" else 2.0) * s for name, s in squares.items()))

    def coordinates(self, rows: Array) -> dict[str, Array]:
        """v(x) of each row, by block, un-weighted: private, for the mechanism and for tests.

        One row at a time: a product of whole matrices may round a row differently in other company, and a record that
        lies between two prototypes would then change its cell because somebody else joined.
        """
        # far beyond the last knot nothing changes but the direction, and no square overflows
        z = clip_rows(rows - self.centre, 1e3 * math.sqrt(self.knots[-1]))
        features, cells = np.empty((len(z), self.matrix.shape[1])), len(self.prototypes)
        nearest, residual = np.zeros(len(z), dtype=np.int64), np.zeros(len(z))
        apart = self.prototypes - self.centre
        row = np.empty(self.dim)
        for i in range(len(z)):
            row[:] = z[i]
            features[i] = row @ self.matrix
            if cells:
                gap = apart - row
                distance = (gap * gap).sum(1)
                nearest[i] = distance.argmin()
                residual[i] = distance[nearest[i]]
        out = {"features": clip_rows(features, 1.0), "shells": shared((z * z).sum(1), self.knots)}
        if cells:
            out["cells"] = np.eye(cells)[nearest]
            out["residuals"] = shared(residual, self.knots)
        return out

    def prototype_costs(self) -> Array:
        """‖p_i − p_j‖² between prototypes, (K, K)."""
        gap = self.prototypes[:, None] - self.prototypes[None]
        out: Array = (gap * gap).sum(-1)
        return out

    def exact_bytes(self) -> bytes:
        """Every number of the design as it is."""
        facts = [self.dim, self.radius, self.directions, self.seed, dict(self.weights), self.unmatched, self.rank]
        arrays = (self.centre, self.basis, self.prototypes, self.knots, self.matrix)
        return repr(facts).encode() + b"".join(str(a.shape).encode() + a.astype("<f8").tobytes() for a in arrays)

    def digest(self) -> str:
        """Names everything two sketches must share to be comparable; floats to six digits, alike on all machines."""
        facts = {
            "version": VERSION,
            "dim": self.dim,
            "radius": f"{self.radius:.6g}",
            "knots": [f"{k:.6g}" for k in self.knots],
            "weights": {name: f"{w:.6g}" for name, w in sorted(self.weights.items())},
            "directions": self.directions,
            "seed": self.seed,
        }
        sha = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for array in (self.centre, self.prototypes, self.basis):
            sha.update(str(array.shape).encode() + np.round(array / self.radius * 1e4).astype("<i8").tobytes())
        return sha.hexdigest()


def shared(square: Array, knots: Array) -> Array:
    """Each value as shares of the two knots around it, Σ share = 1 and Σ share·knot = value up to the last knot."""
    value = np.minimum(square, knots[-1])
    left = np.clip(np.searchsorted(knots, value, side="right") - 1, 0, len(knots) - 2)
    share = (value - knots[left]) / (knots[left + 1] - knots[left])
    out = np.zeros((len(value), len(knots)))
    each = np.arange(len(value))
    out[each, left] = 1.0 - share
    out[each, left + 1] = share
    return out


def _rows(values: Any, dim: int | None = None) -> Array:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all() or (dim is not None and rows.shape[1] != dim):
        raise DataError("Public rows must be finite numbers of shape (rows, dimension).")
    return rows


def _rounded(array: Array) -> Array:
    """To single precision, so that the last digits of one machine do not make another design."""
    return np.asarray(array.astype(np.float32).astype(np.float64))


def _cluster(rows: Array, count: int, seed: int, rounds: int = 25) -> Array:
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
        means = _rounded(np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], means))
    return means


def _principal(centred: Array, count: int) -> Array:
    """The first `count` principal directions, each with its largest entry positive."""
    _, vectors = np.linalg.eigh(centred.T @ centred)
    top = vectors[:, ::-1][:, :count]
    return np.asarray(top * np.sign(top[np.abs(top).argmax(0), np.arange(count)]))


def _calibrate(rows: Array, means: Array, seed: int) -> tuple[tuple[tuple[float, float, float], ...], float]:
    """Shares of spread and of residual that matching two public samples leaves, at two sizes; the effective rank."""
    from scipy.optimize import linear_sum_assignment

    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 + (1 << 20),)))
    spread = float(((rows - rows.mean(0)) ** 2).sum(1).mean())
    residual = float(np.mean([((means - row) ** 2).sum(1).min() for row in rows]))
    shares = []
    for size in sorted({max(2, min(len(rows) // 2, MOST_CALIBRATION) // k) for k in (4, 1)}):
        left = []
        for _ in range(4):
            pick = generator.permutation(len(rows))[: 2 * size]
            a, b = rows[pick[:size]], rows[pick[size:]]
            cost = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2.0 * a @ b.T
            left.append(float(cost[linear_sum_assignment(cost)].mean()))
        shares.append((float(size), float(np.mean(left)) / (2 * spread), float(np.mean(left)) / (2 * residual)))
    centred = rows - rows.mean(0)
    covariance = centred.T @ centred
    rank = float(np.trace(covariance) ** 2 / np.maximum((covariance**2).sum(), 1e-300))
    return tuple(shares), max(1.0, rank / 3.0)
