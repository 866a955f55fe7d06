"""Adaptation through a stand-in: accuracy on a private target of images, beside the source alone and no privacy.

Settings were chosen on other pairs (letters and clothes: `stand_in_pairs.CHOOSING`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot_lab.studies.product.stand_in_pairs import DIM
from privot_lab.studies.product.stand_in_runs import DELTAS, PRIVATE, adapted
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_charts import draw_panels
from privot_lab.studies.study_run import StudyRun

STATED = {
    "fonts-mnist": (94.3, 96.3), "fonts-usps": (90.5, 93.6), "usps-mnist": (98.4, 99.0), "mnist-usps": (97.5, 97.2),
    "mnist-digits8": (95.0, 94.5),
}  # fmt: skip
"""Source only and stand-in at ε = 1: lab/docs/results/stand-in.md."""
WITHIN = 1.0
SETTINGS = {
    "quick": {
        "pairs": [DIM], "methods": ["source", "stand-in"], "epsilons": [1.0], "seeds": 1,
        "change": {"warmup": 8, "finish": 8, "check": 4, "generator": 20, "fit": 4, "samples": 100, "members": 1},
    },
    "full": {
        "pairs": ["usps-mnist", "mnist-usps", "mnist-digits8"],
        "methods": ["source", "stand-in", "real"], "epsilons": [1.0], "seeds": 1, "change": {},
    },
}  # fmt: skip


def compute(
    run: StudyRun, pairs: list[str], methods: list[str], epsilons: list[float], seeds: int, change: dict[str, Any]
) -> dict[str, Any]:
    """Accuracy by pair, method, ε and seed. Pairs from fonts need fonts_digits.npz, which `font_images` draws."""
    rows = []
    # what is claimed first: a run that is cut off has the rows that matter
    order = sorted(methods, key=lambda method: method not in ("stand-in", "source"))
    for seed in range(seeds):
        for pair in pairs:
            for method in order:
                for epsilon in epsilons if method in PRIVATE else [None]:
                    terms = "" if epsilon is None else f", ε = {epsilon:g}"
                    key = f"{pair}, {method}{terms}, seed {seed}"
                    found = run.part(key, partial(adapted, run, pair, method, epsilon, run.seed + seed, change))
                    rows.append({"pair": pair, "method": method, "epsilon": epsilon, "seed": seed, **found})

    def mean(pair: str, method: str, epsilon: float | None) -> float | None:
        same = {"pair": pair, "method": method, "epsilon": epsilon}
        held = [row["accuracy"] for row in rows if all(row[name] == value for name, value in same.items())]
        return float(np.mean(held)) if held else None

    findings = []
    for pair in pairs:
        for epsilon in epsilons:
            ours, alone, real = mean(pair, "stand-in", epsilon), mean(pair, "source", None), mean(pair, "real", None)
            if ours is None or alone is None:
                continue
            stated = STATED.get(pair) if epsilon == 1.0 else None
            gain = None if stated is None else stated[1] - stated[0]
            shown = f"source only {alone:.1f}, stand-in {ours:.1f}"
            findings.append(
                StudyFinding(
                    f"{pair}, ε = {epsilon:g}: the stand-in changes accuracy as stated, within {WITHIN:g} point"
                    if gain is not None
                    else f"{pair}, ε = {epsilon:g}: the stand-in is at least as good as the source alone",
                    shown
                    + ("" if real is None else f", the real target without privacy {real:.1f}")
                    + f"; δ = {DELTAS[False]:g}, replace-one, proven, {'1 seed' if seeds == 1 else f'{seeds} seeds'}",
                    not change and ours - alone >= (0.0 if gain is None else gain - WITHIN),
                    published="" if stated is None else f"{stated[0]:g} and {stated[1]:g}",
                    why="a shortened run, too short to judge the claim: see the full mode"
                    if change
                    else "below what is stated",
                )
            )
    return {
        "rows": rows,
        "delta": DELTAS[False],
        "adjacency": "replace-one",
        "findings": [f.to_dict() for f in findings],
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Accuracy of the stand-in against ε, one panel per pair, where there is more than one ε."""
    panels = []
    for pair in dict.fromkeys(row["pair"] for row in found["rows"]):
        held = [row for row in found["rows"] if row["pair"] == pair and row["method"] == "stand-in"]
        at = sorted({row["epsilon"] for row in held})
        if len(at) > 1:
            means = [float(np.mean([row["accuracy"] for row in held if row["epsilon"] == e])) for e in at]
            panels.append((pair, [("stand-in", at, means, "o-")]))
    if not panels:
        return []
    return [draw_panels(panels, out / "privot-stand-in.png", x="ε", y="accuracy, %", scales={"xscale": "log"})]
