"""Functions of a column's groups in which dependence is expected to be simple, and how strong it is; it sees no record.

The dependence of two columns is written as θ = L·B·Rᵀ, L and R the functions of each. For a column with an order they
are polynomials in the rank, orthonormal under the column's shares: neighbours behave alike, so low degrees matter most.
A value that is common by itself, or missing, is next to no other and has a function of its own. For a column without an
order each group has its own function.

How strong the dependence is, is read off the released counts: with D the counts of a pair minus those of independence,
C = Lᵀ·D·R has about mean i·B and variance v, known from the noise and the shares. Coefficients of like degree form a
block, and B ~ N(0, τ²) in each of them, so that E[C²] = (iτ)² + v gives

    τ² = Σ w·(C² − t·v) / Σ w·i²,   w = 1/v²,

which is 0 where there is nothing but noise: empirical Bayes, block by block (t is a little more than 1, see `CAUTION`).

A column of many categories mostly depends on another in few of its many cells, and one τ for all of them would shrink
those few too much. There a coefficient that stands out of the noise by itself, C² > `CLEAR`²·v, has the strength
(C² − `CLEAR`²·v)/i² of its own where that is more: a prior with heavy tails, in effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_matrix

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import MANY

Floats = NDArray[np.float64]
SPIKE = 0.15
"""A value of an ordered column with at least this share stands for itself, not for its neighbourhood."""
CAUTION = 1.0
"""Standard deviations of the sum of v that are subtracted beyond its mean: what noise alone could make."""
BOUNDS = (0.003, 3.0)
"""Bounds on the estimated τ of two columns: nothing is impossible, and hardly anything exceeds twenty to one."""


CLEAR = 3.0
"""Standard deviations of noise beyond which a coefficient of many categories stands for itself."""


@dataclass(frozen=True, eq=False)
class Basis:
    """`vectors` of shape (groups, functions), the block of each, and whether few of them are expected to matter.

    Whether a column is `sparse` follows from the schema alone: it has no order, and more than `MANY` categories.
    """

    vectors: Floats
    blocks: NDArray[np.int64]
    sparse: bool = False


def basis_of(shares: Floats, axis: Axis, groups: NDArray[np.int64]) -> Basis:
    """The functions of a column of `axis`, whose fine cells go to `groups` that have `shares`, all positive."""
    size = len(shares)
    if not axis.ordered or size < 3:
        return Basis(np.eye(size), np.zeros(size, dtype=np.int64), not axis.ordered and axis.cells > MANY)
    single = np.bincount(groups, minlength=size) == 1
    apart = single & (shares >= SPIKE)
    if axis.missing:
        apart[groups[-1]] |= single[groups[-1]]
    alone = np.flatnonzero(apart)[: size - 1]
    rank = 2.0 * (np.cumsum(shares) - 0.5 * shares) / shares.sum() - 1.0
    smooth = legendre.legvander(rank, size - 1 - len(alone))
    columns = np.hstack([smooth[:, :1], np.eye(size)[:, alone], smooth[:, 1:]])
    root = np.sqrt(shares / shares.sum())[:, None]
    vectors = np.linalg.qr(root * columns)[0] / root
    degree = np.arange(1, size - len(alone))
    # degrees 1, 2, 3 and 4, 5 to 8 …: the strength changes slowly from one degree to the next
    octave = 1 + np.ceil(np.log2(degree)).astype(np.int64)
    # the first function is constant: shares of the column itself, and no dependence
    return Basis(vectors[:, 1:], np.concatenate([np.zeros(len(alone), dtype=np.int64), octave]))


def stacked(bases: Sequence[Basis]) -> csr_matrix:
    """The functions of several columns, whose groups stand one after another."""
    if not bases:
        return csr_matrix((0, 0))
    return csr_matrix(block_diag([basis.vectors for basis in bases]))


def information(basis: Basis, shares: Floats) -> Floats:
    """Σ_a s_a·f(a)² of each function."""
    out: Floats = shares @ np.square(basis.vectors)
    return out


def noise_gain(basis: Basis) -> Floats:
    """Σ_a (f(a) − mean)² of each function: what it makes of independent noise of groups whose sum is known."""
    centred = basis.vectors - basis.vectors.mean(axis=0)
    out: Floats = np.square(centred).sum(axis=0)
    return out


def strengths(
    excess: Floats, left: Basis, right: Basis, shares: tuple[Floats, Floats], spread: float, records: float
) -> tuple[Floats, Floats, Floats]:
    """τ, i and v of every coefficient of B, of shape (left functions, right functions).

    `excess` = D, in records, whose cells have noise of deviation `spread`.
    """
    found = left.vectors.T @ excess @ right.vectors
    known = records * np.outer(information(left, shares[0]), information(right, shares[1]))
    # the sampling error of the records is none: it is these records that are to be described
    variance = spread**2 * np.outer(noise_gain(left), noise_gain(right)) + 1e-6 * known + 1e-6
    out = np.empty_like(found)
    for a in np.unique(left.blocks):
        for b in np.unique(right.blocks):
            place = np.ix_(left.blocks == a, right.blocks == b)
            out[place] = strength(found[place], known[place], variance[place])
    if left.sparse or right.sparse:
        own = np.sqrt(np.maximum(np.square(found) - CLEAR**2 * variance, 0.0)) / np.maximum(known, 1e-9)
        out = np.maximum(out, np.minimum(own, BOUNDS[1]))
    return out, known, variance


def strength(found: Floats, known: Floats, variance: Floats, bounds: tuple[float, float] = BOUNDS) -> float:
    """τ of one block, from C, i and v."""
    weight = 1.0 / np.square(variance)
    noise = float(np.sum(weight * variance)) + CAUTION * float(np.sqrt(2.0 * np.sum(np.square(weight * variance))))
    square = (float(np.sum(weight * np.square(found))) - noise) / max(float(np.sum(weight * np.square(known))), 1e-300)
    return float(min(max(square, bounds[0] ** 2) ** 0.5, bounds[1]))


def pair_ridge(
    excess: Floats, left: Basis, right: Basis, shares: tuple[Floats, Floats], spread: float, records: float
) -> Floats:
    """The ridge ρ = v/(i·τ²) per record of every coefficient: a fit with it is the posterior mode for B ~ N(0, τ²)."""
    tau, known, variance = strengths(excess, left, right, shares, spread, records)
    out: Floats = variance / (np.maximum(known, 1e-9) * np.square(tau) * records)
    return out
