"""Section 6.3: noisy images found by the server from messages, and by their holder at home, beside plain baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.targets.exchange import recorded
from privot.federation import sketch
from privot.federation.protocols.answering import drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.triangle import defence_points, triangle_steps
from privot.mechanisms import SketchDesign
from privot.transport import calibrated_gradients
from privot.valuation import score_by_sketch
from privot.vault import Vault
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
CLASSES = 10
METHODS = (
    "Lava, records",
    "server, TriangleWad constant",
    "server, TriangleWad random",
    "server, FedBary",
    "server, norm of the message",
    "home, sketch",
    "home, norm of the record",
)
_COMMON = {"shares": [0.05, 0.15, 0.30], "noise": 1.0, "epsilon": 1.0, "delta": 1e-5, "rounds": 5}
SETTINGS = {
    "quick": {**_COMMON, "sets": ["mnist", "fashion_mnist", "cifar10"], "records": 200, "validation": 1000, "seeds": 1},
    "full": {**_COMMON, "sets": ["mnist", "fashion_mnist", "cifar10"], "records": 1000, "validation": 2000, "seeds": 5},
}


def compute(
    run: StudyRun,
    sets: list[str],
    shares: list[float],
    noise: float,
    epsilon: float,
    delta: float,
    rounds: int,
    records: int,
    validation: int,
    seeds: int,
) -> dict[str, Any]:
    """The share of noisy images among as many of the highest scores, by set, share of noisy images, method and seed.

    Noise of deviation `noise` is added to pixels in [0, 1]. The sketch of the validation side costs (ε, δ) once under
    replace-one; messages of the protocols protect no record. As many validation as own records take part in them.
    """
    rows: list[dict[str, Any]] = []
    for name in sets:
        x, y, _ = images(run, name)
        design = SketchDesign.around(images(run, name, "test")[0][:1000]).labelled(CLASSES)
        for share in shares:
            for seed in range(seeds):
                make = partial(
                    _recalls, (x, y), design, share, noise, epsilon, delta, rounds, records, validation,
                    run.seed + seed
                )  # fmt: skip
                found = run.part(f"{name}, {share:.0%}, seed {seed}", make)
                rows += [{"set": name, "share": share, "method": m, "recall": r} for m, r in found.items()]
    return {
        "rows": rows,
        "delta": delta,
        "adjacency": "replace-one",
        "findings": _findings(rows, epsilon, delta, records),
    }


def recall(score: Array, bad: NDArray[np.int64]) -> float:
    """Of the bad records, the share among as many of the highest scores.

    >>> recall(np.array([0.1, 3.0, 2.0, 0.2]), np.array([1, 3]))
    0.5
    """
    return len(np.intersect1d(np.argsort(-score, kind="stable")[: len(bad)], bad)) / len(bad)


def _recalls(
    base: tuple[Array, Labels],
    design: SketchDesign,
    share: float,
    noise: float,
    epsilon: float,
    delta: float,
    rounds: int,
    records: int,
    validation: int,
    seed: int,
) -> dict[str, float]:
    random = np.random.default_rng(seed)
    order = random.permutation(len(base[0]))
    own, hub = order[:records], order[records : records + validation]
    x, y = base[0][own].copy(), base[1][own]
    bad = random.choice(records, round(share * records), replace=False)
    x[bad] += noise * random.standard_normal(x[bad].shape)
    beside = base[0][hub[:records]]
    vault = Vault(
        base[0][hub], base[1][hub], classes=CLASSES, clip=1.0, adjacency="replace-one", budget=(epsilon, delta)
    )

    def moved(defence: str) -> Callable[[], Array]:
        def make() -> Array:
            one, two = messages(x, beside, defence)
            return gradients(one, two)

        return make

    scores: dict[str, Callable[[], Array]] = {
        "Lava, records": lambda: gradients(x, beside),
        "server, TriangleWad constant": moved("constant"),
        "server, TriangleWad random": moved("random"),
        "server, FedBary": lambda: gradients(_fedwad_points(x, beside, rounds), beside),
        "server, norm of the message": lambda: (messages(x, beside, "random")[0] ** 2).sum(1),
        "home, sketch": lambda: (
            score_by_sketch((x, y), sketch(vault, epsilon=epsilon, delta=delta, design=design), design).score
        ),
        "home, norm of the record": lambda: (x**2).sum(1),
    }
    return {method: recall(scores[method](), bad) for method in METHODS}


def gradients(x: Array, y: Array) -> Array:
    """LAVA's calibrated gradients."""
    return np.asarray(calibrated_gradients(x, y).value)


