"""Fits an additive law of the label to noisy moments of known variance; it sees released numbers and no record.

    p(k | x) ∝ exp(o_k(x) + b_k + Σ_i θ_{i,x_i,k}),   k ≥ 1, class 0 being the reference and o given.

Moments m(θ) = E[1[x_i = g]·1[y = k]], over rows x drawn from a model, are to meet T, known with variance V. θ − θ₀ is
L·B, L functions of the groups of each column (`group_basis`), and B ~ N(0, τ²). What is minimised is

    J(B) = ½ Σ (T − m(θ))²/V + ½ Σ B²/τ²,

by Gauss–Newton with the whole matrix H = ∂m/∂θ, each step shortened until J falls. Where columns nearly repeat each
other, some directions of θ hardly change m; there T is uninformative, and J leaves θ at θ₀. (The ridge of `conditional`
is diagonal and would let the noise through in these directions.)

With several classes the moments of class 0 are known too, by noise of their own, and can be given with the others; and
the prior can say which classes go together: B ~ N(0, τ²·Ω) in the classes, Ω that of `class_prior`. No class is then
treated differently for being named first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, solve
from scipy.sparse import block_diag, csr_matrix, identity, kron

Floats = NDArray[np.float64]
MAX_COEFFICIENTS = 4000
_STEPS = 30
_LONGEST = 1.5
"""The largest change of a coefficient in one step."""
_HALVINGS = 8
"""How often a step that does not bring J down is halved before the fit ends."""
_DAMPING = 1e-9
"""What is added to a singular matrix whose diagonal is 1: far above rounding, and far below what moves a fit."""
_SLOPE_ROWS = 10_000
"""About how many rows H is taken over with several classes."""
_ROWS = 2048
"""Rows whose products are held at once."""


def fit_additive(
    z: csr_matrix,
    offsets: Floats,
    moments: Floats,
    variance: Floats,
    totals: tuple[Floats, Floats | float],
    records: float,
    prior: Floats | float,
    left: csr_matrix | None = None,
    between: Floats | None = None,
) -> tuple[Floats, Floats]:
    """θ − θ₀ of shape (features, classes) and b of shape (classes,), zero for class 0, at the minimum of J.

    `offsets` (rows, classes) hold o and the contribution of θ₀; `moments` and `variance` (features, classes − 1) and
    `totals`, the numbers of records per class (classes − 1,) and their variance, are in records, of which there are
    `records`. `left` = L has shape (features, functions); without it each feature is its own function. `prior` = τ is
    one number, or one per function.

    With moments and totals of *all* classes, (features, classes) and (classes,), those of class 0 count too. `between`
    = Ω, (classes, classes), is the covariance of the coefficients of all classes, up to what all have in common, per
    τ²; without it those of the classes but the first are independent.
    """
    rows, features = z.shape
    free = offsets.shape[1] - 1
    every = moments.shape[1] > free
    scale = records / rows
    # the bias is one more feature, present in every row, whose moment is the total
    full = csr_matrix(np.ones((rows, 1))) if features == 0 else _with_ones(z)
    functions = csr_matrix(identity(features)) if left is None else left
    whole = csr_matrix(block_diag([functions, np.ones((1, 1))])) if features else csr_matrix(np.ones((1, 1)))
    spanned = csr_matrix(kron(whole, identity(free))).T.tocsr()
    target = np.vstack([moments, totals[0][None, :]])
    spread = np.vstack([variance, np.broadcast_to(totals[1], (1, moments.shape[1]))])
    own = np.append(np.broadcast_to(1.0 / np.square(prior), functions.shape[1]), 1e-6)
    penalty = own[:, None] * np.ones(free)
    within = None if between is None else _precision(between)
    curved = np.diag(penalty.ravel()) if within is None else np.kron(np.diag(own), within)

    def pulled(found: Floats) -> Floats:
        """The slope of ½ Σ B²/τ²."""
        out: Floats = penalty * (found if within is None else found @ within)
        return out

    def squares(found: Floats) -> Floats:
        """The terms of Σ B²/τ²."""
        out: Floats = penalty * np.square(found) if within is None else found * pulled(found)
        return out

    stride = 1 if free == 1 else max(rows // _SLOPE_ROWS, 1)

    def seen(found: Floats) -> tuple[Floats, Floats, float]:
        """The chances of all classes but the first, what is missing of the moments, and J."""
        logits = offsets.copy()
        logits[:, 1:] += full @ (whole @ found)
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        p = chance[:, 1:]
        missing = target - scale * (full.T @ (chance if every else p))
        loss = 0.5 * float((np.square(missing) / spread).sum() + squares(found).sum())
        return p, missing, loss

    found = np.zeros((len(own), free))
    p, missing, loss = seen(found)
    for _ in range(_STEPS):
        # Hᵀ, from functions to moments; H itself is symmetric in the groups. Its products take most of the time where
        # there are several classes, and some of the rows show it well enough: residuals are taken over all of them
        flat = stride * scale * (spanned @ _slopes(full[::stride], p[::stride]))
        if every:
            flat = _with_first(flat, free)
        slope = flat @ (missing / spread).ravel() - pulled(found).ravel()
        curve = (flat / spread.ravel()) @ flat.T + curved
        move = _step(curve, slope).reshape(found.shape)
        move *= min(1.0, _LONGEST / max(float(np.abs(move).max()), 1e-300))
        # a label that follows from the columns has moments that hardly react: whole steps would go astray
        for _ in range(_HALVINGS):
            trial = seen(found + move)
            if trial[2] < loss:
                break
            move *= 0.5
        else:
            break
        found = found + move
        p, missing, loss = trial
        if np.abs(move).max() < 1e-3:
            break
    theta = whole @ found
    out = np.hstack([np.zeros((features + 1, 1)), theta])
    return out[:-1], out[-1]


def _step(curve: Floats, slope: Floats) -> Floats:
    """The Gauss–Newton step, damped (Levenberg & Marquardt) where rounding leaves a matrix that is singular.

    That happens where columns repeat each other and the moments of very many records are known nearly exactly.
    """
    try:
        return np.asarray(solve(curve, slope, assume_a="pos"))
    except LinAlgError:
        unit = 1.0 / np.sqrt(np.diag(curve))
        scaled = curve * np.outer(unit, unit) + _DAMPING * np.eye(len(curve))
        return np.asarray(unit * solve(scaled, unit * slope, assume_a="pos"))


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


def _precision(between: Floats) -> Floats:
    """The inverse of the covariance of θ_k − θ_0, k ≥ 1, from that of all θ_k."""
    free = len(between) - 1
    apart = np.hstack([-np.ones((free, 1)), np.eye(free)])
    return np.asarray(np.linalg.inv(apart @ between @ apart.T))


def _with_first(flat: Floats, free: int) -> Floats:
    """The slopes of the moments of all classes, from those of all but the first: together they are those of z alone."""
    known = flat.reshape(len(flat), -1, free)
    return np.concatenate([-known.sum(axis=2, keepdims=True), known], axis=2).reshape(len(flat), -1)


def _with_ones(z: csr_matrix) -> csr_matrix:
    from scipy.sparse import hstack

    return csr_matrix(hstack([z, np.ones((z.shape[0], 1))]))
