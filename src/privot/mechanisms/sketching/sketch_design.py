"""The public design that parties share before they sketch: directions, radii, prototypes, weights; it sees no record.

A design turns a record x into coordinates v(x) in four blocks, each bounded by construction:

    features   G(x − c)/C, cut to the unit ball: principal directions of public data and a random frame of the rest
    shells     ‖x − c‖² shared between the two nearest of a few knots; the last knot holds everything further out
    cells      one for the nearest public prototype, zero for the others                 (with public data only)
    residuals  ‖x − nearest prototype‖² shared between knots, the last one the outliers    (with public data only)

The last three are non-negative with sum 1, so ‖v‖ ≤ 1 and ‖v − v′‖² ≤ ‖v‖² + ‖v′‖² ≤ 2; features obey ‖v‖ ≤ 1 and
‖v − v′‖ ≤ 2. Weighted by w and put side by side, one record moves the sum Σ v(x_i) by at most

    add-remove    √(w_f² + w_s² + w_c² + w_r²)
    replace-one   √(4 w_f² + 2 w_s² + 2 w_c² + 2 w_r²)

and both are attained in the limit. With labels, features and shells are kept apart by class: a record fills the columns
of its own class and leaves the others zero, which changes none of these bounds. Sharing a squared radius linearly
between knots keeps its mean exact.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import is_number
from privot.common.declared import declared
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.directions import check_own_seed, draw_directions
from privot.mechanisms.sketching.sketch_public import calibrate, cluster, rounded
from privot.mechanisms.sketching.sketch_public import principal as principal_directions

Array = NDArray[np.float64]
VERSION = 1
BLOCKS = ("features", "shells", "cells", "residuals")
KNOTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Knots of squared radii, in units of the median squared radius of public data, or of C²/4."""
WEIGHTS_PLAIN = {"features": 1.0, "shells": 1.5, "cells": 0.0, "residuals": 0.0}
WEIGHTS_PUBLIC = {"features": 0.9, "shells": 1.5, "cells": 0.9, "residuals": 1.1}
UNMATCHED = 0.3
"""Share of the spread that optimal matching of samples leaves, without public data; from
`lab/docs/notebook/federation.md`."""
WEIGHTS = (0.01, 100.0)
"""Bounds on the weight of every block in use."""
SHARES = (1e-6, 1e6)
"""Bounds on the share of a spread or residual that matching leaves."""
MAX_CLASSES = 1000
LARGEST = 1e100
"""Largest number in a design and in a product with a record: far from where floats overflow."""
RADII = (1e-12, 1e30)
"""Range of radii whose fourth powers are far from the limits of floats."""
PROPORTION = (1e-6, 1e6)
"""Bounds on the ratio of the root of the last knot to the radius."""
FURTHEST = 1e12
"""Largest distance from 0, in radii: further out, floats cannot distinguish records within that radius."""


