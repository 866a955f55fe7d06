"""Figure 3: the accounted budget against β and δ, and whether Table 2's budgets are possible. No data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privot.accounting import Gaussian, Poisson, Sampled, WassersteinAccountant
from privot.guarantee import Adjacency
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_run import StudyRun

_PUBLISHED = {"sigma": 0.01, "rate": 1024 / 60000, "steps": 944, "clip": 1.0}
SETTINGS = {"quick": _PUBLISHED, "full": _PUBLISHED}
DELTAS = (1e-10, 1e-8, 1e-5, 1e-3)
BETAS = (1.0, 2.0, 5.0, 10.0)
TABLE_2 = {"MNIST": 0.76, "CIFAR-10": 0.52, "SVHN": 0.40, "F-MNIST": 0.45}


def compute(run: StudyRun, sigma: float, rate: float, steps: int, clip: float) -> dict[str, Any]:
    """ε for β from 1 to 50 and δ from 1e-10 to 1e-5, at the authors' settings (μ = 16, 16 epochs of MNIST)."""

    def accounted(beta: float, delta: float, count: int = steps) -> float:
        accountant = WassersteinAccountant(16.0, beta, allow_unproven=True)
        event = Sampled(Gaussian(sigma * clip, clip, Adjacency.ADD_REMOVE), Poisson(rate))
        accountant.step(event, [0.0], count)  # the best case: removing a record changes nothing
        return accountant.epsilon(delta)

    betas = np.arange(1.0, 51.0)
    deltas = np.geomspace(1e-10, 1e-5, 26)
    by_beta = {f"{d:g}": [accounted(b, d, 1) for b in betas] for d in DELTAS}
    by_delta = {f"{b:g}": [accounted(b, float(d), 1) for d in deltas] for b in BETAS}
    alone = -math.log(1e-10) / 32.0
    whole = accounted(32.0, 1e-10)
    curve = by_beta["1e-10"]
    drops = np.diff(by_delta["1"])
    return {
        "beta": betas.tolist(),
        "delta": deltas.tolist(),
        "by_beta": by_beta,
        "by_delta": by_delta,
        "settings": {"mu": 16, "sigma": sigma, "rate": rate, "steps": steps, "distance": 0.0},
        "least_epsilon_of_the_run": whole,
        "standing": "unproven",
        "adjacency": "add-remove",
        "findings": [
            StudyFinding(
                "ε decreases quickly for β < 10 and slowly above",
                f"by {curve[0] - curve[9]:.2f} from β = 1 to 10, by {curve[9] - curve[49]:.2f} from 10 to 50",
                curve[0] - curve[9] > 5 * (curve[9] - curve[49]),
            ).to_dict(),
            StudyFinding(
                "ε decreases uniformly with exponential growth of δ",
                f"steps of {-drops.max():.4f} to {-drops.min():.4f}",
                bool(drops.max() - drops.min() < 1e-9),
            ).to_dict(),
            StudyFinding(
                "Table 2's budgets at δ = 1e-10 (β = 32): " + ", ".join(f"{k} {v:g}" for k, v in TABLE_2.items()),
                f"ln(1/δ)/β alone is {alone:.4f}",
                StudyVerdict.REPRODUCED if all(v >= alone for v in TABLE_2.values()) else StudyVerdict.REFUTED,
                why="no sum of losses is negative, so no budget is below that term",
            ).to_dict(),
            StudyFinding(
                "Table 2's MNIST budget, 0.76 after 16 epochs",
                f"at the program's σ = {sigma:g} the accountant gives at least {whole:.4g}, whatever the gradients",
                StudyVerdict.REPRODUCED if whole <= 0.76 * 1.01 else StudyVerdict.REFUTED,
                why="a distance of 0 between gradients is the least there is",
            ).to_dict(),
        ],
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """ε of one step against β, and against δ."""
    beta = [(f"δ = {d}", found["beta"], ys, "-") for d, ys in found["by_beta"].items()]
    delta = [(f"β = {b}", found["delta"], ys, "-") for b, ys in found["by_delta"].items()]
    return [
        draw_panels([("one step", beta)], out / "wdp-figure-3a.png", x="β", y="ε (unproven)"),
        draw_panels(
            [("one step", delta)], out / "wdp-figure-3b.png", x="δ", y="ε (unproven)", scales={"xscale": "log"}
        ),
    ]
