"""Compares a synthetic table with a real one: scores of models trained on it, and distances of marginals.

Results are as confidential as the real records: scores on a public test set may be published, scores on private records
must not be, unless a budget is charged for them. Nearest-neighbour distances are always marked as private.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.evaluation.associations import association_gaps
from privot.evaluation.boosting_rows import empty_columns, few_threads, rows_to_fit
from privot.evaluation.linear_rows import linear_rows
from privot.evaluation.number_quality import broken_columns, mean_errors, number_columns
from privot.evaluation.real_bins import RealBins, count_distances
from privot.evaluation.table_figures import (
    Coded,
    associations,
    column_shares,
    column_variations,
    pair_variations,
    query_errors,
)
from privot.evaluation.table_targets import model_figures
from privot.evaluation.table_verdict import verdict
from privot.tables.codec import TableCodec
from privot.tables.table import Table

PRIVATE = "private, do not publish"
Model = Literal["boosting", "logistic"]
MODELS: tuple[Model, ...] = ("boosting", "logistic")
FALSE_ALARMS = tuple(k / 100 for k in range(101))
"""False positive rates at which a ROC curve is kept."""
COMPARISONS = 4
WORST = 10
"""Pairs of columns that are named."""


@dataclass(frozen=True)
class Score:
    """Test scores of a model trained on one table and tested on another; `auc` is None with a single class.

    `roc` holds true positive rates at the false positive rates of `FALSE_ALARMS`, averaged over classes like `auc`.
    """

    model: Model
    accuracy: float
    auc: float | None
    roc: tuple[float, ...] | None = None


@dataclass(frozen=True)
class TableReport:
    """The result of `evaluate_table`."""

    scores: tuple[Score, ...]
    marginals: dict[str, float]
    marginal_distance: float
    pair_distance: float
    label_balance: tuple[float, ...] | None
    real_label_balance: tuple[float, ...] | None
    nearest: NearestDistances
    pairs: tuple[tuple[str, str, float], ...] = ()
    """The pairs of columns that differ most, with their distances."""
    columns: tuple[dict[str, Any], ...] = ()
    """For pictures: the shares of each column's values (`column_shares`), of all rows of both tables."""
    correlations: dict[str, Any] = field(default_factory=dict)
    queries: tuple[dict[str, Any], ...] = ()
    numbers: tuple[dict[str, Any], ...] = ()
    """Columns of numbers in their own units (`number_quality`)."""
    broken: tuple[str, ...] = ()
    """A sentence about each column that the schema breaks, whatever the model."""
    counts: dict[str, Any] = field(default_factory=dict)
    """Columns, pairs, triples and range queries in bins of the real rows (`real_bins`)."""
    associations: dict[str, Any] = field(default_factory=dict)
    """How pairs of columns of all kinds go together, and what is lost (`associations`)."""
    targets: tuple[dict[str, Any], ...] = ()
    """Scores of models of several columns, trained on synthetic and on real rows."""
    groups: tuple[dict[str, Any], ...] = ()
    """Groups of real rows by how badly the label's model serves them."""
    verdict: dict[str, Any] = field(default_factory=dict)
    """The three worst things."""
    test_verdict: dict[str, Any] = field(default_factory=dict)
    """The same by the test records alone, without distances to the records behind the release."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types: accuracy under `scores`, as for other data, and the area under the curve as `auc`."""
        return {
            **asdict(self),
            "scores": {score.model: score.accuracy for score in self.scores},
            "auc": {score.model: score.auc for score in self.scores},
            "roc": {score.model: score.roc for score in self.scores},
        }


@dataclass(frozen=True)
class NearestDistances:
    """Distances from synthetic rows to the nearest real one, next to those from other real rows."""

    synthetic: tuple[float, float, float]
    """The 1st, 5th and 50th percentile of the distance to the nearest real row."""
    held_out: tuple[float, float, float]
    """The same for other real rows: synthetic rows should not be closer than these."""
    marked: str = PRIVATE


def train_and_test(train: Table, test: Table, codec: TableCodec, model: Model = "boosting", seed: int = 0) -> Score:
    """Train `model` on `train` to predict the label and test it on `test`; scikit-learn's defaults throughout.

    "boosting" is HistGradientBoostingClassifier on the columns as they are (categories declared as such, a missing
    number left missing; what it cannot be fitted to is left out, see `boosting_rows`); "logistic" is LogisticRegression
    on standardised numbers and one-hot categories (`linear_rows`).
    """
    if codec.classes is None:
        raise UsageError("Train-on-synthetic scores need a label column: name one in the schema.")
    if model not in MODELS:
        raise UsageError(f"The model must be one of {', '.join(MODELS)}.")
    ours, theirs = (Coded(*codec.encode(table, compact=True), codec) for table in (train, test))
    return _score(ours, theirs, model, seed)


