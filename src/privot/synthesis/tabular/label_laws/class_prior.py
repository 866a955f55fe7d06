"""How strongly columns tell a label's classes apart, and which classes go together; it sees noisy moments, no record.

A label of K classes has K coefficients u (up to their mean) for each function f of a column's groups (`group_basis`).
Where classes have an order, or few things decide between them, most u lie near few directions; noise lies in all of
them alike. So

    u_f ~ N(0, τ_b²·Ω),     C_f = i_f·A·u_f + noise of variance diag(v_f),     A = n·(diag(s) − s·sᵀ),

with Ω common to all functions, τ_b to those of one block b of one column, C_f what the function's moments exceed those
of independence by, s the shares of the classes and i_f = Σ_a (share of a)·f(a)². τ and Ω are the most likely ones,
found by expectation maximisation (Dempster, Laird & Rubin 1977); Ω has a prior at the identity, as strong as
`FUNCTIONS` functions. Released numbers go in and nothing else: empirical Bayes, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privot.synthesis.tabular.column_laws.group_basis import Basis, information

Floats = NDArray[np.float64]
FUNCTIONS = 3.0
"""How many functions, per class but one, the prior of Ω counts as."""
_START = 0.3
_STEPS = 200
_SMALL = 1e-3
"""Relative change of every τ² and of Ω at which the steps end."""


def class_strengths(
    excess: Floats, shares: Floats, variance: Floats, bases: Sequence[Basis], label: Floats, records: float,
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:  # fmt: skip
    """τ of every function of every column, within `bounds`, and Ω of shape (classes, classes), its trace K − 1.

    `excess` and its `variance` have shape (groups, classes), in records, `shares` (groups,): the groups of all columns
    stand one after another. `label` = s holds positive shares of the classes, of so many `records`.

    Example
    -------
    >>> from privot.mechanisms.table_counts.cell_axes import Axis
    >>> from privot.synthesis.tabular.column_laws.group_basis import basis_of
    >>> shares = np.full(8, 0.125)
    >>> basis = basis_of(shares, Axis(0, 8, tuple(np.arange(1, 8) / 8), ordered=True), np.arange(8))
    >>> excess = 200.0 * np.outer(np.arange(-7.0, 8.0, 2.0), [-1.0, 0.0, 1.0])
    >>> tau, omega = class_strengths(excess, shares, np.ones((8, 3)), [basis], np.full(3, 1 / 3), 3e4, (0.03, 1.5))
    >>> bool(tau[0] > 5 * tau[1]), bool(omega[0, 2] < 0 < omega[0, 0])
    (True, True)
    """
    free = len(label) - 1
    # an orthonormal basis of what is left when the mean of all classes is taken away
    contrasts = np.linalg.qr(np.hstack([np.ones((free + 1, 1)), np.eye(free + 1)[:, 1:]]))[0][:, 1:]
    curve = records * contrasts.T @ (np.diag(label) - np.outer(label, label)) @ contrasts
    found, noise, known, blocks = _by_function(excess, shares, variance, bases)
    weight = np.linalg.inv(np.einsum("ka,fk,kb->fab", contrasts, noise, contrasts))
    precise = np.square(known)[:, None, None] * (curve @ weight @ curve)
    pull = known[:, None] * np.einsum("ab,fbc,fc->fa", curve, weight, found @ contrasts)
    omega, square = np.eye(free), np.full(int(blocks.max(initial=0)) + 1, _START**2)
    many = np.bincount(blocks, minlength=len(square)) * free
    for _ in range(_STEPS):
        inverse = np.linalg.inv(omega)
        spread = np.linalg.inv(precise + inverse / square[blocks][:, None, None])
        mean = np.einsum("fab,fb->fa", spread, pull)
        second = spread + mean[:, :, None] * mean[:, None, :]
        likely = np.bincount(blocks, np.einsum("ab,fab->f", inverse, second), len(square)) / many
        likely = np.clip(likely, bounds[0] ** 2, bounds[1] ** 2)
        prior = FUNCTIONS * free
        shape = prior * np.eye(free) + (second / likely[blocks][:, None, None]).sum(axis=0)
        # τ has the size, Ω the shape
        shape *= free / np.trace(shape)
        change = max(float(np.abs(likely / square - 1.0).max()), float(np.abs(shape - omega).max()))
        omega, square = shape, likely
        if change < _SMALL:
            break
    return np.sqrt(square)[blocks], contrasts @ omega @ contrasts.T


def _by_function(
    excess: Floats, shares: Floats, variance: Floats, bases: Sequence[Basis]
) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """C and v of shape (functions, classes), i, and the block of every function, told apart by column."""
    found, noise, known, blocks, start = [], [], [], [], 0
    for place, basis in enumerate(bases):
        at = slice(start, start + len(basis.vectors))
        start = at.stop
        found.append(basis.vectors.T @ excess[at])
        noise.append(np.square(basis.vectors).T @ variance[at])
        known.append(information(basis, shares[at]))
        blocks.append(np.stack([np.full(len(basis.blocks), place), basis.blocks]))
    told = np.unique(np.concatenate(blocks, axis=1), axis=1, return_inverse=True)[1]
    return np.concatenate(found), np.concatenate(noise), np.concatenate(known), told.reshape(-1).astype(np.int64)
