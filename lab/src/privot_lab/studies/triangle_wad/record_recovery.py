"""Figure 1 (a, b) and section 5: which records come back from messages of FedWad and TriangleWad."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.protocol_attacks import record_recovery as attacks
from privot_lab.studies.study import StudyFinding, StudyVerdict
from privot_lab.studies.study_data import images
from privot_lab.studies.study_run import StudyRun

Array = NDArray[np.float64]
_COMMON = {"t": 0.5, "rounds": 20}
SETTINGS = {
    "quick": {**_COMMON, "sets": ["digits"], "records": 100},
    "full": {**_COMMON, "sets": ["mnist", "fashion_mnist", "cifar10"], "records": 300},
}


def compute(run: StudyRun, sets: list[str], records: int, t: float, rounds: int) -> dict[str, Any]:
    """Per set: what the other side, and whoever asked, recover of one side's records; test images are public."""
    rows = [{"set": name} | run.part(name, partial(_attacked, run, name, records, t, rounds)) for name in sets]

    def told(attack: str, key: str) -> str:
        shown = "{:.0%} ({})" if key != "psnr" else "{:.0f} dB ({})"
        return ", ".join(shown.format(row["attacks"][attack][key], row["set"]) for row in rows)

    def most(attack: str, key: str = "exact") -> float:
        return float(max(row["attacks"][attack][key] for row in rows))

    fewest = min(min(row["attacks"][name]["clear"] for name in (attacks.CLOSED, attacks.OPTIMISED)) for row in rows)
    findings = [
        StudyFinding(
            "Figure 1 (a, b), equation 5: FedWad gives records away to the other side",
            f"images from 20 dB on: by equation 5 {told(attacks.OPTIMISED, 'clear')}, median "
            f"{told(attacks.OPTIMISED, 'psnr')}; in closed form {told(attacks.CLOSED, 'clear')}, median "
            f"{told(attacks.CLOSED, 'psnr')}; the best match of public images: {told(attacks.PRIOR_MATCH, 'clear')}",
            fewest > 0.5,
        ),
        StudyFinding(
            "TriangleWad makes raw data truly invisible: constant defence data",
            f"records recovered to the last digit: {told(attacks.CONSTANT, 'exact')}",
            _refuted(most(attacks.CONSTANT)),
            why="moving every record towards one point is an affine map, and whoever takes part knows the point",
        ),
        StudyFinding(
            "Remark 3: with shared random defence data a simple attack cannot reconstruct the raw data",
            f"without the plan {told(attacks.NAIVE, 'exact')}; with it, records recovered to the last digit: "
            f"{told(attacks.SHARED, 'exact')}",
            _refuted(most(attacks.SHARED)),
            why="the optimal plan from the message to γ is the plan from the records: one call gives the order back",
        ),
        StudyFinding(
            "Section 5 (2): secret defence data strengthens privacy further",
            "the right record among "
            + ", ".join(f"{row['candidates']} candidates: {row['linked']:.0%} ({row['set']})" for row in rows)
            + f"; denoised {told(attacks.DENOISED, 'psnr')}, the mean image {told(attacks.PRIOR_MEAN, 'psnr')}",
            _refuted(max(row["linked"] for row in rows)),
            why="the plan picks the noise that points towards the record",
        ),
    ]
    return {"rows": rows, "records": records, "findings": [f.to_dict() for f in findings]}


def _refuted(share: float) -> StudyVerdict:
    return StudyVerdict.REFUTED if share > 0.5 else StudyVerdict.REPRODUCED


def _attacked(run: StudyRun, name: str, records: int, t: float, rounds: int) -> dict[str, Any]:
    private, public = (images(run, name, part)[0] * 2.0 - 1.0 for part in ("train", "test"))
    order = np.random.default_rng(run.seed).permutation(len(private))
    x, y, others = (private[order[i * records : (i + 1) * records if i < 2 else None]] for i in range(3))
    found = attacks.recover_records(x, y, public, others[:10_000], rounds=rounds, t=t, seed=run.seed)
    return {
        "attacks": {r.name: {"exact": r.exact, "clear": r.clear, "psnr": r.psnr} for r in found.recoveries},
        "linked": found.linked,
        "candidates": found.candidates,
        "fedwad_gap": found.fedwad_distance - found.true_distance,
    }


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """No pictures: those of a data set stay out of the results (`privot audit protocol --out` draws them)."""
    return []
