"""Fits the conditional law of one column given earlier ones to noisy counts of pairs; it sees no record.

    p(k | z) ∝ exp(b_k + Σ_f θ_{f,k} z_f),     z the one-hot groups of the earlier columns (and of pairs of them)

is the maximum-entropy law whose moments E[z_f 1_k] equal given ones; finding it means minimising

    L(θ, b) = E_z[ln Σ_k exp(b_k + Σ_f θ_{f,k} z_f)] − ⟨θ, T⟩ − ⟨b, t⟩ + ½ Σ ρ_{f,k} θ_{f,k}²

over z drawn from the part of the model fitted before: the likelihood of a multinomial logistic regression, in which
the records appear only through the released moments T and t. L is convex, with one minimum.

The ridge follows from the noise. A moment of μ expected records is known with variance σ² + μ (noise, and the sampling
error of the records), and its information about θ is about μ; if θ ~ N(0, τ²), the best linear shrinkage of the
estimate is the ridge ρ = (σ²/μ + 1)/τ² per record: cells in which the noise drowns the records keep θ near 0, that is,
independence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from privot.errors import ConvergenceError
from privot.mechanisms.table_counts.group_shares import shares

Floats = NDArray[np.float64]
TOLERANCE = 0.1
"""The tolerance of a converged fit: the error of the moments in standard deviations of their sampling error, that of
the records or of the rows z, whichever is greater."""
MAX_STEPS = 3000
_CHUNK = 50_000


def one_hot(codes: NDArray[np.int64], sizes: list[int]) -> csr_matrix:
    """(rows, Σ sizes), with a 1 for each column's group."""
    if codes.shape[1] == 0:
        return csr_matrix((len(codes), 0))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = (codes + starts[:-1]).astype(np.int32).ravel()
    ends = np.arange(0, places.size + 1, codes.shape[1], dtype=np.int32 if places.size < 2**31 else np.int64)
    return csr_matrix((np.ones(places.size), places, ends), shape=(len(codes), int(starts[-1])))


def ridge(expected: Floats, spread: Floats | float, prior: float, records: float) -> Floats:
    """ρ, per record, for cells of `expected` = μ records, noise of deviation `spread` = σ, and θ ~ N(0, `prior`²)."""
    return np.asarray((np.square(spread) / np.maximum(expected, 1.0) + 1.0) / (prior**2 * records))


def fit_conditional(
    z: csr_matrix,
    moments: Floats,
    shares: Floats,
    penalty: Floats,
    records: float,
    tolerance: float = TOLERANCE,
) -> tuple[Floats, Floats]:
    """θ of shape (features, values) and b of shape (values,), at the minimum of L.

    `moments` T and `penalty` ρ have shape (features, values), `shares` t has shape (values,).
    """
    rows, features = z.shape
    values = len(shares)
    zt = z.T.tocsr()
    present = np.asarray(z.mean(axis=0)).ravel()
    start = np.log(np.maximum(shares, 1e-12))
    # coordinates in which the curvature is about 1
    curvature = np.maximum(present[:, None] * (shares * (1.0 - shares))[None, :], 1e-12) + penalty
    unit = 1.0 / np.sqrt(curvature)
    unit_b = 1.0 / np.sqrt(np.maximum(shares * (1.0 - shares), 1e-6))

    def loss(point: Floats) -> tuple[float, Floats]:
        theta = point[: features * values].reshape(features, values) * unit
        bias = start + point[features * values :] * unit_b
        logits = z @ theta + bias
        top = logits.max(axis=1, keepdims=True)
        np.exp(logits - top, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        logits /= total
        value = float((np.log(total) + top).mean() - (theta * moments).sum() - bias @ shares)
        value += 0.5 * float((penalty * theta * theta).sum())
        slope = (zt @ logits) / rows - moments + penalty * theta
        slope_b = (logits.mean(axis=0) - shares) * unit_b
        return value, np.concatenate([(slope * unit).ravel(), slope_b])

    point = np.zeros(features * values + values)
    goal = tolerance / np.sqrt(min(records, rows))
    found = minimize(
        loss,
        point,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "maxcor": 20, "gtol": goal, "ftol": 0.0},
    )
    reached = float(np.abs(found.jac).max())
    if not reached <= 10.0 * goal:
        raise ConvergenceError(
            f"A column's law was not fitted: moments are off by {reached / goal * tolerance:.2g} standard deviations "
            f"after {found.nit} steps."
        )
    theta = found.x[: features * values].reshape(features, values) * unit
    return theta, start + found.x[features * values :] * unit_b


def probabilities(z: csr_matrix, theta: Floats, bias: Floats) -> Floats:
    """p(k | z) of shape (rows, values)."""
    return shares(z @ theta + bias)


def draw(z: csr_matrix, theta: Floats, bias: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """One value per row, drawn from its law by the inverse of its cumulative shares."""
    out = np.empty(z.shape[0], dtype=np.int64)
    for start in range(0, z.shape[0], _CHUNK):
        logits = z[start : start + _CHUNK] @ theta + bias
        weight = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
        at = rng.random((len(weight), 1)) * weight[:, -1:]
        out[start : start + _CHUNK] = (weight <= at).sum(axis=1).clip(max=theta.shape[1] - 1)
    return out
