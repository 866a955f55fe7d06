"""Figure 1 and Lemma 2: the squared sensitivity of k projections, its law, and the published bounds on it. No data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kstest, norm

from privot.accounting.laws.projection_law import bernstein_bound, clt_bound, law
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_run import StudyRun

_PUBLISHED = {"dim": 784, "slices": 200, "failure": 1e-5}
SETTINGS = {"quick": {**_PUBLISHED, "draws": 10_000}, "full": {**_PUBLISHED, "draws": 1_000_000}}
_BLOCK = 10_000


def compute(run: StudyRun, dim: int, slices: int, failure: float, draws: int) -> dict[str, Any]:
    """H = ‖zᵀU‖² for independent directions, simulated, beside its exact law and three bounds that it exceeds with
    probability `failure`.
    """
    random = np.random.default_rng(run.seed)
    blocks = [min(_BLOCK, draws - start) for start in range(0, draws, _BLOCK)]
    # by Lemma 1 each squared projection is a beta variable, whatever z
    h = np.concatenate([random.beta(0.5, (dim - 1) / 2.0, (count, slices)).sum(axis=1) for count in blocks])
    mean, deviation = slices / dim, math.sqrt(2.0 * slices * (dim - 1) / (dim + 2)) / dim
    apart = float(kstest(h, norm(mean, deviation).cdf).statistic)
    allowed = math.sqrt(math.log(2.0 / 1e-6) / (2.0 * draws))
    bernstein, clt = bernstein_bound(dim, slices, failure), clt_bound(dim, slices, failure)
    exact = law(dim, slices, False)
    survival = 1.0 - np.cumsum(exact.masses)
    quantile = float(exact.values[np.searchsorted(-survival, -failure)])
    exceeded = float(np.interp(clt, exact.values, survival))
    edges = np.linspace(h.min(), h.max(), 61)
    density, _ = np.histogram(h, bins=edges, density=True)
    middles = (edges[1:] + edges[:-1]) / 2.0
    findings = [
        StudyFinding(
            "the law of ‖zᵀU‖² is nearly normal",
            f"largest difference of the distribution functions {apart:.4f} (chance alone: {allowed:.4f})",
            apart < 0.05,
        ),
        StudyFinding("the Bernstein bound is above 1", f"{bernstein:.3f}", bernstein > 1.0, published="> 1"),
        StudyFinding(
            "the CLT bound is far smaller than the Bernstein bound",
            f"{clt:.4f} and {bernstein:.3f}",
            clt < bernstein / 5,
        ),
        StudyFinding(
            "the CLT bound is the inverse distribution function of the normal law at 1 − δ",
            f"{clt:.6f} and {norm(mean, deviation).isf(failure):.6f}",
            abs(clt / float(norm(mean, deviation).isf(failure)) - 1.0) < 1e-9,
        ),
        StudyFinding(
            f"‖zᵀU‖² exceeds the CLT bound with probability at most δ = {failure:g}",
            f"with probability {exceeded:.1e}; the exact quantile is {quantile:.4f}",
            StudyVerdict.REPRODUCED if exceeded <= failure else StudyVerdict.REFUTED,
            why="the upper tail of a sum of beta variables is heavier than the normal one",
        ),
        StudyFinding(
            f"‖zᵀU‖² exceeds the Bernstein bound with probability at most δ = {failure:g}",
            f"the exact quantile is {quantile:.4f}",
            bernstein >= quantile,
        ),
    ]
    return {
        "middles": middles.tolist(),
        "density": density.tolist(),
        "normal": norm(mean, deviation).pdf(middles).tolist(),
        "bounds": {"bernstein": bernstein, "clt": clt, "exact quantile": quantile},
        "findings": [f.to_dict() for f in findings],
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """The histogram, the normal density, and the bounds as vertical lines; one far away is named, not drawn."""
    tall, right = max(found["density"]), 2.0 * max(found["middles"])
    lines = [("simulated", found["middles"], found["density"], "o"), ("normal", found["middles"], found["normal"], "-")]
    near = {name: value for name, value in found["bounds"].items() if value <= right}
    lines += [(f"{name} {value:.3f}", [value, value], [0.0, tall], "--") for name, value in near.items()]
    far = "".join(
        f"; {name} at {value:.2f}, off to the right" for name, value in found["bounds"].items() if value > right
    )
    title = f"squared sensitivity{far}"
    return [draw_panels([(title, lines)], out / "dp-swd-figure-1.png", x="‖zᵀU‖²", y="density")]
