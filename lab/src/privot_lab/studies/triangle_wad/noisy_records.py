"""Figure 1 (c): the gap that noise on single records leaves in a distance, beside that of one noisy sum. No data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from privot.accounting import Gaussian, calibrate
from privot.federation import compare_sketches, sketch
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.mechanisms.clipping import clip_rows
from privot.transport import exact
from privot.vault import Vault
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_run import StudyRun

_COMMON = {"epsilons": [0.5, 1.0, 3.0, 10.0, 30.0], "delta": 1e-5, "distance": 3.0, "radius": 6.0}
SETTINGS = {"quick": {**_COMMON, "records": 300, "seeds": 3}, "full": {**_COMMON, "records": 1000, "seeds": 10}}
_REPLACE = Adjacency.REPLACE_ONE


def compute(
    run: StudyRun,
    epsilons: list[float],
    delta: float,
    distance: float,
    radius: float,
    records: int,
    seeds: int,
) -> dict[str, Any]:
    """|W₂(μ, ν) − Ŵ₂| for two Gaussians in the plane, `distance` apart; records are clipped to `radius`.

    Noise on the records is Gaussian noise of (ε, δ) on every record of μ; sketches are one release of (ε, δ) per side.
    Both are under replace-one. In the limit of many records noise σ gives W₂² = d² + 2(√(1 + σ²) − 1)².
    """
    rows = []
    for epsilon in epsilons:
        sigma = calibrate(lambda s: Gaussian(s, 2.0 * radius, _REPLACE), epsilon=epsilon, delta=delta)
        found = [
            run.part(
                f"ε = {epsilon:g}, seed {seed}",
                partial(_gaps, epsilon, delta, distance, radius, records, sigma, run.seed + seed),
            )
            for seed in range(seeds)
        ]
        limit = float(np.sqrt(distance**2 + 2.0 * (np.sqrt(1.0 + sigma**2) - 1.0) ** 2)) - distance
        rows.append(
            {
                "epsilon": epsilon,
                "sigma": sigma,
                "limit": limit,
                "records": float(np.mean([f["records"] for f in found])),
                "sketches": float(np.mean([f["sketches"] for f in found])),
            }
        )
    return {
        "rows": rows,
        "delta": delta,
        "adjacency": str(_REPLACE),
        "findings": [f.to_dict() for f in _findings(rows, distance)],
    }


def _findings(rows: list[dict[str, float]], distance: float) -> list[StudyFinding]:
    said = [(row["epsilon"], row["records"], row["sketches"]) for row in rows]
    by_records, by_sketches = [row["records"] for row in rows], [row["sketches"] for row in rows]
    falls = all(one > two for one, two in pairwise(by_records))
    better = all(one < two for one, two in zip(by_sketches, by_records, strict=True))
    return [
        StudyFinding(
            "noise on the records leaves a gap in the distance, larger for smaller budgets",
            f"W₂ = {distance:g}; gap " + ", ".join(f"{gap:.2f} at ε = {e:g}" for e, gap, _ in said),
            falls,
        ),
        StudyFinding(
            "so differential privacy is not desirable where the distance must be precise",
            "gap of two sketches, proven: " + ", ".join(f"{gap:.2f} at ε = {e:g}" for e, _, gap in said),
            StudyVerdict.REFUTED if better else StudyVerdict.REPRODUCED,
            why="the gap is that of noise on every single record; a sum of all records needs it once",
        ),
    ]


def _gaps(
    epsilon: float, delta: float, distance: float, radius: float, records: int, sigma: float, seed: int
) -> dict[str, float]:
    random = np.random.default_rng(seed)
    one, two = (clip_rows(random.standard_normal((records, 2)) + np.array([at, 0.0]), radius) for at in (0.0, distance))
    direct = float(exact(one, two).value)
    noisy = one + sigma * random.standard_normal(one.shape)
    design = SketchDesign.plain(2, radius, seed=0)
    shown = [
        sketch(
            Vault(x, clip=radius, adjacency="replace-one", budget=(epsilon, delta)),
            epsilon=epsilon,
            delta=delta,
            design=design,
        )
        for x in (one, two)
    ]
    return {
        "records": abs(float(exact(noisy, two).value) - direct),
        "sketches": abs(float(compare_sketches(*shown, draws=0).value) - direct),
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Gaps against ε."""
    epsilons = [row["epsilon"] for row in found["rows"]]
    lines = [
        ("noise on records", epsilons, [row["records"] for row in found["rows"]], "o-"),
        ("the same, many records", epsilons, [row["limit"] for row in found["rows"]], "--"),
        ("sketches", epsilons, [row["sketches"] for row in found["rows"]], "s-"),
    ]
    path = out / "triangle-wad-figure-1c.png"
    return [draw_panels([("Figure 1 (c)", lines)], path, x="ε", y="gap of W₂", scales={"xscale": "log"})]
