"""Figure 1: published budgets of Laplace and Gaussian noise against the order, and the exact distance. No data."""

from __future__ import annotations

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
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_run import StudyRun

SETTINGS = {"quick": {"points": 19}, "full": {"points": 19}}
SCALES = (1.0, 2.0, 3.0, 5.0)
_AR = Adjacency.ADD_REMOVE


def compute(run: StudyRun, points: int) -> dict[str, Any]:
    """ε of RDP at α and of WDP (Propositions 7 and 8) at μ, both from 1 to 10, Δ = 1; and the exact W_μ."""
    orders = np.linspace(1.0, 10.0, points)
    rows: list[dict[str, Any]] = []
    for scale in SCALES:
        for noise, event in (("Laplace", Laplace(scale, 1.0, _AR)), ("Gaussian", Gaussian(scale, 1.0, _AR))):
            state = published.laplace if noise == "Laplace" else published.gaussian
            rows.append(
                {
                    "noise": noise,
                    "scale": scale,
                    "wdp_published": [state(1.0, scale, m, _AR, allow_unproven=True).epsilon for m in orders],
                    "w_exact": [translation_distance(1.0) for _ in orders],
                    "rdp": [float(e) for e in curve(event, np.maximum(orders, 1.0 + 1e-6))],
                }
            )
    return {
        "orders": orders.tolist(),
        "rows": rows,
        "findings": [f.to_dict() for f in _findings(rows)],
        "standing": "unproven",
        "adjacency": str(_AR),
    }


def _findings(rows: list[dict[str, Any]]) -> list[StudyFinding]:
    # at scale 1 the Gaussian budget is ½ at every order, which counts as not falling
    rising = all(np.all(np.diff(r["wdp_published"]) >= -1e-12) for r in rows)
    steep = next(r for r in rows if r["noise"] == "Gaussian" and r["scale"] == 1.0)["rdp"]
    slow = max(r["wdp_published"][-1] - r["wdp_published"][0] for r in rows)
    slopes = [r["rdp"][-1] - r["rdp"][0] for r in rows if r["noise"] == "Gaussian"]
    below = max(max(r["wdp_published"]) for r in rows)
    return [
        StudyFinding("budgets of WDP increase with μ", f"published formulas rise everywhere: {rising}", rising),
        StudyFinding(
            "the curves of WDP exhibit slow upward trends", f"largest rise from 1 to 10: {slow:.3f}", slow < 1.0
        ),
        StudyFinding(
            "RDP rises steeply for Gaussian noise of scale 1", f"from {steep[0]:.2f} to {steep[-1]:.2f}", steep[-1] > 4
        ),
        StudyFinding(
            "slopes of RDP differ much between scales",
            f"{slopes[0]:.2f} at scale 1, {slopes[-1]:.2f} at scale 5",
            slopes[0] > 10 * slopes[-1],
        ),
        StudyFinding(
            "the plotted WDP budgets bound W_μ",
            f"the exact W_μ is 1 at every order and scale; the largest plotted budget is {below:.3f}",
            StudyVerdict.REPRODUCED if below >= 1.0 else StudyVerdict.REFUTED,
            why="adding noise to two outputs moves neither towards the other: W_μ of a translation is its length",
        ),
    ]


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """One panel per kind of noise: RDP, WDP as published, exact W_μ."""
    panels = []
    for noise in ("Laplace", "Gaussian"):
        rows = [r for r in found["rows"] if r["noise"] == noise]
        lines = [(f"WDP published, scale {r['scale']:g}", found["orders"], r["wdp_published"], ":") for r in rows]
        lines += [(f"RDP, scale {r['scale']:g}", found["orders"], r["rdp"], "-") for r in rows]
        lines.append(("exact W_μ, any scale", found["orders"], rows[0]["w_exact"], "k--"))
        panels.append((f"{noise} noise, Δ = 1", lines))
    return [draw_panels(panels, out / "wdp-figure-1.png", x="order", y="ε")]
