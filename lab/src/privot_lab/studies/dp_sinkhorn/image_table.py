"""Table 1: classifiers trained on grey images that DP-Sinkhorn generated at ε = 10."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun
from privot_lab.studies.synthesis_scores import (
    DELTA,
    fid_after,
    judged,
    listed,
    mean_of,
    open_finding,
    open_rows,
    shortened,
    synthesis_scores,
)

NAMES = ["logreg", "mlp", "cnn"]
PRINTED: dict[str, dict[str, tuple[float, ...]]] = {
    "mnist": {"sinkhorn": (82.8, 82.7, 83.2), "embedding": (79.4, 78.3, 82.1)},
    "fashion_mnist": {"sinkhorn": (75.1, 74.6, 71.1), "embedding": (75.5, 74.5, 75.4)},
}
"""DP-Sinkhorn and DP-MERF, which releases means of random features once, as `embedding` does."""
OPENLY: dict[tuple[str, float], dict[str, float]] = {
    ("mnist", 1.0): {"logreg": 89.0, "mlp": 89.0, "cnn": 91.0},
    ("mnist", 3.0): {"logreg": 87.7, "mlp": 87.3, "cnn": 90.6},
    ("fashion_mnist", 1.0): {"logreg": 78.4, "mlp": 79.1, "cnn": 73.9},
    ("fashion_mnist", 3.0): {"logreg": 78.4, "mlp": 78.4, "cnn": 73.3},
}
"""Sinkhorn without privacy, by set and by the weight m of the L1 cost."""
FIDS = {"mnist": {"sinkhorn": 48.4, "embedding": 116.3}, "fashion_mnist": {"sinkhorn": 128.3, "embedding": 132.6}}
WITHIN = 2.0
"""Points within which a figure counts as the same."""
SETTINGS = {
    "quick": {
        "sets": ["digits"],
        "seeds": 1,
        "epsilon": 10.0,
        "classifiers": ["logreg", "mlp"],
        "records": 0,
        "samples": 1000,
        # a run of seconds: larger steps in place of many
        "options": {"steps": 250, "blocks": 1, "learning_rate": 0.01},
        "mixtures": {},
        "open_mixtures": [1.0],
        "open_steps": 200,
    },
    "full": {
        "sets": ["mnist", "fashion_mnist"],
        "seeds": 1,
        "epsilon": 10.0,
        "classifiers": NAMES,
        "records": 0,
        "samples": 60_000,
        "options": {"steps": 40_000},
        "mixtures": {"mnist": 1.0, "fashion_mnist": 3.0},
        "open_mixtures": [1.0, 3.0],
        "open_steps": 10_000,
    },
}


def compute(
    run: StudyRun,
    sets: list[str],
    seeds: int,
    epsilon: float,
    classifiers: list[str],
    records: int,
    samples: int,
    options: dict[str, Any],
    mixtures: dict[str, float],
    open_mixtures: list[float],
    open_steps: int,
) -> dict[str, Any]:
    """Accuracy on real test images, per set, method and seed; release and training are repeated for every seed.

    `mixtures` are the weights m of the L1 cost by set, `open_mixtures` those of the runs without privacy; `options`
    change those of `sinkhorn`. FID where its network is at hand.
    """
    rows = []
    for data in sets:
        own = {**options, **({"mixture": mixtures[data]} if data in mixtures else {})}
        for method, given in (("sinkhorn", own), ("embedding", None)):
            found = [
                run.part(
                    f"{data}, {method}, seed {seed}",
                    partial(
                        synthesis_scores, run, data, method, epsilon, run.seed + seed, options=given,
                        records=records, samples=samples, classifiers=classifiers, with_fid=True,
                    ),
                )
                for seed in range(seeds)
            ]  # fmt: skip
            rows.append({"data": data, "method": method, "found": found})
    plain = {
        m: open_rows(
            run, sets, "sinkhorn", seeds, steps=open_steps, samples=samples, classifiers=classifiers, mixture=m,
            with_fid=True,
        )
        for m in open_mixtures
    }  # fmt: skip
    short = shortened(options)
    findings = [f for data in sets for f in _findings(data, rows, classifiers, epsilon, short)]
    findings += [
        open_finding(data, f"Sinkhorn, m = {m:g}", by[data], OPENLY.get((data, m), {}), short)
        for data in sets
        for m, by in plain.items()
    ]
    return {
        "rows": rows,
        "without_privacy": {f"m = {m:g}": by for m, by in plain.items()},
        "epsilon": epsilon,
        "delta": DELTA,
        "adjacency": "replace-one",
        "findings": [f.to_dict() for f in findings],
    }


def _findings(
    data: str, rows: list[dict[str, Any]], names: list[str], epsilon: float, short_run: str
) -> list[StudyFinding]:
    held = {row["method"]: row["found"] for row in rows if row["data"] == data}
    ours, other = held["sinkhorn"], held["embedding"]
    terms = f"ε = {epsilon:g} at δ = {DELTA:g}, replace-one, {ours[0]['standing']}"
    printed = PRINTED.get(data)
    cells = " / ".join(names)
    better = sum(mean_of(ours, name) > mean_of(other, name) for name in names)
    ordered = StudyFinding(
        f"{data}: DP-Sinkhorn trains better classifiers than means of random features (DP-MERF)",
        f"{cells}: sinkhorn {listed(ours, names)}{fid_after(ours)}; embedding {listed(other, names)}{fid_after(other)} "
        f"({terms})",
        better == len(names) and not short_run,
        published=""
        if printed is None
        else "; ".join(f"{m} {' / '.join(map(str, v))}, FID {FIDS[data][m]:g}" for m, v in printed.items()),
        why=short_run
        or "features with bandwidths chosen by public facts, released once, carry more than gradients in many steps",
    )
    if printed is None:
        return [ordered]
    short = [p - mean_of(ours, name) for p, name in zip(printed["sinkhorn"], NAMES, strict=True) if name in names]
    reached = StudyFinding(
        f"{data}: accuracies of DP-Sinkhorn at ε = {epsilon:g}, within {WITHIN:g} points",
        f"{cells}: {listed(ours, names)} ({terms})",
        judged(max(short) <= WITHIN, short_run),
        published=" / ".join(map(str, printed["sinkhorn"])),
        why="the whole gradient is clipped and noised once, and nothing un-noised is logged"
        if max(short) <= WITHIN
        else f"{max(short):.1f} points are missing",
    )
    return [reached, ordered]


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