def _score(train: Coded, test: Coded, model: Model, seed: int) -> Score:
    """The same, of tables that are coded already."""
    codec, y, y_test = train.codec, train.labels, test.labels
    assert y is not None
    assert y_test is not None
    if model == "logistic":
        x, x_test = linear_rows(train, test)
    else:
        x, x_test = _gone_as_nan(train.rows, codec), _gone_as_nan(test.rows, codec)
        empty = empty_columns(x)
        x[:, empty] = x_test[:, empty] = 0.0
        kept = rows_to_fit(y)
        x, y = x[kept], y[kept]
    chance = _probabilities(_estimator(model, codec, seed), x, y, x_test, codec)
    accuracy = float(np.mean(np.argmax(chance, axis=1) == y_test))
    return Score(model, accuracy, _auc(y_test, chance), _roc(y_test, chance))


def halves(real: Table, seed: int = 0) -> tuple[Table, Table]:
    """`real` cut into two halves at random: one to train on, beside synthetic rows, and one to test that on."""
    first, second = np.array_split(np.random.default_rng(seed).permutation(real.rows), 2)
    halves = [Table({name: real[name][np.sort(at)] for name in real}) for at in (first, second)]
    return halves[0], halves[1]


def _gone_as_nan(x: NDArray[np.float64], codec: TableCodec) -> Any:
    numbers = [place for place, column in enumerate(codec.features) if column.is_number]
    out = x.copy()
    out[:, numbers] = np.where(out[:, numbers] < 0.0, np.nan, out[:, numbers])
    return out


def _estimator(model: Model, codec: TableCodec, seed: int) -> Any:
    if model == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    from sklearn.ensemble import HistGradientBoostingClassifier

    # more than 255 categories are beyond the histogram's bins: those columns are taken as numbers
    named = [i for i, c in enumerate(codec.features) if not c.is_number and len(c.words) + c.missing <= 255]
    return HistGradientBoostingClassifier(categorical_features=named or None, random_state=seed)


def _probabilities(estimator: Any, x: Any, y: NDArray[np.int64], x_test: Any, codec: TableCodec) -> NDArray[np.float64]:
    """(records, classes); a class that the training table lacks has probability 0."""
    out = np.zeros((x_test.shape[0], codec.classes or 1))
    present = np.unique(y)
    if len(present) == 1:
        out[:, present[0]] = 1.0
    else:
        with few_threads(len(y)):
            out[:, present] = estimator.fit(x, y).predict_proba(x_test)
    return out


def _auc(y: NDArray[np.int64], chance: NDArray[np.float64]) -> float | None:
    """The area under the ROC curve, one class against the rest averaged over those present in `y`."""
    from sklearn.metrics import roc_auc_score

    areas = [float(roc_auc_score(y == k, chance[:, k])) for k in _told_apart(y, chance)]
    return float(np.mean(areas)) if areas else None


def _roc(y: NDArray[np.int64], chance: NDArray[np.float64]) -> tuple[float, ...] | None:
    """True positive rates at `FALSE_ALARMS`, averaged over the same classes."""
    from sklearn.metrics import roc_curve

    curves = []
    for k in _told_apart(y, chance):
        false, true, _ = roc_curve(y == k, chance[:, k])
        curves.append(np.interp(FALSE_ALARMS, false, true))
    return tuple(float(v) for v in np.mean(curves, axis=0)) if curves else None


def _told_apart(y: NDArray[np.int64], chance: NDArray[np.float64]) -> list[int]:
    """The classes that some records have and some have not; of two classes the second one speaks for both."""
    classes = [1] if chance.shape[1] == 2 else range(chance.shape[1])
    return [k for k in classes if 0 < int(np.sum(y == k)) < len(y)]


def marginal_distances(synthetic: Table, real: Table, codec: TableCodec) -> dict[str, float]:
    """Total-variation distance ½ Σ |p − q| of each column over the codec's cells, by name."""
    return column_variations(*(Coded(*codec.encode(table, compact=True), codec) for table in (synthetic, real)))


def pair_distances(synthetic: Table, real: Table, codec: TableCodec) -> dict[tuple[str, str], float]:
    """The same for each pair of columns, numbers in at most 16 cells of equal public width."""
    return pair_variations(*(Coded(*codec.encode(table, compact=True), codec) for table in (synthetic, real)))


