"""The null level of sketches: false alarms between samples of one distribution, and which differences are seen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from privot.federation import Sketch, sketch
from privot.federation.sketches.sketch_comparison import tell_apart
from privot_lab.studies.product.sketch_parties import DELTA, Array, designs, parties, vault
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

LEVEL = 0.05
DOUBT = 0.001
"""A count of false alarms is above the stated level if chance gives as many with a smaller probability than this."""
KINDS = ("all classes", "one class", "noisy")
SETTINGS = {
    "quick": {
        "base": "mnist", "records": 300, "repeats": 20, "powers": 1, "around": ["in-domain", "none"],
        "epsilons": [1.0, 10.0],
    },
    "full": {
        "base": "mnist", "records": 1000, "repeats": 100, "powers": 5, "around": ["in-domain", "none"],
        "epsilons": [1.0, 10.0],
    },
}  # fmt: skip


def compute(
    run: StudyRun, base: str, records: int, repeats: int, powers: int, around: list[str], epsilons: list[float]
) -> dict[str, Any]:
    """Alarms at 5 % in `repeats` pairs of one distribution, and for each kind of party in how many of `powers` draws.

    One calibration serves all releases at one ε: every release costs the same.
    """
    rows = []
    for name in around:
        for epsilon in epsilons:
            made = partial(_alarms, run, base, records, repeats, powers, name, epsilon)
            rows.append(run.part(f"around {name}, ε = {epsilon:g}", made))
    allowed = int(binom.isf(DOUBT, repeats, LEVEL))
    findings = []
    for row in rows:
        missed = [
            f"{kind} {seen} of {powers}" for kind, seen in row["seen"].items() if seen < powers and kind != "same"
        ]
        worst = max(row["alarms"].values())
        findings.append(
            StudyFinding(
                f"sketches around {row['around']} data at ε = {row['epsilon']:g}: at most {LEVEL:.0%} false alarms",
                ", ".join(f"{kind} {count} of {repeats}" for kind, count in row["alarms"].items())
                + f"; differences not always seen: {', '.join(missed) or 'none'}; {records} records per party, "
                f"δ = {DELTA:g}, replace-one, proven",
                worst <= allowed,
                published=f"{LEVEL:.0%}, so at most {allowed} of {repeats} but for chance of {DOUBT:g}",
                why=f"{worst} of {repeats}: more than chance gives",
            )
        )
    return {"rows": rows, "delta": DELTA, "adjacency": "replace-one", "findings": [f.to_dict() for f in findings]}


def _alarms(run: StudyRun, base: str, n: int, repeats: int, powers: int, name: str, epsilon: float) -> dict[str, Any]:
    x, y, _ = images(run, base)
    design = designs(run, base)[name]
    sigma = sketch(vault(x[:n], epsilon), epsilon=epsilon, delta=DELTA, design=design).public["sigma"]

    def release(rows: Array) -> Sketch:
        return sketch(vault(rows, 1e3), sigma=sigma, design=design)

    alarms = {}
    for kind in KINDS:
        g, count = np.random.default_rng(11), 0
        source = x[y == 1] if kind == "one class" else x
        for _ in range(repeats):
            both = source[g.choice(len(source), 2 * n, replace=False)]
            if kind == "noisy":
                both = both + 0.2 * g.standard_normal(both.shape)
            count += bool(tell_apart(release(both[:n]), release(both[n:])) <= LEVEL)
        alarms[kind] = count
    seen: dict[str, int] = {}
    for number in range(powers):
        group = parties(run, base, n, 500 + number)
        made = {k: release(v) for k, v in group.items()}
        for k in group:
            if k != "reference":
                seen[k] = seen.get(k, 0) + bool(tell_apart(made["reference"], made[k]) <= LEVEL)
    return {"around": name, "epsilon": epsilon, "alarms": alarms, "seen": seen}


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
