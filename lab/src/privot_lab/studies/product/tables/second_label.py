"""What naming a second label of the Adult census gains its own model, and costs the model of the first, at ε = 1.

Three quarters of the training file are fitted, the others test; the test file is not read. Models are boosting from all
other columns, of classes with many test rows. Each draw is one whole private release with noise of the operating
system.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.tables import Schema, Table, TableCodec
from privot_lab.studies.product.adult_data import adult_schema, read_adult
from privot_lab.studies.study import StudyFinding
from privot_lab.studies.study_run import StudyRun

SPLIT = 7
"""The seed by which rows are told apart, the same for all draws."""
LEAST = 200
"""Test rows of a class, at least, for its area under the curve."""
STATED = {"occupation": 0.0086, "marital_status": -0.0011, "sex": -0.0005}
"""lab/docs/results/synthesis-tables.md: what naming a label gains its AUC, means of three draws."""
WITHIN, COST = 0.008, 0.008
"""Three standard errors of such a gain, and what the first label may lose: it lost .0023 at most."""
_COMMON = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove"}
_FEW = ["age", "education_num", "relationship", "sex", "income"]
SETTINGS = {
    "quick": {**_COMMON, "labels": ["sex"], "columns": _FEW, "draws": 1},
    "full": {**_COMMON, "labels": ["occupation", "marital_status"], "columns": [], "draws": 3},
}

Coded = tuple[NDArray[np.float64], NDArray[np.int64]]


def compute(
    run: StudyRun, epsilon: float, delta: float, adjacency: str, labels: list[str], columns: list[str], draws: int
) -> dict[str, Any]:
    """The AUC of every target without a second label and with each of `labels`; `columns` are kept (none: all)."""
    whole = adult_schema()
    kept = tuple(column for column in whole.columns if not columns or column.name in columns)
    schema = replace(whole, columns=kept)
    table = read_adult(run.data("adult_train"))
    rows, y = TableCodec(schema).encode(Table({column.name: table[column.name] for column in kept}), compact=True)
    assert y is not None
    assert schema.label is not None
    order = np.random.default_rng(SPLIT).permutation(len(rows))
    train, test = ((rows[at], y[at]) for at in np.split(order, [int(0.75 * len(rows))]))
    targets = [schema.label, *labels]
    real = run.part("real records", partial(areas, train, test, schema, targets))
    found: dict[str, list[dict[str, float]]] = {}
    for label in ("", *labels):
        named = replace(schema, further_labels=(label,) if label else ())
        made = partial(_draw, train, test, named, targets, epsilon, delta, adjacency)
        name = label or "no second label"
        found[name] = [run.part(f"{name}, draw {k}", partial(made, run.seed + k)) for k in range(draws)]
    mean = {name: {key: float(np.mean([d[key] for d in made])) for key in made[0]} for name, made in found.items()}
    terms = f"ε = {epsilon:g}, δ = {delta:g}, {adjacency}, proven; {len(train[0])} records, {len(kept)} columns, "
    terms += "1 draw of each" if draws == 1 else f"{draws} draws of each"
    alike = not columns and (epsilon, delta, adjacency) == (1.0, 1e-6, "add-remove")
    plain, findings = mean["no second label"], []
    for label in labels:
        gain = mean[label][label] - plain[label]
        stated = STATED.get(label)
        findings.append(
            StudyFinding(
                f"naming {label} moves the AUC of its model as stated, within {WITHIN:g}"
                if alike
                else f"naming {label} takes at most {WITHIN:g} of the AUC of its model",
                f"{gain:+.4f}: {mean[label][label]:.4f} named, {plain[label]:.4f} not, {real[label]:.4f} on real "
                f"records ({terms})",
                bool(gain >= -WITHIN if stated is None or not alike else abs(gain - stated) <= WITHIN),
                published="nothing" if stated is None else f"{stated:+.4f} of all columns",
                why=f"the difference is {gain:+.4f}",
            )
        )
        lost = plain[schema.label] - mean[label][schema.label]
        findings.append(
            StudyFinding(
                f"beside {label}, the model of {schema.label} loses at most {COST:g}",
                f"{-lost:+.4f}: {mean[label][schema.label]:.4f} beside {plain[schema.label]:.4f}, "
                f"{real[schema.label]:.4f} on real records",
                lost <= COST,
                published="−.0023 (occupation), .0000 (marital status)",
                why="the labels share the part of the budget that is for scores",
            )
        )
    return {"real": real, "draws": found, "mean": mean, "findings": [finding.to_dict() for finding in findings]}


def areas(train: Coded, test: Coded, schema: Schema, targets: list[str]) -> dict[str, float]:
    """The AUC of boosting for every target, from all other columns.

    One class against the rest, averaged over classes of at least `LEAST` test rows; rows of others, and rows without a
    value, are left out.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    columns = [*schema.features, schema[schema.label or ""]]
    ours, theirs = (np.column_stack(part) for part in (train, test))
    out = {}
    for target in targets:
        place = [column.name for column in columns].index(target)
        others = [i for i in range(len(columns)) if i != place]
        named = [at for at, i in enumerate(others) if not columns[i].is_number]
        classes = [k for k in range(len(columns[place].words)) if (theirs[:, place] == k).sum() >= LEAST]
        some, asked = (rows[np.isin(rows[:, place], classes)] for rows in (ours, theirs))
        # a class of one synthetic row could not be split for early stopping
        model = HistGradientBoostingClassifier(
            categorical_features=named or None, random_state=0, max_iter=60, early_stopping=False
        ).fit(some[:, others], some[:, place])
        chance, known = model.predict_proba(asked[:, others]), list(model.classes_)
        found = [
            float(roc_auc_score(asked[:, place] == k, chance[:, known.index(k)])) if k in known else 0.5
            for k in (classes[1:] if len(classes) == 2 else classes)
        ]
        out[target] = float(np.mean(found))
    return out


def _draw(
    train: Coded,
    test: Coded,
    schema: Schema,
    targets: list[str],
    epsilon: float,
    delta: float,
    adjacency: Any,
    seed: int,
) -> dict[str, float]:
    from privot.synthesis import Synthesizer
    from privot.vault import Vault

    codec = TableCodec(schema)
    terms: Any = {"clip": codec.bound(compact=True), "classes": codec.classes}
    vault = Vault(*train, adjacency=adjacency, budget=(epsilon, delta), label="adult", **terms)
    began = time.process_time()
    fitted = Synthesizer(epsilon, delta, seed=seed, device="cpu", kind=codec).fit(vault)
    seconds = time.process_time() - began
    x, y = codec.encode(fitted.sample(len(train[0]), seed=seed, frame="table")[0], compact=True)
    assert y is not None
    return {**areas((x, y), test, schema, targets), "processor seconds": seconds}


def draw(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Nothing: it is a table."""
    return []
