"""Lemma 1: the raw absolute moment of a Gaussian by its closed form, against quadrature in twenty digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot.accounting.wasserstein.absolute_moment import log_absolute_moment
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

ORDERS = [1.0, 2.0, 3.0, 7.5, 16.0, 33.3, 64.0]
WITHIN = 1e-10
SETTINGS = {"quick": {"orders": ORDERS, "values": 2}, "full": {"orders": ORDERS, "values": 4}}


def compute(run: StudyRun, orders: list[float], values: int) -> dict[str, Any]:
    """The largest relative error of E|Z|^μ over μ, q from 1e-6 to 1, and d and σ from 1e-3 to 1e3, `values` of each."""
    rows = [{"order": mu, **run.part(f"μ = {mu:g}", partial(_worst, mu, values))} for mu in orders]
    worst = max(row["error"] for row in rows)
    finding = StudyFinding(
        "the raw absolute moment is σ^μ (2V)^{μ/2} Γ((μ+1)/2)/√π times a confluent hypergeometric function",
        f"largest relative error {worst:.2e} over {sum(row['points'] for row in rows)} points",
        worst <= WITHIN,
        why=f"further than {WITHIN:g} from quadrature",
    )
    return {"rows": rows, "findings": [finding.to_dict()]}


def _worst(mu: float, values: int) -> dict[str, Any]:
    shares, sizes = np.geomspace(1e-6, 1.0, values), np.geomspace(1e-3, 1e3, values)
    errors = []
    for q, d, sigma in itertools.product(shares, sizes, sizes):
        deviation = float(sigma) * math.sqrt(2 - 2 * q + 2 * q * q)
        found = float(log_absolute_moment(mu, q * d, deviation))
        errors.append(abs(math.expm1(found - quadrature(mu, float(q * d), deviation))))
    return {"error": max(errors), "points": len(errors)}


def quadrature(mu: float, mean: float, deviation: float) -> float:
    """ln E|Z|^μ for Z ~ N(`mean`, `deviation`²), by integrating |z|^μ times the density in pieces around its peak.

    >>> round(quadrature(2.0, 3.0, 4.0), 12) == round(math.log(25.0), 12)
    True
    """
    import mpmath

    with mpmath.workdps(20):
        ratio, order = mpmath.mpf(mean) / mpmath.mpf(deviation), mpmath.mpf(mu)
        peak = (ratio + mpmath.sqrt(ratio**2 + 4 * order)) / 2
        edges = sorted({mpmath.mpf(0), *(peak + k for k in (-16, -10, -6, -3, 0, 3, 6, 10, 16) if peak + k > 0)})
        top = order * mpmath.log(peak) - (peak - ratio) ** 2 / 2

        def density(z: Any) -> Any:
            if z == 0:
                return mpmath.mpf(0)
            both = mpmath.exp(-((z - ratio) ** 2) / 2) + mpmath.exp(-((z + ratio) ** 2) / 2)
            return mpmath.exp(order * mpmath.log(z) - top) * both

        total = mpmath.quad(density, edges, maxdegree=6) / mpmath.sqrt(2 * mpmath.pi)
        return float(mpmath.log(total) + top + order * mpmath.log(deviation))


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is one number."""
    return []
