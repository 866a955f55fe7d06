"""Table 3 and Figure 3: gender classifiers trained on generated faces, DP-Sinkhorn beside DP-MERF and no privacy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from privot_lab.studies.face_scores import DELTA, REAL, accuracies, face_scores, listed
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_run import StudyRun
from privot_lab.studies.synthesis_scores import fid_words, judged, shortened

SETTINGS = {
    "quick": {
        "data": "celeba",
        "epsilon": 10.0,
        "records": 600,
        "test": 300,
        "samples": 300,
        "seeds": 1,
        "classifiers": ["logreg"],
        # means of features of faces take five minutes of a core
        "beside": False,
        "options": {"steps": 20, "blocks": 1, "learning_rate": 0.01, "generator": "deconv", "channels": 32},
    },
    "full": {
        "data": "celeba",
        "epsilon": 10.0,
        "records": 8000,
        "test": 2000,
        "samples": 8000,
        "seeds": 1,
        "classifiers": ["mlp", "cnn"],
        "beside": True,
        "options": {"steps": 8000},
    },
}
PRINTED = {
    (REAL, False): (91.9, 95.0),
    ("sinkhorn", False): (80.8, 82.2),
    ("embedding", True): (64.8, 65.0),
    ("sinkhorn", True): (76.2, 76.3),
}
"""MLP and CNN, in per cent, by method and whether it is private; DP-MERF stands beside `embedding`."""


def compute(
    run: StudyRun,
    data: str,
    epsilon: float,
    records: int,
    test: int,
    samples: int,
    seeds: int,
    classifiers: list[str],
    beside: bool,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Accuracy of gender classifiers on real faces of 32 × 32 × 3, per method and seed; `beside` DP-MERF's counterpart.

    FID where its network, which is no part of privot, lies beside the data (inception.pt).
    """
    rows: list[dict[str, Any]] = []
    for method, private in PRINTED:
        if method == "embedding" and not beside:
            continue
        found = [
            run.part(
                f"{method}, {'ε = ' + format(epsilon, 'g') if private else 'without privacy'}, seed {seed}",
                partial(
                    face_scores, run, data, method, epsilon if private else None, records=records, test=test,
                    samples=samples, options=options, classifiers=classifiers, seed=run.seed + seed,
                ),
            )
            for seed in range(seeds)
        ]  # fmt: skip
        rows.append({"method": method, "private": private, "found": found})
    short = shortened(options)
    by = {(row["method"], row["private"]): accuracies(row["found"]) for row in rows}
    shown = "; ".join(
        f"{method}{'' if private else ', no privacy'} {listed(found)}" for (method, private), found in by.items()
    )
    ours, other = by["sinkhorn", True], by.get(("embedding", True))
    printed = dict(zip(("mlp", "cnn"), PRINTED["sinkhorn", True], strict=True))
    missing = max((printed[kind] - value for kind, value in ours.items() if kind in printed), default=0.0)
    names = " / ".join(classifiers)
    terms = f"{names} at ε = {epsilon:g}, δ = {DELTA:g}, replace-one; {records} faces of 32 × 32"
    better = other is not None and all(ours[kind] > other[kind] for kind in ours)
    findings = [
        StudyFinding(
            "DP-Sinkhorn's faces train better classifiers than DP-MERF's",
            f"{shown} ({terms}); {_fids(rows)}",
            StudyVerdict.REPRODUCED if better and not short else StudyVerdict.NOT_REPRODUCED,
            published="; ".join(
                f"{method}{'' if private else ', no privacy'} {mlp:g} / {cnn:g}"
                for (method, private), (mlp, cnn) in PRINTED.items()
            ),
            why=short or "means of features, released once, carry more than gradients in many steps",
        ),
        StudyFinding(
            "accuracies of DP-Sinkhorn within two points",
            f"{names}: {listed(ours)}",
            judged(missing <= 2.0, short),
            published=" / ".join(f"{value:g}" for value in printed.values()) + " (mlp / cnn)",
            why=short or f"{missing:.1f} points are missing, with a twentieth of the faces that the paper trains on",
        ),
        StudyFinding(
            "uninformative images give about 50 %, generated faces more",
            f"{names}: {listed(ours)}",
            judged(min(ours.values()) > 60.0, short),
            why=short or "one noise in place of three, and nothing un-noised is logged",
        ),
    ]
    return {
        "rows": rows,
        "epsilon": epsilon,
        "delta": DELTA,
        "adjacency": "replace-one",
        "findings": [f.to_dict() for f in findings],
    }


def _fids(rows: list[dict[str, Any]]) -> str:
    """FIDs by method beside the printed ones; real faces have none."""
    held = [
        f"{row['method']}{'' if row['private'] else ', no privacy'} {fid_words(row['found'])}"
        for row in rows
        if any("fid" in each for each in row["found"])
    ]
    return "; ".join(held) if held else fid_words([])


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: pictures of faces stay out of the results."""
    return []
