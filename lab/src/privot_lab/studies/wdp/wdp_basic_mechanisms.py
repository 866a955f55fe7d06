"""Table 1: the printed budgets of DP, RDP and WDP for Laplace and Gaussian noise, beside what the library counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privot.accounting import Gaussian, Laplace
from privot.accounting.rdp import curve
from privot.accounting.wasserstein import published
from privot.accounting.wasserstein.distance import translation_distance
from privot.guarantee import Adjacency
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_run import StudyRun

_PUBLISHED = {"scales": [0.5, 1.0, 2.0, 5.0], "order": 2.0}
SETTINGS = {"quick": _PUBLISHED, "full": _PUBLISHED}
_AR = Adjacency.ADD_REMOVE


def compute(run: StudyRun, scales: list[float], order: float) -> dict[str, Any]:
    """DP, RDP of `order` and WDP of `order` as printed, beside what the library counts, for sensitivity 1."""
    rows: list[dict[str, Any]] = []
    for scale in scales:
        for noise, event in (("Laplace", Laplace(scale, 1.0, _AR)), ("Gaussian", Gaussian(scale, 1.0, _AR))):
            state = published.laplace if noise == "Laplace" else published.gaussian
            rows.append(
                {
                    "noise": noise,
                    "scale": scale,
                    "dp_printed": 1.0 / scale if noise == "Laplace" else None,
                    "rdp_printed": _printed_rdp(noise, scale, order),
                    "rdp": float(curve(event, np.array([order]))[0]),
                    "wdp_printed": state(1.0, scale, order, _AR, allow_unproven=True).epsilon,
                    "wdp_exact": translation_distance(1.0),
                }
            )
    off = max(abs(row["rdp"] / row["rdp_printed"] - 1.0) for row in rows)
    below = [row for row in rows if row["wdp_printed"] < row["wdp_exact"]]
    findings = [
        StudyFinding(
            f"RDP of order {order:g}, as printed",
            f"largest relative difference from the library's curve: {off:.1e}",
            off < 1e-9,
        ),
        StudyFinding(
            "WDP, as printed, bounds W_μ of both mechanisms",
            f"below the exact W_μ = 1 in {len(below)} of {len(rows)} cases; least "
            f"{min(row['wdp_printed'] for row in rows):.3f}",
            StudyVerdict.REPRODUCED if not below else StudyVerdict.REFUTED,
            why="W_μ of two translates is the length of the translation, whatever the noise",
        ),
    ]
    return {"rows": rows, "order": order, "adjacency": str(_AR), "findings": [f.to_dict() for f in findings]}


def _printed_rdp(noise: str, scale: float, order: float) -> float:
    """The formulas of the table, for sensitivity 1 and an order above 1."""
    if noise == "Gaussian":
        return order / (2.0 * scale**2)
    up = order / (2.0 * order - 1.0) * math.exp((order - 1.0) / scale)
    down = (order - 1.0) / (2.0 * order - 1.0) * math.exp(-order / scale)
    return math.log(up + down) / (order - 1.0)


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """No chart: the page shows the rows."""
    return []
