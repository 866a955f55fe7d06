"""Dual potentials of transport to a validation set with relaxed masses (unbalanced transport). It sees costs only.

    min_P ⟨P, C⟩ + ε KL(P | a⊗b) + ρ KL(Pᵀ1 | b),   P1 = a uniform
    f_i = −ε ln Σ_j b_j e^{(g_j − C_ij)/ε},   g_j = −(ρ ε/(ρ + ε)) ln Σ_i a_i e^{(f_i − C_ij)/ε}

(Chizat, Peyré, Schmitzer & Vialard 2018, "Scaling algorithms for unbalanced optimal transport problems"; with ρ = ∞
Sinkhorn's). f is the derivative of the minimum in a, up to the constant that calibration removes.

Why not ρ = ∞: two samples of one distribution never have exactly the same shares of classes, and a plan that must move
one surplus record into another class puts the whole cost of that into the potential of *all* records of its class. And
if shares agree, classes far apart in units of ε hardly determine each other's potentials. With a finite ρ the potential
is unique, and a class that is e times too frequent adds at most ρ to its records.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privot.errors import ConvergenceError
from privot.valuation.labelled_records import Array

MAX_SWEEPS, TOLERANCE = 10_000, 1e-4


def relaxed_potential(cost: Array, share: Array, reg: float, relaxation: float) -> Array:
    """f of shape (n,) for costs (n, m), masses `share` (m,) of sum 1, ε = `reg` and ρ = `relaxation`.

    Converged means that no further sweeps would move any g by more than `TOLERANCE`·ε; raises `ConvergenceError`
    otherwise.
    """
    # a constant in a row of costs is a constant in its f; with it, the kernel of outliers would underflow
    least = cost.min(1)
    kernel = np.exp((least[:, None] - cost) / reg)
    return potential_of_kernel(
        least, lambda u: kernel @ u, lambda v: kernel.T @ v, share, reg, relaxation, smallest=1e-300
    )


def potential_of_kernel(
    least: Array,
    rows_of: Callable[[Array], Array],
    columns_of: Callable[[Array], Array],
    share: Array,
    reg: float,
    relaxation: float,
    *,
    smallest: float,
) -> Array:
    """f from products with the kernel K_ij = e^{(least_i − C_ij)/ε}: `rows_of`(u) = K u and `columns_of`(v) = Kᵀ v.

    `smallest` bounds the sums over a column from below: a target far from all records keeps its mass, as far as the
    numbers of the kernel allow.
    """
    power, scaling = relaxation / (relaxation + reg), np.ones(len(share))
    for _ in range(MAX_SWEEPS):
        rows = rows_of(share * scaling)
        columns = np.maximum(columns_of(1.0 / np.maximum(rows, 1e-300)) / len(least), smallest)
        last, scaling = scaling, columns**-power
        # every sweep contracts the error of g by at least this power
        if float(np.abs(np.log(scaling / last)).max()) <= TOLERANCE * (1.0 - power):
            return np.asarray(least - reg * np.log(np.maximum(rows_of(share * scaling), 1e-300)))
    raise ConvergenceError(f"The potentials still moved after {MAX_SWEEPS} sweeps: the records may need rescaling.")
