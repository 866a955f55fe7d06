"""Figure 7 and Lemma 1: the squared projection of a fixed vector on a random direction follows a beta law. No data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta, kstest

from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_run import StudyRun

_PUBLISHED = {"dim": 5, "draws": 100_000}
SETTINGS = {"quick": _PUBLISHED, "full": _PUBLISHED}
_CONFIDENCE = 1e-6
"""How seldom a right law may be called wrong."""


def compute(run: StudyRun, dim: int, draws: int) -> dict[str, Any]:
    """Y = (zᵀu/‖u‖)² for a fixed z of length 1, and of length 2, against Beta(½, (d−1)/2)."""
    random = np.random.default_rng(run.seed)
    z = random.standard_normal(dim)
    u = random.standard_normal((draws, dim))
    y = np.square(u @ (z / np.linalg.norm(z)) / np.linalg.norm(u, axis=1))
    law = beta(0.5, (dim - 1) / 2.0)
    apart = float(kstest(y, law.cdf).statistic)
    # Dvoretzky, Kiefer and Wolfowitz
    allowed = math.sqrt(math.log(2.0 / _CONFIDENCE) / (2.0 * draws))
    variance = 2.0 * (dim - 1) / (dim**2 * (dim + 2))
    doubled = 4.0 * y
    edges = np.linspace(0.0, 1.0, 61)
    density, _ = np.histogram(y, bins=edges, density=True)
    middles = (edges[1:] + edges[:-1]) / 2.0
    findings = [
        StudyFinding(
            "Lemma 1: Y follows Beta(1/2, (d−1)/2)",
            f"largest difference of the distribution functions {apart:.4f}; chance alone allows {allowed:.4f}",
            apart <= allowed,
        ),
        StudyFinding(
            "Remark 3: E Y = 1/d and Var Y = 2(d−1)/(d²(d+2))",
            f"{y.mean():.4f} and {y.var():.5f}",
            abs(y.mean() - 1.0 / dim) <= 6.0 * math.sqrt(variance / draws) and abs(y.var() / variance - 1.0) < 0.05,
            published=f"{1.0 / dim:.4f} and {variance:.5f}",
        ),
        StudyFinding(
            "Remark 4: if z is not of length 1, Y follows ‖z‖·Beta",
            f"‖z‖ = 2: mean {doubled.mean():.4f}",
            StudyVerdict.REFUTED,
            published=f"{2.0 / dim:.4f}",
            why=f"Y is a square: it follows ‖z‖²·Beta, of mean {4.0 / dim:.4f}",
        ),
    ]
    return {
        "middles": middles.tolist(),
        "density": density.tolist(),
        "law": law.pdf(middles).tolist(),
        "findings": [f.to_dict() for f in findings],
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """The histogram and the density of the beta law."""
    lines = [("simulated", found["middles"], found["density"], "o"), ("Beta", found["middles"], found["law"], "-")]
    return [
        draw_panels([("Lemma 1", lines)], out / "dp-swd-figure-7.png", x="Y", y="density", scales={"yscale": "log"})
    ]
