"""Intervals of values: how often they hold what the sketches would say without noise, and which orders they decide."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from privot.mechanisms import SketchDesign
from privot.valuation import value_sketches
from privot_lab.studies.product.contributions import six_parties
from privot_lab.studies.product.sketch_parties import DELTA, Labelled, labelled_sketch, other_set
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

CHOSEN = ("clean 1", "flipped 30 %", "noise 0.35", "tilted")
SYNTHETIC = [[3, 8, 1000, 2000, 1.0], [3, 8, 1000, 2000, 0.3], [10, 20, 500, 500, 5.0], [10, 20, 500, 500, 1.0]]
"""Classes, columns, records per party, validation records, ε."""
QUIET = 300.0
"""An ε at which the noise of a sketch moves nothing: what the sketches would say without it."""
DOUBT = 0.001
SETTINGS = {
    "quick": {"data": "mnist", "epsilons": [1.0], "repeats": 3, "synthetic": [[3, 8, 1000, 2000, 1.0]], "rounds": 6},
    "full": {"data": "mnist", "epsilons": [1.0, 10.0], "repeats": 40, "synthetic": SYNTHETIC, "rounds": 40},
}


def compute(
    run: StudyRun, data: str, epsilons: list[float], repeats: int, synthetic: list[list[float]], rounds: int
) -> dict[str, Any]:
    """Coverage of 95 % intervals over draws of all noise, for four parties of images and three of made-up records.

    Of the made-up parties the second is a copy of the first and the third is noisy.
    """
    rows = [
        {"what": data, "epsilon": e, **run.part(f"{data}, ε = {e:g}", partial(_images, run, data, e, repeats))}
        for e in epsilons
    ]
    for classes, dim, n, many, e in synthetic:
        sizes = int(classes), int(dim), int(n), int(many)
        what = f"{sizes[0]} classes, {sizes[1]} columns, {sizes[2]} records"
        found = run.part(f"{what}, ε = {e:g}", partial(_made_up, sizes, float(e), rounds, run.seed))
        rows.append({"what": what, "epsilon": float(e), **found})
    findings = []
    for row in rows:
        total = row["intervals"]
        least = int(binom.ppf(DOUBT, total, 0.95))
        findings.append(
            StudyFinding(
                f"{row['what']}, ε = {row['epsilon']:g}: 95 % intervals hold, and so do 95 % of decided orders",
                f"{row['held']} of {total} hold, mean width {row['width']:.3f}; {row['decided']} of {row['pairs']} "
                f"orders decided, {row['wrong']} wrongly; δ = {DELTA:g}, replace-one, proven",
                row["held"] >= least and row["wrong"] <= binom.isf(DOUBT, max(row["decided"], 1), 0.05),
                published=f"95 %: at least {least} of {total} but for chance of {DOUBT:g}",
                why="with few records per class intervals are too narrow",
            )
        )
    return {"rows": rows, "delta": DELTA, "adjacency": "replace-one", "findings": [f.to_dict() for f in findings]}


def _count(held: list[Labelled], hub: Labelled, design: SketchDesign, epsilon: float, repeats: int) -> dict[str, Any]:
    calm = [labelled_sketch(*pair, QUIET, design) for pair in (*held, hub)]
    truth = value_sketches(calm[:-1], calm[-1], draws=0).value
    apart, upper = np.sign(truth[:, None] - truth), np.triu_indices(len(truth), 1)
    inside = decided = wrong = 0
    widths = []
    for _ in range(repeats):
        noisy = [labelled_sketch(*pair, epsilon, design) for pair in (*held, hub)]
        found = value_sketches(noisy[:-1], noisy[-1])
        assert found.interval is not None
        assert found.decided is not None
        inside += int(((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1])).sum())
        widths.append(float((found.interval[:, 1] - found.interval[:, 0]).mean()))
        sign = np.sign(found.value[:, None] - found.value)
        decided += int(found.decided[upper].sum())
        wrong += int((found.decided & (sign != apart))[upper].sum())
    return {
        "held": inside, "intervals": repeats * len(truth), "width": float(np.mean(widths)), "decided": decided,
        "wrong": wrong, "pairs": repeats * len(upper[0]),
    }  # fmt: skip


def _images(run: StudyRun, data: str, epsilon: float, repeats: int) -> dict[str, Any]:
    base, other = images(run, data)[:2], images(run, other_set(data))[:2]
    design = SketchDesign.around(images(run, data, "test")[0][:2000]).labelled(10)
    g = np.random.default_rng(7)
    order = g.permutation(len(base[0]))
    rest = order[5000:]
    some = dict(six_parties((base[0][rest], base[1][rest]), other, 1000, g))
    hub = base[0][order[:5000]], base[1][order[:5000]]
    return _count([some[name] for name in CHOSEN], hub, design, epsilon, repeats)


def _made_up(sizes: tuple[int, int, int, int], epsilon: float, repeats: int, seed: int) -> dict[str, Any]:
    classes, dim, n, many = sizes
    g = np.random.default_rng(seed)
    middle = np.clip(g.normal(0.5, 0.25, size=(classes, dim)), 0, 1)

    def some(size: int) -> Labelled:
        y = g.integers(0, classes, size)
        return np.clip(middle[y] + g.normal(0, 0.1, size=(size, dim)), 0, 1), y

    first, third, hub = some(n), some(n), some(many)
    noisy = np.clip(third[0] + g.normal(0, 0.3, size=third[0].shape), 0, 1), third[1]
    copy = first[0][::-1].copy(), first[1][::-1].copy()
    return _count([first, copy, noisy], hub, SketchDesign.box(dim, 0.0, 1.0).labelled(classes), epsilon, repeats)


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