@declared(
    dim="whole number", radius="number", centre="array", basis="array", prototypes="array", knots="array",
    weights="mapping", directions="whole number", unmatched="list", rank="number",
)  # fmt: skip
@dataclass(frozen=True, eq=False, repr=False)
class SketchDesign:
    """Public choices shared by all sketches that are to be compared; made by `plain` or `around`.

    `basis` (d, q) are principal directions of public data, `prototypes` (K, d), K = 0 without public data;
    `unmatched` holds (sample size, share of spread, share of residual) measured on public data: the part of
    2·E‖x − c‖² that a best matching of two samples of one distribution leaves. `rank` is the effective number of
    directions records of one distribution spread in; 1 is the cautious answer. `classes` is 0 without labels. `bounded`
    says that all records are stated to lie within `radius` of the centre, as in a box; it changes no sketch, only the
    range of publicly possible values.
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
    classes: int = 0
    bounded: bool = False
    matrix: Array = field(init=False)

    def __post_init__(self) -> None:
        check_own_seed(self.seed)
        _check_radius(self.radius)
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or not 0 <= self.classes <= MAX_CLASSES:
            raise UsageError(f"The number of classes of a sketch must be a whole number from 0 to {MAX_CLASSES}.")
        for name, axes in (("centre", 1), ("basis", 2), ("prototypes", 2), ("knots", 1)):
            try:
                # read-only copies: the sensitivity rests on what is checked here
                array = np.array(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError):
                raise UsageError(f"The {name} of a sketch must hold numbers.") from None
            array.setflags(write=False)
            if array.ndim != axes or not (np.abs(array) <= LARGEST).all():
                raise UsageError(
                    f"The {name} of a sketch must hold finite numbers of at most {LARGEST:g}, along {axes} axes."
                )
            object.__setattr__(self, name, array)
        if (len(self.centre), len(self.basis), self.prototypes.shape[1]) != (self.dim,) * 3:
            raise UsageError(f"Centre, basis and prototypes of this sketch must be of {self.dim} columns.")
        furthest = max(float(np.abs(array).max(initial=0.0)) for array in (self.centre, self.prototypes))
        if furthest > FURTHEST * self.radius:
            raise UsageError(
                "The middle or a prototype of a sketch lies too far from 0 for its radius: shift the records."
            )
        if len(self.knots) < 2 or self.knots[0] != 0.0 or not (np.diff(self.knots) > 0.0).all():
            raise UsageError("The knots of a sketch must rise from 0.")
        if not PROPORTION[0] <= math.sqrt(self.knots[-1]) / self.radius <= PROPORTION[1]:
            raise UsageError("The radius of a sketch is out of proportion to its last knot.")
        if not set(BLOCKS) <= set(self.weights) or not all(is_number(w) for w in self.weights.values()):
            raise UsageError(f"The weights of a sketch must be numbers for {', '.join(BLOCKS)}.")
        object.__setattr__(self, "weights", MappingProxyType({name: float(self.weights[name]) for name in BLOCKS}))
        used = [self.weights[name] for name in (BLOCKS if len(self.prototypes) else BLOCKS[:2])]
        if not all(WEIGHTS[0] <= w <= WEIGHTS[1] for w in used):
            raise UsageError("The weights of a sketch must be numbers from 0.01 to 100.")
        rows = [row for row in self.unmatched if isinstance(row, tuple | list) and len(row) == 3]
        if len(rows) != len(self.unmatched) or not all(is_number(number) for row in rows for number in row):
            raise UsageError("The calibration of a sketch must be rows of three numbers.")
        sizes = [row[0] for row in self.unmatched]
        positive = all(0.0 < number <= LARGEST for row in self.unmatched for number in (*row, self.rank))
        if not sizes or not positive or sizes != sorted(set(sizes)):
            raise UsageError("The calibration of a sketch must be numbers greater than 0, its sample sizes rising.")
        q = self.basis.shape[1]
        if self.dim <= q + self.directions:
            matrix = np.eye(self.dim)  # few enough coordinates: all of them, exactly
        else:
            frame = draw_directions(self.dim, self.directions, "orthogonal", self.seed)
            rest = (frame - self.basis @ (self.basis.T @ frame)) * math.sqrt(self.dim / self.directions)
            matrix = np.concatenate([self.basis, rest], axis=1)
        with np.errstate(over="ignore"):
            matrix = matrix / self.radius
        # written so that an infinity or NaN is refused: it has no bound
        if not float(np.abs(matrix).max(initial=0.0)) * self.reach * self.dim <= LARGEST:
            raise UsageError(f"A radius of {self.radius:g} is out of proportion to the knots and directions.")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    def __getstate__(self) -> dict[str, Any]:
        """What other processes are sent: the very numbers, the matrix too, which another machine may draw otherwise."""
        return {**vars(self), "weights": dict(self.weights)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "weights": MappingProxyType(state["weights"])}.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def reach(self) -> float:
        """Distance from the centre beyond which only a record's direction counts, so that no square overflows."""
        return 1e3 * math.sqrt(float(self.knots[-1]))

    @classmethod
    @declared(dim="whole number", radius="number", centre="?array", directions="whole number")
    def plain(
        cls, dim: int, radius: float, *, centre: Any = None, seed: int = 0, directions: int = 128
    ) -> SketchDesign:
        """Without public data: `radius` is a public guess of what most ‖x − centre‖ stay below (centre 0 unless given).

        A wrong guess costs accuracy, never privacy.
        """
        middle = np.zeros(dim) if centre is None else _rows(np.atleast_2d(centre), dim)[0]
        none = np.zeros((0, dim))
        _check_radius(radius)
        knots = np.array(KNOTS) * float(radius) ** 2 / 4.0
        return cls(dim, float(radius), middle, none.T, none, knots, WEIGHTS_PLAIN, directions, seed)

    @classmethod
    @declared(dim="whole number", low="number", high="number", directions="whole number")
    def box(cls, dim: int, low: float, high: float, *, seed: int = 0, directions: int = 128) -> SketchDesign:
        """Without public data, for columns that all range from `low` to `high`: the middle, and half the diagonal.

        No record inside the box is then cut, which a guessed radius cannot promise; records outside may be.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"The range of the columns must rise from a finite low to a finite high, got {low}, {high}."
            )
        # halved first: the sum of two floats may be none
        middle = np.full(dim, low / 2.0 + high / 2.0)
        made = cls.plain(
            dim, (high / 2.0 - low / 2.0) * math.sqrt(dim), centre=middle, seed=seed, directions=directions
        )
        return replace(made, bounded=True)

    @classmethod
    @declared(public="array", prototypes="whole number", directions="whole number", principal="whole number")
    def around(
        cls, public: Any, *, prototypes: int = 30, seed: int = 0, directions: int = 32, principal: int = 16
    ) -> SketchDesign:
        """Around *public* rows: their mean, radii, principal directions, and `prototypes` means of their clusters."""
        rows = _rows(public)
        if np.abs(rows).max() > RADII[1]:
            raise DataError(f"The public rows must hold numbers of at most {RADII[1]:g}: scale them, and the records.")
        count = min(prototypes, len(rows) // 4)
        if count < 2:
            raise DataError("Public data for a sketch needs at least 8 rows: give more, or none.")
        centre = rounded(rows.mean(0))
        square = ((rows - centre) ** 2).sum(1)
        middle = float(np.median(square))
        if middle <= 0.0:
            raise DataError("The public rows are all the same: a sketch cannot be built around them.")
        means = cluster(rows, count, seed)
        basis = principal_directions(rows - centre, min(principal, len(rows) - 1, rows.shape[1]))
        knots = np.array(KNOTS) * float(f"{middle:.6g}")
        radius = float(f"{1.5 * math.sqrt(middle):.6g}")
        shares, rank = calibrate(rows, means, seed)
        # where rows repeat each other, or differ only in their last digits, these are made of rounding alone
        if not all(SHARES[0] <= share <= SHARES[1] for row in shares for share in row[1:]):
            raise DataError(
                "The public rows repeat each other, or lie too far from 0 for how little they differ: a sketch cannot "
                "be built around them."
            )
        return cls(rows.shape[1], radius, centre, basis, means, knots, WEIGHTS_PUBLIC, directions, seed, shares, rank)

    @property
    def widths(self) -> dict[str, int]:
        """How many coordinates each block has."""
        knots, cells, classes = len(self.knots), len(self.prototypes), max(1, self.classes)
        widths = (classes * self.matrix.shape[1], classes * knots, cells, knots if cells else 0)
        return dict(zip(BLOCKS, widths, strict=True))

    def sensitivity(self, adjacency: Adjacency | str) -> float:
        """The most one record moves the weighted sum, in L2; the formula stands at the top of this module."""
        squares = {name: self.weights[name] ** 2 for name, width in self.widths.items() if width}
        if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE:
            return math.sqrt(sum(squares.values()))
        return math.sqrt(sum((4.0 if name == "features" else 2.0) * s for name, s in squares.items()))

    def coordinates(self, rows: Array, labels: NDArray[np.int64] | None = None) -> dict[str, Array]:
        """v(x) of each row, by block, un-weighted: private, for the mechanism and for tests.

        One row at a time: a product of whole matrices may round a row differently beside other rows, and a record that
        lies between two prototypes could then change its cell because another record was added.
        """
        z = clip_rows(rows - self.centre, self.reach)
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
        if self.classes:
            assert labels is not None
            for name in ("features", "shells"):
                apart_by_class = np.zeros((len(z), self.classes, out[name].shape[1]))
                apart_by_class[np.arange(len(z)), labels] = out[name]
                out[name] = apart_by_class.reshape(len(z), -1)
        return out

    def labelled(self, classes: int) -> SketchDesign:
        """The same design for records with labels 0 … `classes` − 1."""
        return replace(self, classes=classes)

    def prototype_costs(self) -> Array:
        """‖p_i − p_j‖² between prototypes, (K, K)."""
        # one row at a time: all gaps at once would take K²·d numbers
        rows = [((self.prototypes - one) ** 2).sum(1) for one in self.prototypes]
        return np.array(rows).reshape(len(rows), len(rows))

    def exact_bytes(self) -> bytes:
        """Every number of the design as it was given.

        The matrix is left out, because it follows from them: its last bits depend on the machine and the number of
        threads, and a restart with more threads must not cost a second charge.
        """
        scalars = [self.dim, self.radius, self.directions, self.seed, self.rank, self.classes]
        facts = [scalars, sorted(self.weights.items()), self.unmatched]
        arrays = (self.centre, self.basis, self.prototypes, self.knots)
        return repr(facts).encode() + b"".join(str(a.shape).encode() + a.astype("<f8").tobytes() for a in arrays)

    def digest(self) -> str:
        """A digest of everything that two comparable sketches share; floats to six digits, equal on all machines."""
        facts = {
            "version": VERSION,
            "dim": self.dim,
            "radius": f"{self.radius:.6g}",
            "knots": [f"{k:.6g}" for k in self.knots],
            "weights": {name: f"{w:.6g}" for name, w in sorted(self.weights.items())},
            "directions": self.directions,
            "seed": self.seed,
            "classes": self.classes,
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


def _check_radius(radius: float) -> None:
    """Refuse a radius whose square could leave the floats; written so that a NaN is refused."""
    if not RADII[0] <= radius <= RADII[1]:
        raise UsageError(
            f"The radius of a sketch must be a number from {RADII[0]:g} to {RADII[1]:g}, got {radius!r}: scale records."
        )


def _rows(values: Any, dim: int | None = None) -> Array:
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("Public rows must be numbers.") from None
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all() or (dim is not None and rows.shape[1] != dim):
        raise DataError("Public rows must be finite numbers of shape (rows, dimension).")
    return rows
