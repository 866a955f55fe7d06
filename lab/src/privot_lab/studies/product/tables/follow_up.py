"""Whether a baseline and a follow-up still go together in a small synthetic table: 2,139 patients as in ACTG 175.

CD4 counts at the start and after 20 weeks are made up: normal, with the trial's means and spreads and a correlation of
0.58. The wide table has eight more columns (age, weight, four yes or no, the arm, and the event as the label), of which
only the event depends on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot.tables import Column, Schema, Table, TableCodec
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

PATIENTS, CORRELATION, WANTED = 2139, 0.58, 0.4
CD4 = (Column("cd40", "integer", 0, 1200), Column("cd420", "integer", 0, 1200))
FLAGS = ("sex", "hemo", "drugs", "symptom")
OTHERS = (
    Column("age", "integer", 12, 70),
    Column("wtkg", "continuous", 30, 160),
    *(Column(name, "boolean") for name in FLAGS),
    Column("arms", "categorical", categories=("a", "b", "c", "d")),
    Column("cid", "boolean"),
)
TABLES = {2: "the two columns", 10: "ten columns"}
_COMMON = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "columns": [2, 10]}
SETTINGS = {"quick": {**_COMMON, "draws": 2}, "full": {**_COMMON, "draws": 20}}


def compute(
    run: StudyRun, epsilon: float, delta: float, adjacency: str, columns: list[int], draws: int
) -> dict[str, Any]:
    """Correlations in as many synthetic rows as there are patients; other patients in every draw."""
    found, findings = {}, []
    for width in columns:
        pairs = [
            run.part(
                f"{width} columns, draw {draw}",
                partial(correlations, run.seed + draw, epsilon, width > 2, delta=delta, adjacency=adjacency),
            )
            for draw in range(draws)
        ]
        real, made = np.transpose(pairs)
        below = int((made < WANTED).sum())
        spread = float(made.std(ddof=1)) if draws > 1 else 0.0
        found[str(width)] = {"real": real.tolist(), "synthetic": made.tolist()}
        findings.append(
            StudyFinding(
                f"{TABLES.get(width, f'{width} columns')}: a correlation of {CORRELATION} is at least {WANTED} in "
                "synthetic rows, on average",
                f"{made.mean():.3f}, standard deviation {spread:.3f}, smallest {made.min():.3f}, below {WANTED} in "
                f"{below} of {draws} draws; records {real.mean():.3f} (ε = {epsilon:g}, δ = {delta:g}, {adjacency}, "
                "proven)",
                bool(made.mean() >= WANTED),
                published=f"at least {WANTED}",
                why="noise: pairs of few records share the budget with all other pairs",
            )
        )
    return {"patients": PATIENTS, "correlations": found, "findings": [finding.to_dict() for finding in findings]}


def patients(seed: int, wide: bool = False) -> tuple[Table, Schema]:
    """The records of one made-up trial, and what is public about them."""
    dice = np.random.default_rng(seed)
    first = dice.normal(size=PATIENTS)
    second = CORRELATION * first + np.sqrt(1.0 - CORRELATION**2) * dice.normal(size=PATIENTS)
    columns: dict[str, Any] = {
        "cd40": np.clip(np.rint(350.5 + 118.6 * first), 0, 1200).astype(np.int64),
        "cd420": np.clip(np.rint(371.3 + 144.6 * second), 0, 1200).astype(np.int64),
    }
    if not wide:
        return Table(columns), Schema(CD4)
    columns["age"] = np.clip(np.rint(35.2 + 8.7 * dice.normal(size=PATIENTS)), 12, 70).astype(np.int64)
    columns["wtkg"] = np.clip(75.1 + 13.3 * dice.normal(size=PATIENTS), 30, 160)
    for name, share in zip(FLAGS, (0.83, 0.08, 0.13, 0.17), strict=True):
        columns[name] = dice.random(PATIENTS) < share
    columns["arms"] = dice.choice(["a", "b", "c", "d"], PATIENTS)
    against = 1.1 + 0.004 * (columns["cd420"] - 371) - 0.3 * (columns["arms"] == "a")
    columns["cid"] = dice.random(PATIENTS) < 1.0 / (1.0 + np.exp(against))
    return Table(columns), Schema((*CD4, *OTHERS), label="cid")


def correlations(
    seed: int, epsilon: float = 1.0, wide: bool = False, *, delta: float = 1e-6, adjacency: Any = "add-remove"
) -> tuple[float, float]:
    """Of the records, and of as many synthetic rows."""
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    table, schema = patients(seed, wide)
    codec = TableCodec(schema)
    x, y = codec.encode(table, compact=True)
    terms: Any = {"clip": codec.bound(compact=True), "classes": codec.classes}
    vault = Vault(x, y, adjacency=adjacency, budget=(epsilon, delta), **terms)
    fitted = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=codec).fit(vault)
    made = fitted.sample(PATIENTS, seed=seed, frame="table")[0]
    real, found = (float(np.corrcoef(t["cd40"], t["cd420"])[0, 1]) for t in (table, made))
    return real, found


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