def messages(x: Array, y: Array, defence: str) -> tuple[Array, Array]:
    """η_μ and η_ν of TriangleWad at t = ½, in the order of the records."""
    heard: list[list[Any]] = [[], []]
    sides = [recorded(local_party(points), said) for points, said in zip((x, y), heard, strict=True)]
    drive(triangle_steps(defence_points(defence, x, 1), 0.5), *sides)
    one, two = (np.asarray(said[0][1].points) for said in heard)
    return one, two


def _fedwad_points(x: Array, y: Array, rounds: int) -> Array:
    """γ of the last round: an interpolant from the first party's, and so in the order of its records."""
    random = np.random.default_rng(3)
    heard: list[Any] = []
    steps = fedwad_steps(random.standard_normal(x.shape), rounds, generator=random)
    drive(steps, recorded(local_party(x), heard), local_party(y))
    return np.asarray(heard[-1][0].towards)


def _findings(rows: list[dict[str, Any]], epsilon: float, delta: float, records: int) -> list[dict[str, Any]]:
    def mean(method: str) -> float:
        return float(np.mean([row["recall"] for row in rows if row["method"] == method]))

    def by_share(method: str) -> str:
        shares = sorted({row["share"] for row in rows})
        found = [[r["recall"] for r in rows if (r["method"], r["share"]) == (method, s)] for s in shares]
        return ", ".join(f"{np.mean(f):.2f} ({s:.0%} noisy)" for s, f in zip(shares, found, strict=True))

    def least_epsilon(method: str) -> float:
        """The ε that the rates need at least: (ε, δ)-privacy has recall ≤ e^ε·(false alarms) + δ.

        Where no false alarm is seen among n clean records their rate is below 3/n with 95 % confidence.
        """
        found = []
        for share in {row["share"] for row in rows}:
            these = [r["recall"] for r in rows if (r["method"], r["share"]) == (method, share)]
            reached = float(np.mean(these))
            clean = (1.0 - share) * records * len(these)
            false = max(share * (1.0 - reached) / (1.0 - share), 3.0 / clean)
            found.append(float(np.log(max(reached - delta, 1e-9) / false)))
        return max(found)

    refuted = least_epsilon("server, TriangleWad random")
    triangle = max(mean("server, TriangleWad constant"), mean("server, TriangleWad random"))
    found = [
        StudyFinding("Lava, which sees the records, finds all", by_share("Lava, records"),
                     mean("Lava, records") > 0.95, published="100 %"),
        StudyFinding("the server finds noisy images in TriangleWad's messages",
                     f"constant γ: {by_share('server, TriangleWad constant')}; "
                     f"random γ: {by_share('server, TriangleWad random')}",
                     triangle > 0.7, published="75 %, no false alarm"),
        StudyFinding("… and hardly in FedBary's", by_share("server, FedBary"), mean("server, FedBary") < 0.5,
                     published="25 %", why="γ is an interpolant of the records and keeps a part of their noise; the "
                     "text does not say how its points were matched to records"),
        StudyFinding("… without learning anything of single records",
                     f"random γ: rates like these need ε of at least about {refuted:.1f}; the norm of the message "
                     f"alone finds {by_share('server, norm of the message')}",
                     StudyVerdict.REFUTED if refuted > epsilon else StudyVerdict.REPRODUCED,
                     why="under (ε, δ)-privacy recall is at most e^ε times the rate of false alarms plus δ"),
        StudyFinding("finding them needs transport",
                     f"the norm of a record, at home, no other side: {by_share('home, norm of the record')}; "
                     f"a sketch, ε = {epsilon:g}, proven: {by_share('home, sketch')}",
                     StudyVerdict.REFUTED if mean("home, norm of the record") >= triangle - 0.05
                     else StudyVerdict.REPRODUCED,
                     why="noise of deviation 1 in every pixel makes a record long"),
    ]  # fmt: skip
    return [f.to_dict() for f in found]


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """No chart: the page shows the findings."""
    return []
