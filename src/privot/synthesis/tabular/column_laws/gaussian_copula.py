"""How the places of values within their groups go together: a Gaussian copula of drawn groups; it sees no record.

A model of groups says in which group of each column a row lies, and its groups are the wider the more noise there is.
With places drawn independently within them, a correlation ρ of normal columns in g groups of equal shares comes out as
about b⁴·ρ, b² = Σ p·m², m the mean of a standard normal number within a group: 0.74·ρ for four groups. So every row has
latent normal numbers, one for each column with an order, whose correlations are those of its groups and which lie
within the quantiles of its groups; their order within a group is that of the row's places there. The shares of groups
and cells stay what they are: where there is no correlation nothing changes.

The correlations are those at which normal numbers, grouped alike, have the covariance Cov(mᵢ, mⱼ) of rows that the
model of groups draws. By Mehler's formula it is Σₖ ρᵏ·cᵢₖ·cⱼₖ, cᵢₖ = E[mᵢ·Heₖ]/√k!, and it rises with ρ. Latent numbers
are drawn by Gibbs' sampler, one column after the other given all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privot.mechanisms.table_counts.cell_axes import Axis

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEW = 32
"""Rows of a group of which the ranks say too little about where each lies."""
SWEEPS = 3
"""Passes of Gibbs' sampler over all columns."""
MAX_CORRELATION, LEAST_EIGENVALUE = 0.95, 0.03
"""Bounds on what is estimated from noisy groups, so that no latent number follows from others."""
TERMS, HALVINGS = 16, 30
"""Terms of Mehler's series, and halvings of the interval in which a correlation is sought."""
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class GaussianCopula:
    """Latent normal numbers of some `columns`, with their `correlation` matrix.

    `shares` are, for every such column, those of its groups in their order; a group that has no place in the order,
    that of missing values, has the share 0, and its rows have any latent number.
    """

    columns: tuple[int, ...]
    correlation: Floats
    shares: tuple[Floats, ...]

    @classmethod
    def of(cls, axes: Sequence[Axis], groups: Sequence[Ints], rows: Ints) -> GaussianCopula | None:
        """The copula of `rows` of groups, of shape (rows, columns); None unless two columns have an order.

        `groups` are those of the cells of every column.
        """
        columns, shares, scores, terms = [], [], [], []
        for i, axis in enumerate(axes):
            held = np.bincount(rows[:, i], minlength=int(groups[i].max()) + 1).astype(np.float64)
            if axis.missing and np.count_nonzero(groups[i] == groups[i][-1]) == 1:
                held[groups[i][-1]] = 0.0
            if not axis.ordered or np.count_nonzero(held) < 2:
                continue
            share = held / held.sum()
            means = _means(share)
            columns.append(i)
            shares.append(share)
            scores.append(means[rows[:, i]])
            terms.append(_hermite(share, means))
        if len(columns) < 2:
            return None
        found = _latent_correlation(np.cov(np.array(scores), bias=True), np.array(terms))
        return cls(tuple(columns), _correlation(found), tuple(shares))

    def latent(self, rows: Ints, rng: np.random.Generator) -> dict[int, Floats]:
        """A latent number of every row of groups, by column."""
        precision = np.linalg.inv(self.correlation)
        bounds = [_bounds(share, rows[:, i]) for i, share in zip(self.columns, self.shares, strict=True)]
        n = len(rows)
        out = np.column_stack([_between(low, high, rng.random(n)) for low, high in bounds])
        for _ in range(SWEEPS):
            for k, (low, high) in enumerate(bounds):
                spread = precision[k, k] ** -0.5
                mean = out[:, k] - (out @ precision[k]) / precision[k, k]
                below, above = (ndtr((ndtri(end) - mean) / spread) for end in (low, high))
                out[:, k] = mean + spread * _between(below, above, rng.random(n))
        return {column: out[:, k] for k, column in enumerate(self.columns)}

    def within(self, rows: Ints, rng: np.random.Generator) -> dict[int, Floats]:
        """A place of every row within its groups, from 0 to 1, by column."""
        found = self.latent(rows, rng)
        for i, share in zip(self.columns, self.shares, strict=True):
            low, high = _bounds(share, rows[:, i])
            found[i] = np.clip((ndtr(found[i]) - low) / np.maximum(high - low, _TINY), 0.0, 1.0)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        own = {f"copula.shares.{i}": share for i, share in zip(self.columns, self.shares, strict=True)}
        return {"copula.columns": np.array(self.columns, dtype=np.int64), "copula.correlation": self.correlation, **own}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Any], axes: Sequence[Axis], sizes: Sequence[int]
    ) -> GaussianCopula | None:
        """Read what `arrays` made for columns of such `axes` with so many groups each; None where there is none.

        Raises ValueError or KeyError where the parts do not fit together.
        """
        if "copula.columns" not in arrays:
            return None
        columns = tuple(int(i) for i in np.asarray(arrays["copula.columns"]))
        correlation = np.asarray(arrays["copula.correlation"], dtype=np.float64)
        shares = tuple(np.asarray(arrays[f"copula.shares.{i}"], dtype=np.float64) for i in columns)
        made = cls(columns, correlation, shares)
        if sorted(set(columns)) != list(columns) or not all(0 <= i < len(axes) and axes[i].ordered for i in columns):
            raise ValueError("columns")
        square = correlation.shape == (len(columns), len(columns)) and bool(np.isfinite(correlation).all())
        if len(columns) < 2 or not square or not np.allclose(correlation, correlation.T):
            raise ValueError("correlation")
        if not np.allclose(np.diag(correlation), 1.0) or np.linalg.eigvalsh(correlation)[0] < 0.5 * LEAST_EIGENVALUE:
            raise ValueError("correlation")
        for i, share in zip(columns, shares, strict=True):
            if share.shape != (sizes[i],) or not (share >= 0.0).all() or not np.isclose(share.sum(), 1.0):
                raise ValueError("shares")
        return made


