"""Fits an additive law of the label to noisy moments of known variance; it sees released numbers and no record.

    p(k | x) ∝ exp(o_k(x) + b_k + Σ_i θ_{i,x_i,k}),   k ≥ 1, class 0 being the reference and o given.

Moments m(θ) = E[1[x_i = g]·1[y = k]], over rows x drawn from a model, are to meet T, known with variance V; θ ~ N(θ₀,
τ²). What is minimised is

    J(θ) = ½ Σ (T − m(θ))²/V + ½ ‖θ − θ₀‖²/τ²,

by Gauss–Newton with the whole matrix H = ∂m/∂θ. Where columns nearly repeat each other, some directions of θ hardly
change m; there T is uninformative, and J leaves θ at θ₀. (The ridge of `conditional` is diagonal and would let the
noise through in these directions.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
MAX_COEFFICIENTS = 4000
_STEPS = 20
_LONGEST = 1.5
"""The largest change of a coefficient in one step."""
_ROWS = 2048
"""Rows whose products are held at once."""
_TOTAL_SD = 100.0
"""The largest error of the number of records per class, in records."""


def fit_additive(
    z: csr_matrix, offsets: Floats, moments: Floats, variance: Floats, totals: Floats, records: float, prior: float
) -> tuple[Floats, Floats]:
    """θ − θ₀ of shape (features, classes) and b of shape (classes,), zero for class 0, at the minimum of J.

    `offsets` (rows, classes) hold o and the contribution of θ₀; `moments` and `variance` (features, classes − 1) and
    `totals` (classes − 1,) are in records, of which there are `records`.
    """
    rows, features = z.shape
    free = moments.shape[1]
    scale = records / rows
    # the bias is one more feature, present in every row, whose moment is the total
    full = csr_matrix(np.ones((rows, 1))) if features == 0 else _with_ones(z)
    target = np.vstack([moments, totals[None, :]])
    spread = np.vstack([variance, np.full((1, free), _TOTAL_SD**2)])
    penalty = np.append(np.full(features, prior**-2), 1e-6)[:, None] * np.ones(free)
    theta = np.zeros((features + 1, free))
    for _ in range(_STEPS):
        logits = offsets.copy()
        logits[:, 1:] += full @ theta
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        p = chance[:, 1:]
        missing = target - scale * (full.T @ p)
        flat = scale * _slopes(full, p)
        slope = flat.T @ (missing / spread).ravel() - (penalty * theta).ravel()
        curve = flat.T @ (flat / spread.reshape(-1, 1)) + np.diag(penalty.ravel())
        move = np.clip(solve(curve, slope, assume_a="pos"), -_LONGEST, _LONGEST)
        theta += move.reshape(theta.shape)
        if np.abs(move).max() < 1e-3:
            break
    out = np.hstack([np.zeros((features + 1, 1)), theta])
    return out[:-1], out[-1]


def _slopes(full: csr_matrix, p: Floats) -> Floats:
    """Σ_r z_f·p_k·(1[k = m] − p_m)·z_g over the rows, as a matrix of (f, k) by (g, m).

    With A_r = z_r ⊗ p_r that is −AᵀA, plus AᵀZ where k = m: products of dense blocks, since many small sparse blocks
    are slow with many classes. With two classes there is one block, which stays sparse.
    """
    features, free = full.shape[1], p.shape[1]
    if free == 1:
        weight = p * (1.0 - p)
        return np.asarray((full.T @ full.multiply(weight).tocsr()).toarray())
    out = np.zeros((features * free, features * free))
    own = np.zeros((features * free, features))
    for first in range(0, len(p), _ROWS):
        z, some = full[first : first + _ROWS].toarray(), p[first : first + _ROWS]
        both = (z[:, :, None] * some[:, None, :]).reshape(len(z), -1)
        out -= both.T @ both
        own += both.T @ z
    for k in range(free):
        out[k::free, k::free] += own[k::free]
    return out


def _with_ones(z: csr_matrix) -> csr_matrix:
    from scipy.sparse import hstack

    return csr_matrix(hstack([z, np.ones((z.shape[0], 1))]))
