"""Values of six parties from sketches, beside values from records, exact transport and a classifier's accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from privot.mechanisms import SketchDesign
from privot.valuation import value_records, value_sketches
from privot.valuation.labelled_records import LABEL_WEIGHT
from privot.valuation.shapley import CoalitionPlan
from privot_lab.studies.product.sketch_parties import DELTA, Labelled, labelled_sketch, other_set
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

Values = NDArray[np.float64]
CLASSES, VALIDATION = 10, 5000
STATED = {1.0: 0.96, 10.0: 0.99}
"""Mean rank correlation with values from records, 1,000 records per party: lab/docs/results/valuation.md."""
_COMMON = {"data": "mnist", "epsilons": [1.0, 10.0]}
SETTINGS = {
    "quick": {**_COMMON, "records": [1000], "seeds": [100], "few": [30, 100]},
    "full": {**_COMMON, "records": [1000, 5000], "seeds": list(range(100, 110)), "few": [60, 300]},
}


def compute(
    run: StudyRun, data: str, epsilons: list[float], records: list[int], seeds: list[int], few: list[int]
) -> dict[str, Any]:
    """Values by party, and rank correlations of the six values, per seed, size of a party and ε.

    `few` records of a party and of the validation side enter the exact transport between single records.
    """
    rows = []
    for n in records:
        for seed in seeds:
            made = partial(_seed, run, data, epsilons, n, seed, few)
            rows.append({"records": n, "seed": seed, **run.part(f"{data}, {n} records, seed {seed}", made)})
    findings = []
    for n in records:
        of = [row for row in rows if row["records"] == n]
        for epsilon in epsilons:
            name = f"ε = {epsilon:g}"
            ranks = [row["agree"][f"{name} with records"] for row in of]
            others = {
                what: float(np.mean([row["agree"][f"{name} with {what}"] for row in of]))
                for what in ("transport", "accuracy")
            }
            stated = STATED.get(epsilon) if n == 1000 else None
            least = 0.8 if stated is None else stated - 0.1
            findings.append(
                StudyFinding(
                    f"values from sketches of {n} records at ε = {epsilon:g} rank parties as values from records do "
                    f"(at least {least:.2f})",
                    f"rank correlation {np.mean(ranks):.2f} (least {min(ranks):.2f}); with exact transport "
                    f"{others['transport']:.2f}, with a classifier's accuracy {others['accuracy']:.2f}; δ = {DELTA:g}, "
                    f"replace-one, proven, {'1 seed' if len(of) == 1 else f'{len(of)} seeds'}",
                    float(np.mean(ranks)) >= least,
                    published="" if stated is None else f"{stated:g}",
                    why="below what is stated",
                )
            )
        worst = (
            [min(row["values"]["ε = 10"], key=row["values"]["ε = 10"].get) for row in of] if 10.0 in epsilons else []
        )
        if worst:
            harmful = sum(name == "other set" for name in worst)
            findings.append(
                StudyFinding(
                    f"a party that holds another set of {n} records has the lowest value at ε = 10",
                    f"in {harmful} of {len(worst)} seeds",
                    harmful == len(worst),
                    published="−0.027, all others above 0.06",
                    why="another party is valued lower",
                )
            )
    return {"rows": rows, "delta": DELTA, "adjacency": "replace-one", "findings": [f.to_dict() for f in findings]}


def six_parties(base: Labelled, other: Labelled, n: int, g: np.random.Generator) -> Iterator[tuple[str, Labelled]]:
    """Six of varying quality, n records each, without a record in common."""
    order = g.permutation(len(base[0]))

    def some(rows: Any) -> Labelled:
        return base[0][rows].copy(), base[1][rows].copy()

    cut = [order[k * n : (k + 1) * n] for k in range(4)]
    yield "clean 1", some(cut[0])
    yield "clean 2", some(cut[1])
    x, y = some(cut[2])
    k = int(0.3 * n)
    y[:k] = (y[:k] + g.integers(1, CLASSES, k)) % CLASSES
    yield "flipped 30 %", (x, y)
    x, y = some(cut[3])
    yield "noise 0.35", (x + 0.35 * g.standard_normal(x.shape), y)
    rest = order[4 * n :]
    weight = np.where(base[1][rest] < 3, 3.0, 1.0)
    yield "tilted", some(g.choice(rest, n, replace=False, p=weight / weight.sum()))
    rows = g.choice(len(other[0]), n, replace=False)
    yield "other set", (other[0][rows], other[1][rows])


def _by_transport(held: list[Labelled], validation: Labelled, few: list[int], g: np.random.Generator) -> Values:
    """Shapley values of minus the exact label-aware transport cost between samples of single records."""
    own = [g.choice(len(x), few[0], replace=False) for x, _ in held]
    at = g.choice(len(validation[0]), few[1], replace=False)
    x, y = (np.concatenate([party[side][i] for party, i in zip(held, own, strict=True)]) for side in (0, 1))
    vx, vy = validation[0], validation[1]
    means = np.stack([vx[vy == c].mean(0) for c in range(CLASSES)])
    cost = cdist(x, vx[at], "sqeuclidean")
    cost += LABEL_WEIGHT * cdist(means, means, "sqeuclidean")[y][:, vy[at]]
    owner = np.repeat(np.arange(len(held)), few[0])
    middle = vx.mean(0)
    empty = ((vx[at] - middle) ** 2).sum(1).mean()
    empty += LABEL_WEIGHT * ((means[vy[at]] - middle) ** 2).sum(1).mean()

    def worth(coalition: int) -> float:
        inside = cost[(coalition >> owner & 1).astype(bool)]
        if not len(inside):
            return 0.0
        plan = ot.emd(np.full(len(inside), 1 / len(inside)), np.full(few[1], 1 / few[1]), inside, numItermax=10**9)
        return 1.0 - float(plan[plan > 0] @ inside[plan > 0]) / float(empty)

    game = CoalitionPlan.of(len(held))
    return game.values(game.worths(worth))


def _by_accuracy(held: list[Labelled], validation: Labelled, g: np.random.Generator) -> Values:
    """Shapley values of the validation accuracy of a ridge classifier trained on 300 records per party."""
    grams = []
    for x, y in held:
        i = g.choice(len(x), 300, replace=False)
        rows = np.c_[x[i], np.ones(len(i))]
        grams.append((rows.T @ rows, rows.T @ np.eye(CLASSES)[y[i]]))
    test = np.c_[validation[0][:2000], np.ones(min(2000, len(validation[0])))]

    def worth(coalition: int) -> float:
        inside = [gram for k, gram in enumerate(grams) if coalition >> k & 1]
        if not inside:
            return 1.0 / CLASSES
        left = np.sum([gram[0] for gram in inside], 0)
        right = np.sum([gram[1] for gram in inside], 0)
        weights = np.linalg.solve(left + 10.0 * np.eye(len(left)), right)
        return float(((test @ weights).argmax(1) == validation[1][:2000]).mean())

    game = CoalitionPlan.of(len(held))
    return game.values(game.worths(worth))


def _seed(run: StudyRun, data: str, epsilons: list[float], n: int, seed: int, few: list[int]) -> dict[str, Any]:
    base, other = images(run, data)[:2], images(run, other_set(data))[:2]
    design = SketchDesign.around(images(run, data, "test")[0][:2000]).labelled(CLASSES)
    g = np.random.default_rng(seed)
    order = g.permutation(len(base[0]))
    validation = base[0][order[:VALIDATION]], base[1][order[:VALIDATION]]
    rest = order[VALIDATION:]
    made = dict(six_parties((base[0][rest], base[1][rest]), other, n, g))
    held = list(made.values())
    against: dict[str, Values] = {"records": value_records(held, validation).value}
    against |= {"transport": _by_transport(held, validation, few, g), "accuracy": _by_accuracy(held, validation, g)}
    values = dict(against)
    for e in epsilons:
        sketches = [labelled_sketch(x, y, e, design) for x, y in held]
        values[f"ε = {e:g}"] = value_sketches(sketches, labelled_sketch(*validation, e, design), draws=0).value
    agree = {
        f"{one} with {what}": float(spearmanr(values[one], against[what]).statistic)
        for one in values
        for what in against
        if one != what
    }
    return {
        "values": {one: dict(zip(made, map(float, value), strict=True)) for one, value in values.items()},
        "agree": agree,
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
