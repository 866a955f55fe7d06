"""A table with a shifted target: Adult, cut into a public source and a private target by a column that is left out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privot.tables import Schema, Table, TableCodec
from privot_lab.studies.product.adult_data import adult_schema, adult_tables
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

DELTA = 1e-5
LEFT_OUT = {
    "education": ("education", "education_num"), "work": ("workclass",), "sex": ("sex", "relationship"),
    "age": ("age",),
}  # fmt: skip
"""Columns that would say which side of a split a row is on. Settings were chosen on `sex` and `age`."""
STATED = {"education": (89.30, 89.30), "work": (89.52, 89.52)}
"""ROC-AUC in per cent of the source alone and of the stand-in: lab/docs/results/stand-in.md."""
WITHIN = 0.3
SETTINGS = {
    "quick": {"splits": ["education"], "methods": ["source", "stand-in", "labels"], "epsilon": 1.0, "seeds": 1},
    "full": {
        "splits": ["education", "work"],
        "methods": ["source", "stand-in", "real", "labels", "boosting-source", "boosting-labels"],
        "epsilon": 1.0,
        "seeds": 3,
    },
}


def compute(run: StudyRun, splits: list[str], methods: list[str], epsilon: float, seeds: int) -> dict[str, Any]:
    """ROC-AUC on the target's rows of the test file, by split, method and seed."""
    rows = []
    for split in splits:
        for method in methods:
            for seed in range(seeds):
                asked = epsilon if method == "stand-in" else None
                found = run.part(
                    f"{split}, {method}, seed {seed}", partial(_one, run, split, method, epsilon, run.seed + seed)
                )
                rows.append({"split": split, "method": method, "epsilon": asked, "seed": seed, **found})
    findings = []
    for split in splits:
        mean = {
            m: float(np.mean([row["auc"] for row in rows if (row["split"], row["method"]) == (split, m)]))
            for m in methods
        }
        stated = STATED.get(split)
        gap = mean["stand-in"] - mean["source"]
        findings.append(
            StudyFinding(
                f"split by {split}: the stand-in ranks the target's rows as the source alone does, within {WITHIN:g}",
                ", ".join(f"{m} {value:.2f}" for m, value in mean.items())
                + f"; ε = {epsilon:g} at δ = {DELTA:g}, replace-one, proven",
                abs(gap) <= WITHIN,
                published="" if stated is None else f"{stated[0]:.2f} and {stated[1]:.2f}",
                why=f"they differ by {gap:.2f}",
            )
        )
    return {"rows": rows, "delta": DELTA, "adjacency": "replace-one", "findings": [f.to_dict() for f in findings]}


def is_target(table: Table, split: str) -> Any:
    """Which rows belong to the target."""
    if split == "education":
        # Bachelors, Masters, Prof-school, Doctorate
        return table["education_num"].astype(float) >= 13
    if split == "work":
        return table["workclass"] != "Private"
    if split == "sex":
        return table["sex"] == "Female"
    return table["age"].astype(float) >= 40


def _parts(run: StudyRun, split: str) -> tuple[Table, Table, Table]:
    """Source, target and test; the test holds rows of the target only."""

    def chosen(table: Table, mask: Any) -> Table:
        return Table({name: table[name][mask] for name in table if name not in LEFT_OUT[split]})

    train, test = adult_tables(run)
    side = is_target(train, split)
    return chosen(train, ~side), chosen(train, side), chosen(test, is_target(test, split))


def _one(run: StudyRun, split: str, method: str, epsilon: float, seed: int) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    from privot.adaptation import DomainAdapter
    from privot.adaptation.stand_in.table_rows import labelled_rows, unlabelled_rows
    from privot.adaptation.stand_in.weighted_training import fit_weighted
    from privot.vault import Vault

    whole = adult_schema()
    columns = tuple(column for column in whole.columns if column.name not in LEFT_OUT[split])
    codec = TableCodec(Schema(columns, whole.label, whole.marks))
    source, target, test = _parts(run, split)
    (x, y), (tx, ty), (ex, ey) = (labelled_rows(table, codec) for table in (source, target, test))
    charged = standing = None
    if method == "stand-in":
        clip = codec.bound(compact=True)
        rows = unlabelled_rows(target, codec)
        vault = Vault(rows, clip=clip, adjacency="replace-one", budget=(epsilon, DELTA))
        made = DomainAdapter(epsilon, DELTA, kind=codec, device="cpu", seed=seed)
        found = made.fit(vault, source).predict_proba(test)[:, 1]
        assert made.guarantee_ is not None
        charged, standing = float(made.guarantee_.epsilon()), str(made.guarantee_.standing)
    elif method.startswith("boosting"):
        wide = [codec.encode(table) for table in (source, target, test)]
        on = wide[method == "boosting-labels"]
        found = HistGradientBoostingClassifier(random_state=seed).fit(*on).predict_proba(wide[2][0])[:, 1]
    else:
        trained = (tx, ty) if method == "labels" else (x, y)
        fitted = fit_weighted(*trained, 2, seed, tx if method == "real" else None)
        found = fitted.probabilities(ex)[:, 1]
    return {
        "auc": 100.0 * float(roc_auc_score(ey, found)), "charged": charged, "standing": standing,
        "source_records": len(x), "target_records": len(tx), "test_records": len(ex),
    }  # fmt: skip


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
