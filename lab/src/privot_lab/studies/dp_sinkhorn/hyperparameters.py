"""Figure 4: learning rates and optimisers (a), ε (b), and bias and variance of the semi-debiased gradient (c)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun
from privot_lab.studies.synthesis_scores import DELTA, judged, mean_of, shortened, synthesis_scores

SETTINGS = {
    "quick": {
        "data": "digits",
        "seeds": 1,
        "epsilons": [1.0, 10.0],
        "rates": {"adam": [0.001, 0.01, 1.0]},
        "fractions": [0.0, 0.4, 1.0],
        "batches": 60,
        "batch": 20,
        "samples": 1000,
        "options": {"steps": 200, "blocks": 1, "learning_rate": 0.01},
    },
    "full": {
        "data": "mnist",
        "seeds": 1,
        "epsilons": [0.5, 1.0, 2.33, 5.0, 10.0],
        "rates": {"adam": [1e-5, 1e-4, 1e-3, 1e-2], "sgd": [1e-3, 1e-2, 1e-1, 1.0]},
        "fractions": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        "batches": 300,
        "batch": 50,
        "samples": 60_000,
        "options": {"steps": 6000},
    },
}
AT = "mlp"


def compute(
    run: StudyRun,
    data: str,
    seeds: int,
    epsilons: list[float],
    rates: dict[str, list[float]],
    fractions: list[float],
    batches: int,
    batch: int,
    samples: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Accuracy of a perceptron on real test images against ε and against the learning rate, at the largest ε.

    Part (c) needs no training: the gradient of the loss with respect to a shift and a scale of generated images, on
    `batches` pairs of batches, for every fraction p of points drawn anew.
    """
    most = max(epsilons)

    def scores(name: str, epsilon: float, own: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            run.part(
                f"{name}, seed {seed}",
                partial(
                    synthesis_scores, run, data, "sinkhorn", epsilon, run.seed + seed, options={**options, **own},
                    samples=samples, classifiers=[AT],
                ),
            )
            for seed in range(seeds)
        ]  # fmt: skip

    by_epsilon = [{"epsilon": e, "accuracy": mean_of(scores(f"ε = {e:g}", e, {}), AT)} for e in epsilons]
    by_rate = [
        {
            "optimizer": how,
            "rate": rate,
            "accuracy": mean_of(scores(f"{how}, rate {rate:g}", most, {"optimizer": how, "learning_rate": rate}), AT),
        }
        for how, some in rates.items()
        for rate in some
    ]
    spread = run.part("bias and variance", partial(_spread, run, data, fractions, batches, batch))
    findings = _findings(by_epsilon, by_rate, spread, data, shortened(options))
    return {
        "by_epsilon": by_epsilon,
        "by_rate": by_rate,
        "by_fraction": spread,
        "delta": DELTA,
        "adjacency": "replace-one",
        "findings": [f.to_dict() for f in findings],
    }


def _spread(run: StudyRun, data: str, fractions: list[float], batches: int, n: int) -> list[dict[str, float]]:
    """For each p, ‖mean G_p − mean G_1‖/‖mean G_1‖ and the variance of G_p over that of G_0.

    The generator is x ↦ mean + s·(x̃ − mean) + b of records x̃ drawn again with noise, at s = 0.7 and b = 0; G is the
    gradient of 2Ŵ(X[0:n], Y) − Ŵ(X[0:n], X[n′:n+n′]) with respect to (s, b).
    """
    import torch

    from privot.transport import sinkhorn

    x, _, _ = images(run, data)
    rows = torch.from_numpy(np.asarray(x, dtype=np.float64))
    mean = rows.mean(0)
    random = torch.Generator().manual_seed(run.seed)
    found: dict[float, list[Any]] = {p: [] for p in (*fractions, 0.0, 1.0)}
    for _ in range(batches):
        y = rows[torch.randint(len(rows), (n,), generator=random)]
        base = rows[torch.randint(len(rows), (2 * n,), generator=random)] - mean
        base = base + 0.1 * torch.randn(base.shape, generator=random, dtype=base.dtype)
        for p, held in found.items():
            scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
            shift = torch.zeros_like(mean, requires_grad=True)
            made, fresh = mean + scale * base + shift, int(n * p)
            reg = 0.05 * x.shape[1] / 16.0
            first = sinkhorn(made[:n], y, reg, tol=1e-3).value
            second = sinkhorn(made[:n], made[fresh : n + fresh], reg, tol=1e-3).value
            (2.0 * first - second).backward()
            assert scale.grad is not None
            assert shift.grad is not None
            held.append(torch.cat([scale.grad[None], shift.grad]))
    stacked = {p: torch.stack(held) for p, held in found.items()}
    truth, unit = stacked[1.0].mean(0), float(stacked[0.0].var(0).sum())
    return [
        {
            "p": p,
            "bias": float((stacked[p].mean(0) - truth).norm() / truth.norm()),
            "variance": float(stacked[p].var(0).sum()) / unit,
        }
        for p in fractions
    ]