def nearest_distances(
    synthetic: Table, real: Table, held_out: Table | None, codec: TableCodec, most: int = 5000, seed: int = 0
) -> NearestDistances:
    """Distances to the nearest of the `real` rows in the wide layout, from at most `most` rows of each kind.

    Without `held_out` they are compared with those of real rows to the nearest *other* real row. At most ten times
    `most` real rows are used. The result is private, whatever `real` is, and must not be published.
    """
    coded = [None if t is None else Coded(*codec.encode(t, compact=True), codec) for t in (synthetic, real, held_out)]
    made, known, other = coded
    assert made is not None
    assert known is not None
    return _nearest(made, known, other, most, seed)


def _nearest(
    synthetic: Coded, real: Coded, held_out: Coded | None, most: int = 5000, seed: int = 0
) -> NearestDistances:
    """The same, of tables that are coded already."""
    from sklearn.neighbors import NearestNeighbors

    rng = np.random.default_rng(seed)

    def some(coded: Coded, count: int) -> NDArray[np.float64]:
        return coded.codec.widen(coded.rows[rng.permutation(len(coded.rows))[:count]])

    seen = some(real, 10 * most)
    index = NearestNeighbors(n_neighbors=1).fit(seen)
    distances = [index.kneighbors(some(synthetic, most))[0][:, 0]]
    if held_out is None:
        # each row is its own nearest neighbour: the next one counts
        distances.append(index.kneighbors(seen[:most], n_neighbors=2)[0][:, 1])
    else:
        distances.append(index.kneighbors(some(held_out, most))[0][:, 0])
    found = []
    for far in distances:
        low, middle, high = (float(v) for v in np.percentile(far, (1, 5, 50)))
        found.append((low, middle, high))
    return NearestDistances(found[0], found[1])


def evaluate_table(
    synthetic: Table,
    test: Table,
    codec: TableCodec,
    *,
    private: Table | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> TableReport:
    """Train on `synthetic`, test on `test`, compare marginals, and find the nearest real rows.

    Nearest rows come from `private` (the records behind the release) if given, else from `test`. `progress` hears what
    is begun: every model, and `COMPARISONS` comparisons.
    """
    tell = progress or (lambda words: None)
    if synthetic.rows < 2 or test.rows < 2:
        raise DataError("Both tables need at least two rows to be compared.")
    # each table is coded once: parsing takes as long as most that is asked of the rows
    coded, beside = (Coded(*codec.encode(table, compact=True), codec) for table in (synthetic, test))
    scores: tuple[Score, ...] = ()
    balance = real_balance = None
    if codec.classes is not None:
        trained = []
        for model in MODELS:
            tell(f"training {model}")
            trained.append(_score(coded, beside, model, seed))
        scores = tuple(trained)
        balance, real_balance = (_balance(table) for table in (coded, beside))
    tell("comparing columns")
    marginals, pairs = column_variations(coded, beside), pair_variations(coded, beside)
    made, real = (table.subset(seed) for table in (coded, beside))
    numbers = number_columns(synthetic, test, codec)
    tell("finding nearest records")
    behind = beside if private is None else Coded(*codec.encode(private, compact=True), codec)
    near = _nearest(coded, behind, None if private is None else beside, seed=seed)
    tell("asking queries")
    worst = sorted(pairs.items(), key=lambda item: -item[1])[:WORST]
    counts = count_distances(made, RealBins(real))
    queries = (*query_errors(made, real, seed), *mean_errors(numbers))
    tell("predicting other columns")
    targets, groups = model_figures(made, real, seed)
    report = TableReport(
        scores,
        marginals,
        float(np.mean(list(marginals.values()))),
        float(np.mean(list(pairs.values()) or [0.0])),
        balance,
        real_balance,
        near,
        tuple((first, second, distance) for (first, second), distance in worst),
        tuple(column_shares(coded, beside)),
        _correlations(made, real),
        queries,
        numbers,
        broken_columns(numbers, codec),
        counts,
        association_gaps(made, real),
        tuple(targets),
        tuple(groups),
    )
    found = report.to_dict()
    return replace(report, verdict=verdict(found), test_verdict=verdict(found, nearness=False))


def _correlations(made: Coded, real: Coded) -> dict[str, Any]:
    names, ours = associations(made)
    return {"names": names, "synthetic": ours, "real": associations(real)[1]}


def label_balance(table: Table, codec: TableCodec) -> tuple[float, ...]:
    """The share of each class, in the schema's order."""
    if codec.classes is None:
        raise UsageError("The table has no label column.")
    return _balance(Coded(*codec.encode(table, compact=True), codec))


def _balance(coded: Coded) -> tuple[float, ...]:
    assert coded.labels is not None
    counts = np.bincount(coded.labels, minlength=coded.codec.classes or 1)
    return tuple(float(v) for v in counts / len(coded.labels))
