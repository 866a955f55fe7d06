"""Adult census income, cut into a public source and a private target by a column that neither table then has."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = Path(__file__).parents[2] / "docs" / "examples" / "adult-schema.json"
SHOWN = ("adult-education", "adult-work")
CHOOSING = ("adult-sex", "adult-age")
LEFT_OUT = {
    "adult-education": ("education", "education_num"), "adult-work": ("workclass",),
    "adult-sex": ("sex", "relationship"), "adult-age": ("age",),
}  # fmt: skip
"""Columns that would say which side of the split a row is on."""


def is_target(table: Any, name: str) -> np.ndarray:
    """Which rows belong to the target: the rule of the split `name`."""
    if name == "adult-education":
        # Bachelors, Masters, Prof-school, Doctorate
        return table["education_num"].astype(float) >= 13
    if name == "adult-work":
        return table["workclass"] != "Private"
    if name == "adult-sex":
        return table["sex"] == "Female"
    if name == "adult-age":
        return table["age"].astype(float) >= 40
    raise SystemExit(f"There is no split {name!r}.")


@cache
def parts(folder: Path, name: str) -> tuple[Any, Any, Any]:
    """Source, target and test as tables; the test holds rows of the target only."""
    from privot.tables import Table, read_table

    def chosen(table: Any, mask: np.ndarray) -> Any:
        return Table({column: table[column][mask] for column in table if column not in LEFT_OUT[name]})

    train, test = (read_table(folder / f"adult_{part}.csv.gz") for part in ("train", "test"))
    told = is_target(train, name)
    return chosen(train, ~told), chosen(train, told), chosen(test, is_target(test, name))


def one(
    folder: Path, name: str, method: str, epsilon: float | None, seed: int, device: str, change: dict[str, Any]
) -> dict[str, Any]:
    """One run: ROC-AUC on the target's test rows. Methods: source, stand-in, real, labels, and two of boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_config import choose_for_table
    from privot.adaptation.stand_in.table_rows import labelled_rows, unlabelled_rows
    from privot.adaptation.stand_in.weighted_training import fit_weighted
    from privot.tables import Schema, TableCodec
    from privot.vault import Vault

    whole = Schema.load(SCHEMA)
    columns = tuple(column for column in whole.columns if column.name not in LEFT_OUT[name])
    codec = TableCodec(Schema(columns, whole.label, whole.marks))
    source, target, test = parts(folder, name)
    (x, y), (tx, ty), (ex, ey) = (labelled_rows(table, codec) for table in (source, target, test))
    settings = replace(choose_for_table(), **change)
    checks, made = None, None
    if method == "stand-in":
        assert epsilon is not None
        rows = unlabelled_rows(target, codec)
        clip = codec.bound(compact=True)
        vault = Vault(rows, clip=clip, adjacency="replace-one", budget=(epsilon, 1e-5))
        made = DomainAdapter(epsilon, 1e-5, codec=codec, settings=settings, device=device, seed=seed)
        told = made.fit(vault, source).predict_proba(test)[:, 1]
        checks = made.checks_
    elif method.startswith("boosting"):
        wide = [codec.encode(table) for table in (source, target, test)]
        on = wide[method == "boosting-labels"]
        told = HistGradientBoostingClassifier(random_state=seed).fit(*on).predict_proba(wide[2][0])[:, 1]
    else:
        on = (tx, ty) if method == "labels" else (x, y)
        fitted = fit_weighted(*on, 2, seed, tx if method == "real" else None)
        told, checks = fitted.probabilities(ex)[:, 1], fitted.checks
    return {
        "score": 100.0 * float(roc_auc_score(ey, told)), "measure": "ROC-AUC", "source_records": len(x),
        "target_records": len(tx), "test_records": len(ex),
        "charged": None if made is None else made.guarantee_.epsilon(),
        "standing": None if made is None else str(made.guarantee_.standing),
        "checks": None if checks is None else {**checks.to_dict(), "power": checks.power},
        "settings": settings.to_dict(),
    }  # fmt: skip