def spread(places: Floats, rng: np.random.Generator) -> Floats:
    """Places within a group in the same order, as even as so many can be; fewer than `FEW` stay where they are."""
    if len(places) < FEW:
        return places
    ranks = np.empty(len(places))
    ranks[np.argsort(places, kind="stable")] = np.arange(len(places))
    out: Floats = (ranks + rng.random()) / len(places)
    return out


def _means(share: Floats) -> Floats:
    """The mean of a standard normal number between the quantiles of each group; 0 where there is no share."""
    ends = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(share)]), 0.0, 1.0))
    density = np.exp(-0.5 * np.square(ends)) / np.sqrt(2.0 * np.pi)
    out: Floats = np.where(share > 0.0, -np.diff(density) / np.maximum(share, _TINY), 0.0)
    return out


def _hermite(share: Floats, means: Floats) -> Floats:
    """c₁, c₂, … of a column: the means of groups against the Hermite polynomials of a standard normal number."""
    ends = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(share)]), 0.0, 1.0))
    inside = np.where(np.isfinite(ends), ends, 0.0)
    density = np.where(np.isfinite(ends), np.exp(-0.5 * np.square(inside)) / np.sqrt(2.0 * np.pi), 0.0)
    out, before, now = np.empty(TERMS), np.zeros_like(ends), density
    # ∫ Heₖ·φ = −Heₖ₋₁·φ, with Heₖ₋₁/√k! by the three terms of its recurrence
    for k in range(1, TERMS + 1):
        out[k - 1] = float(-np.diff(now) @ means)
        before, now = now, (inside * now - (k - 1.0) / np.sqrt(k) * before) / np.sqrt(k + 1.0)
    return out


def _latent_correlation(covariance: Floats, terms: Floats) -> Floats:
    """For every pair the ρ at which Σₖ ρᵏ·cᵢₖ·cⱼₖ is its covariance, by halving; within `MAX_CORRELATION`."""
    low = np.full_like(covariance, -MAX_CORRELATION)
    high = -low
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        made = np.zeros_like(covariance)
        for k in range(TERMS - 1, -1, -1):
            made = middle * (made + np.outer(terms[:, k], terms[:, k]))
        low, high = np.where(made < covariance, middle, low), np.where(made < covariance, high, middle)
    out: Floats = 0.5 * (low + high)
    return out


def _bounds(share: Floats, rows: Ints) -> tuple[Floats, Floats]:
    """Between which probabilities the latent number of every row lies: all, for a group without a share."""
    ends = np.clip(np.concatenate([[0.0], np.cumsum(share)]), 0.0, 1.0)
    low, high = ends[:-1].copy(), ends[1:].copy()
    low[share == 0.0], high[share == 0.0] = 0.0, 1.0
    return low[rows], high[rows]


def _between(low: Floats, high: Floats, at: Floats) -> Floats:
    """Φ⁻¹ of a place between two probabilities."""
    out: Floats = ndtri(np.clip(low + at * (high - low), _TINY, 1.0 - _TINY))
    return out


def _correlation(found: Floats) -> Floats:
    """The nearest matrix of that kind, about: bounded, with no eigenvalue near 0, and 1 on its diagonal."""
    bounded = np.clip(found, -MAX_CORRELATION, MAX_CORRELATION)
    np.fill_diagonal(bounded, 1.0)
    values, vectors = np.linalg.eigh(bounded)
    whole = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(np.diag(whole))
    out: Floats = whole / np.outer(scale, scale)
    return out
