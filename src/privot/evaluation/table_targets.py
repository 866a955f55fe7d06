"""What models learn from synthetic rows for several targets, and which groups of real rows they serve worst.

Real rows are cut into two halves. One model is trained on synthetic rows, another on the first half of the real rows;
both are tested on the second half, so that the difference is what the synthetic rows lack and not what the task does.
Results are as confidential as the real rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.evaluation.boosting_rows import empty_columns, few_threads, rows_to_fit
from privot.evaluation.table_figures import Coded
from privot.tables.codec import TableCodec
from privot.tables.columns import Column

MAX_TARGETS = 5
MAX_ROWS = 20_000
LEAST_ROWS = 50
"""Rows of a group, at least, for figures about it."""
MAX_WORDS = 12
MAX_CATEGORIES = 255
"""What boosting takes as categories; a column with more is taken as a number."""
WORST = 10

Floats = NDArray[np.float64]


def model_figures(
    made: Coded, real: Coded, seed: int = 0, most: int = MAX_TARGETS
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Scores by target, and by group of real rows, as plain JSON types.

    Targets are the labels of the schema, all of them, and other columns, at most `most` together. Categories are scored
    by the area under the ROC curve (one class against the rest, averaged), numbers by R². Groups are the values of
    columns of categories with at least 50 real rows: how often the label's models are right there, the worst first.
    """
    with few_threads(MAX_ROWS):
        found = _scored(made, real, seed, most)
    targets = [entry for entry, _ in found]
    label = real.codec.schema.label
    answers = [right for entry, right in found if right is not None and entry["target"] == label]
    return targets, _groups(real, *answers[0]) if answers else []


def _groups(real: Coded, right: list[Floats], rows: Floats) -> list[dict[str, Any]]:
    out = []
    for place, column in enumerate(real.codec.features):
        if column.is_number or len(column.words) > MAX_WORDS:
            continue
        for word_place, word in enumerate(column.words):
            at = rows[:, place] == word_place
            count = int(at.sum())
            if count < LEAST_ROWS:
                continue
            ours, theirs = (float(r[at].mean()) for r in right)
            # two standard errors of the difference of paired answers
            error = 2.0 * float((right[1][at] - right[0][at]).std()) / count**0.5
            entry = {
                "column": column.name,
                "value": str(word),
                "rows": count,
                "accuracy": {"synthetic": round(ours, 4), "real": round(theirs, 4)},
                "clear": bool(theirs - ours > error),
            }
            out.append((ours - theirs, entry))
    return [entry for _, entry in sorted(out, key=lambda pair: pair[0])[:WORST]]


def _scored(made: Coded, real: Coded, seed: int, most: int) -> list[tuple[dict[str, Any], Any]]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(real.rows))[: 2 * MAX_ROWS]
    first, second = np.array_split(order, 2)
    kept = rng.permutation(len(made.rows))[:MAX_ROWS]
    train, base, test = (_matrix(c, at) for c, at in ((made, kept), (real, first), (real, second)))
    names = [(column, place) for place, column in enumerate(real.codec.features)]
    if real.labels is not None and real.codec.schema.label is not None:
        names.insert(0, (real.codec.schema[real.codec.schema.label], len(names)))
    labels = real.codec.schema.labels
    # labels that the schema names come first, however many values they have
    names.sort(key=lambda pair: labels.index(pair[0].name) if pair[0].name in labels else len(labels))
    further = real.codec.schema.further_labels
    kept_names = [(c, p) for c, p in names if c.name in further or c.is_number or 2 <= len(c.words) <= MAX_WORDS]
    out: list[tuple[dict[str, Any], Any]] = []
    for column, place in kept_names[: max(most, len(labels))]:
        entry = _target(column, place, train, base, test, real.codec, seed)
        if entry is not None:
            out.append(entry)
    return out


def _matrix(coded: Coded, at: NDArray[np.int64]) -> Floats:
    """Rows with the label as the last column, missing numbers as NaN."""
    x = coded.rows[at].copy()
    for place, column in enumerate(coded.codec.features):
        if column.is_number:
            x[:, place] = np.where(x[:, place] < 0.0, np.nan, x[:, place])
    if coded.labels is None:
        return x
    return np.column_stack([x, coded.labels[at]])


def _target(
    column: Column,
    place: int,
    train: Floats,
    base: Floats,
    test: Floats,
    codec: TableCodec,
    seed: int,
) -> tuple[dict[str, Any], Any] | None:
    """Scores of one target; and for categories what each model gets right, with the rows of `test` that were asked."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    others = [i for i in range(train.shape[1]) if i != place]
    named = [at for at, i in enumerate(others) if 0 < _categories(i, codec) <= MAX_CATEGORIES]
    model = HistGradientBoostingRegressor if column.is_number else HistGradientBoostingClassifier
    test = test[_there(column, test[:, place])]
    scores, right = [], []
    if len(test) < LEAST_ROWS or not others:
        return None
    for rows in (train, base):
        rows = rows[_there(column, rows[:, place])]
        if not column.is_number:
            rows = rows[rows_to_fit(rows[:, place])]
        y = rows[:, place]
        if len(rows) < LEAST_ROWS or len(np.unique(y)) < 2:
            return None
        x, asked = rows[:, others].copy(), test[:, others].copy()
        empty = empty_columns(x)
        x[:, empty] = asked[:, empty] = 0.0
        fitted = model(categorical_features=named or None, random_state=seed, max_iter=30, learning_rate=0.2).fit(x, y)
        if column.is_number:
            scores.append(_r2(test[:, place], fitted.predict(asked)))
        else:
            chance = fitted.predict_proba(asked)
            scores.append(_area(test[:, place], chance, fitted.classes_))
            right.append((fitted.classes_[np.argmax(chance, axis=1)] == test[:, place]).astype(np.float64))
    measure = "R²" if column.is_number else "AUC"
    entry = {"target": column.name, "measure": measure, "synthetic": round(scores[0], 4), "real": round(scores[1], 4)}
    return entry, (right, test) if right else None


def _categories(place: int, codec: TableCodec) -> int:
    """How many categories a column of the matrix has; 0 for a number."""
    if place >= len(codec.features):
        return codec.classes or 0
    column = codec.features[place]
    return 0 if column.is_number else len(column.words) + column.missing


def _there(column: Column, values: Floats) -> NDArray[np.bool_]:
    """Rows whose target is present."""
    return ~np.isnan(values) if column.is_number else values < len(column.words)


def _r2(true: Floats, found: Floats) -> float:
    return float(1.0 - np.square(true - found).mean() / max(float(true.var()), 1e-12))


def _area(y: Floats, chance: Floats, classes: Floats) -> float:
    """The area under the curve of each class against the rest, averaged over those that some rows have and some not."""
    from sklearn.metrics import roc_auc_score

    areas = []
    for k in np.unique(y):
        if 0 < int((y == k).sum()) < len(y):
            at = np.flatnonzero(classes == k)
            areas.append(float(roc_auc_score(y == k, chance[:, at[0]])) if len(at) else 0.5)
    return float(np.mean(areas)) if areas else 0.5
