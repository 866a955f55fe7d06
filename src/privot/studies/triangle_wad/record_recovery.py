"""Figures 1, 3 and 4, Theorem 2: whether messages of FedWad and TriangleWad hide the records. Attacks see messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.attacks.reconstruction import (
    distance,
    invert_constant,
    invert_fedwad,
    invert_shared,
    match_candidates,
)
from privot.audit.statistics.one_to_one import assignment
from privot.audit.targets.exchange import recorded
from privot.federation.protocols.answering import drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.triangle import defence_points, triangle_steps
from privot.studies.study import StudyFinding, StudyVerdict
from privot.studies.study_data import images
from privot.studies.study_run import StudyRun

Array = NDArray[np.float64]
_COMMON = {"t": 0.5, "rounds": 20}
SETTINGS = {
    "quick": {**_COMMON, "sets": ["digits"], "records": 100},
    "full": {**_COMMON, "sets": ["mnist", "fashion_mnist", "cifar10"], "records": 500},
}
CLOSE = 0.02
"""A record is recovered if the guess is so near, as a share of its distance to the middle of all records."""


def compute(run: StudyRun, sets: list[str], records: int, t: float, rounds: int) -> dict[str, Any]:
    """Per set: the share of one party's records that the other party recovers from what it receives."""
    rows = []
    for name in sets:
        x = images(run, name)[0] * 2.0 - 1.0
        rows.append({"set": name} | run.part(name, partial(_attacks, x, records, t, rounds, run.seed)))

    def shares(key: str) -> str:
        return ", ".join(f"{row[key]:.0%} ({row['set']})" for row in rows)

    findings = [
        StudyFinding(
            "FedWad gives records away (Figure 1)",
            f"the closed form gives back {shares('fedwad')}",
            min(row["fedwad"] for row in rows) > 0.5,
        ),
        StudyFinding(
            "Theorem 2: TriangleWad's messages are uninformative noise, constant defence data",
            f"records recovered: {shares('constant')}",
            _refuted(rows, "constant"),
            why="moving every record towards one point is an affine map, and whoever takes part knows the point",
        ),
        StudyFinding(
            "Theorem 2: TriangleWad's messages are uninformative noise, shared random defence data",
            f"records recovered: {shares('shared')}",
            _refuted(rows, "shared"),
            why="the optimal plan from the message to γ is the plan from the records: one call gives the order back",
        ),
        StudyFinding(
            "Theorem 2: … and with secret random defence data",
            f"the right record among {records} candidates: {shares('secret')}; chance gives {1 / records:.1%}",
            _refuted(rows, "secret"),
            why="the plan picks the noise that points towards the record",
        ),
    ]
    return {"rows": rows, "records": records, "findings": [f.to_dict() for f in findings]}


def _refuted(rows: list[dict[str, Any]], key: str) -> StudyVerdict:
    return StudyVerdict.REFUTED if max(row[key] for row in rows) > 0.5 else StudyVerdict.REPRODUCED


def _attacks(x: Array, records: int, t: float, rounds: int, seed: int) -> dict[str, float]:
    random = np.random.default_rng(seed)
    pick = random.choice(len(x), 2 * records, replace=False)
    one, two = x[pick[:records]], x[pick[records:]]
    constant = _sent(one, two, t, "constant")
    shared = _sent(one, two, t, "random")
    gamma = defence_points("random", one, 1)
    return {
        "fedwad": _recovered(_from_fedwad(one, two, rounds), one),
        "constant": _recovered(invert_constant(constant, defence_points("constant", one)[0], t), one),
        "shared": _recovered(invert_shared(shared, gamma, t), one),
        # the same message, without its γ: candidates are the records themselves
        "secret": float((match_candidates(shared, one) == np.arange(records)).mean()),
    }


def _sent(one: Array, two: Array, t: float, defence: str) -> Array:
    """What the first party sends in TriangleWad, in the order of its records."""
    heard: list[Any] = []
    drive(triangle_steps(defence_points(defence, one, 1), t), recorded(local_party(one), heard), local_party(two))
    return np.asarray(heard[0][1].points)


def _from_fedwad(one: Array, two: Array, rounds: int) -> Array:
    """The second party's guess in the last round of FedWad: from γ, and the distance that the first party sends."""
    generator = np.random.default_rng(3)
    heard: list[Any] = []
    steps = fedwad_steps(generator.standard_normal(one.shape), rounds, generator=generator)
    drive(steps, recorded(local_party(one), heard), local_party(two))
    asked, said = heard[-1]
    return invert_fedwad(asked.towards, two, said.distance, distance(asked.towards, two))


def _recovered(guess: Array, records: Array) -> float:
    """The share of records that a guess comes close to, guesses matched one to one."""
    matched = guess[assignment(records, guess)]
    scale = np.linalg.norm(records - records.mean(0), axis=1)
    return float((np.linalg.norm(matched - records, axis=1) <= CLOSE * scale).mean())


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """No pictures: those of a data set stay out of the results."""
    return []
