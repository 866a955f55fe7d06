"""Figures 3 and 4, Theorem 2: messages look like Gaussian noise, and what looks like noise gives every record back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot.audit.protocol_attacks.exchanges import play_fedwad, play_triangle
from privot.audit.protocol_attacks.normality import Normality, draw_histograms, normality
from privot.audit.statistics.recovery import judge
from privot.common.files import write_whole
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

_COMMON = {"t": 0.5, "rounds": 20, "noises": ["normal", "uniform"]}
SETTINGS = {
    "quick": {**_COMMON, "sets": ["digits"], "records": 100},
    "full": {**_COMMON, "sets": ["mnist", "fashion_mnist", "cifar10"], "records": 300},
}
ALIKE = 0.05
"""Largest gap to the normal distribution function of numbers that count as Gaussian."""


def compute(run: StudyRun, sets: list[str], records: int, t: float, rounds: int, noises: list[str]) -> dict[str, Any]:
    """Per set and noise: how Gaussian records, γ and η look, and the share of records that come back from η.

    Theorem 2's attacker has γ itself, W(γ, γ̃) = 0, but in another order than the plan's.
    """
    rows = []
    for name in sets:
        for noise in noises:
            make = partial(_looks, run, name, records, t, rounds, noise)
            rows.append({"set": name, "noise": noise} | run.part(f"{name}, {noise} γ", make))
    normal = [row for row in rows if row["noise"] == "normal"]

    def gaps(chosen: list[dict[str, Any]], *kinds: str) -> str:
        return "; ".join(
            f"{row['set']}: "
            + ", ".join(f"{n['name']} {n['distance']:.3f}" for n in row["normality"] if n["name"] in kinds)
            for row in chosen
        )

    def furthest(*kinds: str) -> float:
        return float(max(n["distance"] for row in normal for n in row["normality"] if n["name"] in kinds))

    given = min(row["recovered"] for row in rows)
    findings = [
        StudyFinding(
            "Figure 4: FedWad's γ resembles the raw data, TriangleWad's η follows a Gaussian distribution",
            f"largest gap to a normal law: {gaps(normal, RAW, GAMMA, OURS, THEIRS)}",
            furthest(OURS, THEIRS) < ALIKE < furthest(GAMMA),
        ),
        StudyFinding(
            "Theorem 2: η less a near copy of the defence data still looks Gaussian",
            f"largest gap to a normal law: {gaps(normal, SHIFTED)}",
            furthest(SHIFTED) < ALIKE,
        ),
        StudyFinding(
            "Theorem 2, Figure 3: so messages are uninformative noise, whatever the noise",
            "records recovered to the last digit from the same messages: "
            + ", ".join(f"{row['recovered']:.0%} ({row['set']}, {row['noise']} γ)" for row in rows),
            StudyVerdict.REFUTED if given > 0.5 else StudyVerdict.REPRODUCED,
            why="a histogram says nothing of the order: the optimal plan from η to γ gives each record its noise back",
        ),
    ]
    return {"rows": rows, "records": records, "findings": [f.to_dict() for f in findings]}


RAW, GAMMA, OURS, THEIRS, SHIFTED = "records", "FedWad's γ", "η of A", "η of B", "η − tγ"


def _looks(run: StudyRun, name: str, records: int, t: float, rounds: int, noise: str) -> dict[str, Any]:
    private = images(run, name)[0] * 2.0 - 1.0
    random = np.random.default_rng(run.seed)
    order = random.permutation(len(private))
    x, y = private[order[:records]], private[order[records : 2 * records]]
    # uniform noise of the same deviation
    drawn = random.standard_normal(x.shape) if noise == "normal" else random.uniform(-(3.0**0.5), 3.0**0.5, x.shape)
    shared = play_triangle(x, y, drawn, t=t)
    one, two = shared.of_first[0][1].points, shared.of_second[0][1].points
    kinds = {
        RAW: x,
        GAMMA: play_fedwad(x, y, rounds).last_gamma,
        OURS: one,
        THEIRS: two,
        SHIFTED: one - t * drawn,
    }
    return {
        "normality": [normality(kind, values, run.seed).to_dict() for kind, values in kinds.items()],
        "recovered": judge("shared γ", shared.inverted(), x, 2.0).exact,
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Histograms of the numbers in records and messages, of the first set with normal noise."""
    shown = [Normality(**{**n, "histogram": tuple(n["histogram"])}) for n in found["rows"][0]["normality"]]
    path = out / "triangle-wad-figure-4.png"
    write_whole(path, draw_histograms(shown), mode=0o644)
    return [path]
