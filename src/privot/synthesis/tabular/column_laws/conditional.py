"""Fits the conditional law of one column given earlier ones to noisy counts of pairs; it sees no record.

    p(k | z) ∝ exp(b_k + Σ_f θ_{f,k} z_f),     z the one-hot groups of the earlier columns (and of pairs of them)

is the maximum-entropy law whose moments E[z_f 1_k] equal given ones; finding it means minimising

    L(B, b) = E_z[ln Σ_k exp(b_k + Σ_f θ_{f,k} z_f)] − ⟨θ, T⟩ − ⟨b, t⟩ + ½ Σ ρ·B²,     θ = L·B·Rᵀ,

over z drawn from the part of the model fitted before: the likelihood of a multinomial logistic regression, in which
the records appear only through the released moments T and t. L is convex, with one minimum. Without `bases`, L and R
are the identity and B is θ; `group_basis` has others, in which dependence is smooth.

The ridge follows from the noise. A moment of μ expected records is known with variance σ² + μ (noise, and the sampling
error of the records), and its information about θ is about μ; if θ ~ N(0, τ²), the best linear shrinkage of the
estimate is the ridge ρ = (σ²/μ + 1)/τ² per record: cells in which the noise drowns the records keep θ near 0, that is,
independence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, identity

from privot.errors import ConvergenceError
from privot.mechanisms.table_counts.group_shares import shares

Floats = NDArray[np.float64]
TOLERANCE = 0.1
"""The tolerance of a converged fit: the error of the moments in standard deviations of their sampling error, that of
the records or of the rows z, whichever is greater."""
MAX_STEPS = 3000
_CHUNK = 50_000
_LAST = 300
"""Rows of the last block of a draw."""
_MAX_TILT = 0.5
_TILTS = 4
"""Newton steps towards the expected counts of values; each is a sum over the rows of a block."""


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
    bases: tuple[csr_matrix, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """θ of shape (features, values) and b of shape (values,), at the minimum of L.

    `moments` T has shape (features, values), `shares` t has shape (values,). `bases` = (L, R) have shapes (features,
    functions) and (values, functions of values); `penalty` ρ has the shape of B.
    """
    rows, features = z.shape
    values = len(shares)
    left, right = bases or (csr_matrix(identity(features)), np.eye(values))
    zt = z.T.tocsr()
    lt = left.T.tocsr()
    present = np.asarray(z.mean(axis=0)).ravel()
    start = np.log(np.maximum(shares, 1e-12))
    # coordinates in which the curvature is about 1
    varied = shares @ np.square(right) - np.square(shares @ right)
    curvature = np.maximum(np.outer(lt.multiply(lt) @ present, varied), 1e-12) + penalty
    unit = 1.0 / np.sqrt(curvature)
    unit_b = 1.0 / np.sqrt(np.maximum(shares * (1.0 - shares), 1e-6))

    def loss(point: Floats) -> tuple[float, Floats]:
        coefficients = point[: unit.size].reshape(unit.shape) * unit
        theta = (left @ coefficients) @ right.T
        bias = start + point[unit.size :] * unit_b
        logits = z @ theta + bias
        top = logits.max(axis=1, keepdims=True)
        np.exp(logits - top, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        logits /= total
        value = float((np.log(total) + top).mean() - (theta * moments).sum() - bias @ shares)
        value += 0.5 * float((penalty * coefficients * coefficients).sum())
        slope = lt @ ((zt @ logits) / rows - moments) @ right + penalty * coefficients
        slope_b = (logits.mean(axis=0) - shares) * unit_b
        return value, np.concatenate([(slope * unit).ravel(), slope_b])

    point = np.zeros(unit.size + values)
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
    theta = (left @ (found.x[: unit.size].reshape(unit.shape) * unit)) @ right.T
    return theta, start + found.x[unit.size :] * unit_b


def probabilities(z: csr_matrix, theta: Floats, bias: Floats) -> Floats:
    """p(k | z) of shape (rows, values)."""
    return shares(z @ theta + bias)


def draw(
    z: csr_matrix, theta: Floats, bias: Floats, rng: np.random.Generator, places: Floats | None = None
) -> NDArray[np.int64]:
    """One value per row from its law, so that the rows together have close to the expected counts.

    `places` in [0, 1] say where in its law each row is drawn; `rng` draws them unless given.

    Rows are drawn in blocks, each half as long as the one before. In every block the laws are tilted by what the blocks
    before lack: of each value beside each feature, to first order (less of it where there are many features, which
    make up for each other), and of each value. Sampling error is then that of the last block, not of all rows.
    """
    out = np.empty(z.shape[0], dtype=np.int64)
    values = theta.shape[1]
    lacking, lacking_b = np.zeros(theta.shape), np.zeros(values)
    seen = np.zeros(theta.shape[0])
    damping = 1.0 / max(float(z.nnz) / max(z.shape[0], 1), 1.0) ** 0.5
    for start, stop in _halves(z.shape[0]):
        some = z[start:stop]
        weight = probabilities(some, theta, bias)
        st = some.T.tocsr()
        expected, expected_b = st @ weight, weight.sum(axis=0)
        if start:
            # what is lacking beside a feature beyond its share of what is lacking at all
            beside = lacking - np.outer(seen / start, lacking_b)
            tilt = np.clip(damping * beside / (st @ (weight * (1.0 - weight)) + 1.0), -_MAX_TILT, _MAX_TILT)
            weight = _with_counts(weight * np.exp(np.clip(some @ tilt, -1.0, 1.0)), expected_b + lacking_b)
        ends = weight.cumsum(axis=1)
        at = (rng.random((len(ends), 1)) if places is None else places[start:stop, None]) * ends[:, -1:]
        out[start:stop] = (ends <= at).sum(axis=1).clip(max=values - 1)
        drawn = one_hot(out[start:stop, None], [values])
        lacking += expected - (st @ drawn).toarray()
        lacking_b += expected_b - np.asarray(drawn.sum(axis=0)).ravel()
        seen += np.asarray(some.sum(axis=0)).ravel()
    return out


def _with_counts(weight: Floats, counts: Floats) -> Floats:
    """Laws in proportion to `weight`·exp(t), t of each value such that they expect `counts`, as far as |t| is small."""
    tilt = np.zeros(weight.shape[1])
    law: Floats = weight / weight.sum(axis=1, keepdims=True)
    for _ in range(_TILTS):
        gap = (counts - law.sum(axis=0)) / ((law * (1.0 - law)).sum(axis=0) + 1.0)
        tilt = np.clip(tilt + gap, -2.0 * _MAX_TILT, 2.0 * _MAX_TILT)
        law = weight * np.exp(tilt)
        law /= law.sum(axis=1, keepdims=True)
    return law


def _halves(rows: int) -> list[tuple[int, int]]:
    """Blocks of half the rows that are left, down to a few hundred, and none longer than `_CHUNK`."""
    out = []
    start = 0
    while start < rows:
        left = rows - start
        length = left if left <= _LAST else min(-(-left // 2), _CHUNK)
        out.append((start, start + length))
        start += length
    return out