def _findings(
    by_epsilon: list[dict[str, Any]],
    by_rate: list[dict[str, Any]],
    spread: list[dict[str, float]],
    data: str,
    short_run: str,
) -> list[StudyFinding]:
    terms = f"{data}, {AT}, δ = {DELTA:g}, replace-one, proven"
    best = max(row["accuracy"] for row in by_rate)
    working = [row for row in by_rate if row["accuracy"] >= 0.75 * best]
    rising = all(a["accuracy"] <= b["accuracy"] + 2.0 for a, b in pairwise(by_epsilon))
    bias, variance = ([row[name] for row in spread] for name in ("bias", "variance"))
    falls = all(a >= b for a, b in pairwise(bias))
    grows = all(a <= b for a, b in pairwise(variance))
    return [
        StudyFinding(
            "(a) Training converges for small enough learning rates, whatever the optimiser",
            "; ".join(f"{row['optimizer']} {row['rate']:g}: {row['accuracy']:.1f}" for row in by_rate)
            + f" ({terms}, ε = {max(row['epsilon'] for row in by_epsilon):g})",
            judged(len(working) >= 2, short_run),
            why=short_run or "GS-WGAN beside it is not run; rates too small for the number of steps do not get far",
        ),
        StudyFinding(
            "(b) Utility grows with ε and stays useful at small ε",
            "; ".join(f"ε = {row['epsilon']:g}: {row['accuracy']:.1f}" for row in by_epsilon) + f" ({terms})",
            judged(rising, short_run),
            why=short_run or ("ε sets the noise, not the steps" if rising else "not monotonic within two points"),
        ),
        StudyFinding(
            "(c) With the fraction p of points drawn anew, the bias of the gradient falls and its variance grows",
            "; ".join(f"p = {row['p']:g}: bias {row['bias']:.2f}, variance {row['variance']:.2f}" for row in spread),
            falls and grows,
            why=f"bias {'falls' if falls else 'does not fall'}, variance {'grows' if grows else 'does not grow'}",
        ),
    ]


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Three panels."""
    rates: dict[str, tuple[list[float], list[float | None]]] = {}
    for row in found["by_rate"]:
        xs, ys = rates.setdefault(row["optimizer"], ([], []))
        xs.append(row["rate"])
        ys.append(row["accuracy"])
    epsilons = [row["epsilon"] for row in found["by_epsilon"]]
    accuracies = [row["accuracy"] for row in found["by_epsilon"]]
    fractions = [row["p"] for row in found["by_fraction"]]
    first = [("learning rate", [(how, *held, "o-") for how, held in rates.items()])]
    second = [("ε", [("sinkhorn", epsilons, accuracies, "o-")])]
    curves = {name: [row[name] for row in found["by_fraction"]] for name in ("bias", "variance")}
    third = [("fraction p", [(name, fractions, curve, "o-") for name, curve in curves.items()])]
    log = {"xscale": "log"}
    return [
        draw_panels(first, out / "dp-sinkhorn-figure-4a.png", x="learning rate", y="accuracy, %", scales=log),
        draw_panels(second, out / "dp-sinkhorn-figure-4b.png", x="ε", y="accuracy, %", scales=log),
        draw_panels(third, out / "dp-sinkhorn-figure-4c.png", x="p", y="relative"),
    ]
