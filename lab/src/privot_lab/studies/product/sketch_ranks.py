"""Do private sketches order parties as true distances do? Rank correlation of W₂ and sliced W₂, and relative errors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from privot.accounting import projection
from privot.federation import compare_sketches, sketch, triangle
from privot.mechanisms import RandomProjection
from privot.transport import exact, sliced
from privot_lab.studies.product.sketch_parties import CLIP, DELTA, Array, designs, parties, vault
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

STATED = {("in-domain", 1.0): 0.95, ("in-domain", 10.0): 0.976, ("none", 1.0): 0.938, ("none", 10.0): 0.959}
"""Mean rank correlation with W₂ on MNIST, 1,000 records per party: lab/docs/results/federation.md."""
WITHIN = 0.03
PAIRS = 25
"""Pairs among the parties, besides every party with the reference."""
SETTINGS = {
    "quick": {
        "base": "mnist", "records": 300, "seeds": [13], "noises": 1, "epsilons": [1.0, 10.0],
        "around": ["in-domain", "none"], "peers": True, "most": 300, "slices": 100,
    },
    "full": {
        "base": "mnist", "records": 1000, "seeds": [13, 14], "noises": 4, "epsilons": [1.0, 10.0],
        "around": ["in-domain", "other domain", "none"], "peers": True, "most": 2000, "slices": 300,
    },
}  # fmt: skip


def compute(
    run: StudyRun,
    base: str,
    records: int,
    seeds: list[int],
    noises: int,
    epsilons: list[float],
    around: list[str],
    peers: bool,
    most: int,
    slices: int,
) -> dict[str, Any]:
    """(rank W₂, rank sliced, median error W₂, sliced) per seed and draw of noise, by what the sketch is built around.

    `most` records of a side are enough for the exact distances; `peers` adds DP-SWD (ten projections per record at the
    same budget) and TriangleWad with random defence data, which protects nobody.
    """
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        made = partial(_seed, run, base, records, seed, noises, epsilons, around, peers, most, slices)
        rows += run.part(f"{base}, {records} records, seed {seed}", made)
    mean: dict[tuple[str, float | None], NDArray[np.float64]] = {}
    for name, epsilon in dict.fromkeys((row["sketch"], row["epsilon"]) for row in rows):
        held = [row["measured"] for row in rows if (row["sketch"], row["epsilon"]) == (name, epsilon)]
        mean[name, epsilon] = np.mean(held, 0)
    whole = base == "mnist" and records == 1000
    findings = []
    for name, epsilon in mean:
        if name not in around or epsilon is None:
            continue
        w, s, error, sliced_error = mean[name, epsilon]
        stated = STATED.get((name, epsilon)) if base == "mnist" else None
        worst = min(r["measured"][0] for r in rows if (r["sketch"], r["epsilon"]) == (name, epsilon))
        findings.append(
            StudyFinding(
                f"sketches around {name} data at ε = {epsilon:g} rank parties as true distances do"
                + (f" (correlation within {WITHIN:g} of the stated one)" if whole and stated else " (at least 0.8)"),
                f"W₂ {w:.3f} (worst {worst:.3f}), sliced W₂ {s:.3f}; median errors {error:.3f} and {sliced_error:.3f}; "
                f"{base}, {records} records per party, δ = {DELTA:g}, replace-one, proven",
                w >= (0.8 if stated is None or not whole else stated - WITHIN),
                published="" if stated is None else f"W₂ {stated:g} with 1,000 records",
                why="public data of another domain mislead where the domains differ in scale"
                if name == "other domain"
                else "fewer records than the stated figure is of"
                if not whole
                else "below what is stated",
            )
        )
    if peers:
        own = max(around, key=lambda name: float(mean[name, min(epsilons)][0]))
        rivals = {name: mean[name, e][0] for name, e in mean if name == "DP-SWD" and e == min(epsilons)}
        findings.append(
            StudyFinding(
                f"at ε = {min(epsilons):g} a sketch says more than DP-SWD's ten projections of every record",
                f"rank correlation with W₂: {own} {mean[own, min(epsilons)][0]:.3f}, DP-SWD {rivals['DP-SWD']:.3f}; "
                f"random TriangleWad, which protects nobody, {mean['random triangle', None][0]:.3f}",
                bool(mean[own, min(epsilons)][0] > rivals["DP-SWD"]),
                published="0.950 and −0.006",
            )
        )
    return {
        "rows": rows,
        "delta": DELTA,
        "adjacency": "replace-one",
        "findings": [f.to_dict() for f in findings],
    }


def pairs_of(names: list[str]) -> list[tuple[str, str]]:
    """Everybody with the reference, and `PAIRS` pairs more."""
    rest = [name for name in names if name != "reference"]
    among = [(a, b) for i, a in enumerate(rest) for b in rest[i + 1 :]]
    picked = np.random.default_rng(7).choice(len(among), PAIRS, replace=False)
    return [("reference", name) for name in rest] + [among[i] for i in picked]


def _seed(
    run: StudyRun,
    base: str,
    n: int,
    seed: int,
    noises: int,
    epsilons: list[float],
    around: list[str],
    peers: bool,
    most: int,
    slices: int,
) -> list[dict[str, Any]]:
    group = parties(run, base, n, seed)
    which = pairs_of(list(group))
    g = np.random.default_rng(seed)
    few = {k: v if len(v) <= most else v[g.choice(len(v), most, replace=False)] for k, v in group.items()}
    whole = np.array([float(exact(few[a], few[b]).value) for a, b in which])
    line = np.array([float(sliced(group[a], group[b], slices=slices, seed=1).value) for a, b in which])
    rows: list[dict[str, Any]] = []

    def note(name: str, epsilon: float | None, w: Array, s: Array) -> None:
        ranks = [float(spearmanr(found, truth)[0]) for found, truth in ((w, whole), (s, line))]
        errors = [float(np.median(np.abs(found / truth - 1))) for found, truth in ((w, whole), (s, line))]
        rows.append({"sketch": name, "epsilon": epsilon, "seed": seed, "measured": [*ranks, *errors]})

    known = designs(run, base)
    for epsilon in epsilons:
        for name in around:
            for _ in range(noises):
                made = {
                    k: sketch(vault(v, epsilon), epsilon=epsilon, delta=DELTA, design=known[name])
                    for k, v in group.items()
                }
                pair = [compare_sketches(made[a], made[b], draws=0) for a, b in which]
                note(name, epsilon, np.array([c.w2.value for c in pair]), np.array([c.sliced.value for c in pair]))
        if peers:
            plan = projection(784, 10, adjacency="replace-one", delta=DELTA, epsilon=epsilon, clip=CLIP)
            shown = {
                k: np.asarray(
                    vault(v, epsilon * 1.001).release(RandomProjection(10, plan.sigma, seed=3), purpose="peer").value
                )
                for k, v in group.items()
            }
            far = np.array([np.sqrt(np.mean((np.sort(shown[a], 0) - np.sort(shown[b], 0)) ** 2)) for a, b in which])
            note("DP-SWD", epsilon, far, far)
    if peers:
        open_ = np.array([float(triangle(few[a], few[b], defence="random", seed=5).value) for a, b in which])
        note("random triangle", None, open_, open_)
    return rows


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
