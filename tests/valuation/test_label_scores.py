"""Scores of labels: meanings against all permutations, predictions against scikit-learn, and what they find."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge as SklearnRidge

from privot import Vault
from privot.errors import DataError
from privot.federation import Sketch, sketch
from privot.mechanisms import SketchDesign
from privot.valuation import score_by_sketch, score_labels_by_sketch
from privot.valuation.kernel_ridge import RIDGES, KernelRidge
from privot.valuation.label_meanings import MOVED, RIDGE, RIGHT_LABELS, label_meanings
from privot.valuation.label_scores import label_posterior

MIDDLES = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
# the first two coordinates are correlated, so that the nearest mean is often the wrong one
SHAPE = np.linalg.cholesky(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.2]]))
DESIGN = SketchDesign.box(3, -4.0, 5.0).labelled(3)


def some(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 3
    return MIDDLES[y] + np.random.default_rng(seed).normal(size=(n, 3)) @ SHAPE.T, y


def sketched(n: int, seed: int, sigma: float, keep: tuple[int, ...] = (0, 1, 2)) -> Sketch:
    x, y = some(n, seed)
    kept = np.isin(y, keep)
    vault = Vault(x[kept], y[kept], classes=3, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    return sketch(vault, sigma=sigma, delta=1e-5, design=DESIGN)


def recall(score: np.ndarray, bad: np.ndarray) -> float:
    return len(np.intersect1d(np.argsort(-score)[: len(bad)], bad)) / len(bad)


def test_left_out_predictions_are_those_of_a_fit_without_the_record() -> None:
    g = np.random.default_rng(0)
    x, targets = g.normal(size=(40, 3)), g.normal(size=(40, 2))
    model, ridge = KernelRidge(x), 0.3
    found = model.left_out(targets, ridge)
    scale = np.median(cdist(x, x, "sqeuclidean"))
    for i in (0, 17, 39):
        rest = np.delete(np.arange(40), i)
        theirs = SklearnRidge(alpha=ridge, kernel="rbf", gamma=1.0 / scale).fit(x[rest], targets[rest])
        np.testing.assert_allclose(found[i], theirs.predict(x[[i]])[0], rtol=1e-5, atol=1e-6)
    errors = {r: ((model.left_out(targets, r) - targets) ** 2).sum() for r in RIDGES}
    assert errors[model.best_ridge(targets)] == min(errors.values())


def test_landmarks_stand_for_many_records(monkeypatch) -> None:
    x, y = some(900, 0)
    targets = np.eye(3)[y]
    exact = KernelRidge(x).left_out(targets, 0.3)
    monkeypatch.setattr("privot.valuation.kernel_ridge.MAX_LANDMARKS", 200)
    near = KernelRidge(x).left_out(targets, 0.3)
    assert np.abs(near - exact).mean() < 0.01
    assert np.abs(near - exact).max() < 0.2


def test_meanings_are_the_most_likely_permutation() -> None:
    """Against all permutations of four labels, each weighed by SciPy's normal density."""
    g = np.random.default_rng(1)
    classes, width, noise = 4, 3, 20.0
    theirs = g.normal(size=(classes, width))
    y = np.repeat(np.arange(classes), [30, 40, 50, 60])
    # 0 and 2 have exchanged their names
    u = theirs[[2, 1, 0, 3]][y] + g.normal(size=(len(y), width)) @ SHAPE.T
    count = np.array([200.0, 150.0, 250.0, 180.0])
    sums = theirs * count[:, None] + noise * g.normal(size=theirs.shape)
    meanings, seen = label_meanings(u, y, sums, count, noise, 1.0)

    own = np.stack([u[y == c].mean(0) for c in range(classes)])
    within = sum((u[y == c] - own[c]).T @ (u[y == c] - own[c]) for c in range(classes)) / len(u)
    within += RIDGE * np.trace(within) / width * np.eye(width)
    told = sums / count[:, None]
    own, told, members = own - own.mean(0), told - told.mean(0), np.bincount(y)
    right = RIGHT_LABELS

    def log_likelihood(order: tuple[int, ...]) -> float:
        return sum(
            multivariate_normal.logpdf(
                own[c],
                right * told[k],
                within * (1 / members[c] + right**2 / count[k]) + (right * noise / count[k]) ** 2 * np.eye(width),
            )
            for c, k in enumerate(order)
        )

    logs = {order: log_likelihood(order) for order in itertools.permutations(range(classes))}
    moved = np.log(MOVED / (1 - MOVED) / (classes - 1))
    best = max(logs, key=lambda order: logs[order] + moved * sum(c != k for c, k in enumerate(order)))
    assert best == (2, 1, 0, 3)
    assert tuple(meanings) == best
    for c in range(classes):
        others = []
        for d in range(classes):
            if d != c:
                order = list(best)
                order[c], order[d] = order[d], order[c]
                others.append(logs[tuple(order)])
        assert seen[c] == pytest.approx(1.0 - np.exp(min(0.0, max(others) - logs[best])), abs=1e-9)


def test_a_shift_that_all_classes_share_changes_no_meaning() -> None:
    x, y = some(600, 0)
    other, labels = some(6000, 1)
    # classes of different size: their noise differs, and a shift does not cancel by itself
    kept = np.concatenate([np.flatnonzero(labels == c)[:k] for c, k in enumerate((300, 900, 2000))])
    sums = np.stack([other[kept][labels[kept] == c].sum(0) for c in range(3)])
    count = np.array([300.0, 900.0, 2000.0])
    here = label_meanings(x, y, sums, count, 1500.0, 1.0)
    there = label_meanings(x + np.array([3.0, -1.0, 2.0]), y, sums, count, 1500.0, 1.0)
    assert here[0].tolist() == there[0].tolist()
    assert here[1].min() < 0.99
    np.testing.assert_allclose(here[1], there[1], atol=1e-6)


def test_names_are_kept_where_noise_hides_the_classes() -> None:
    """Of 200 draws of noise far larger than the classes, hardly any may exchange two names."""
    x, y = some(600, 0)
    g, moved = np.random.default_rng(2), 0
    for _ in range(200):
        count = 200.0 + 10.0 * g.normal(size=3)
        meanings, _ = label_meanings(x, y, MIDDLES * 200.0 + 600.0 * g.normal(size=(3, 3)), count, 600.0, 10.0)
        moved += meanings.tolist() != [0, 1, 2]
    # three pairs, each with prior odds of (M/2(1 − M))² against names kept: about one in 500 together
    assert moved <= 6


def test_scores_are_of_the_classes_of_other_records() -> None:
    x, y = some(3000, 0)
    found = score_labels_by_sketch((x, y), sketched(30_000, 1, 0.1), DESIGN)
    theirs = LinearDiscriminantAnalysis().fit(*some(30_000, 1)).predict_log_proba(x)
    # labels err at random with probability 1 − RIGHT_LABELS, so that they speak for themselves
    table = np.log(np.where(np.eye(3)[y] > 0, RIGHT_LABELS, (1 - RIGHT_LABELS) / 2))
    logs = theirs + table
    logs -= np.logaddexp.reduce(logs, axis=1, keepdims=True)
    expected = -logs[np.arange(len(y)), y]
    # far from the border between classes the shape of a kernel's tail is its own: the most suspect records count
    assert recall(found.score, np.argsort(-expected)[:300]) > 0.8
    assert found.meanings is not None
    assert found.meanings.tolist() == [0, 1, 2]
    assert found.seen is not None
    assert found.seen.min() > 0.99
    assert found.guarantee is not None


def test_the_share_of_wrong_labels_is_estimated_with_the_scores() -> None:
    g = np.random.default_rng(5)
    true = np.arange(900) % 3
    # classes far apart: all that is uncertain is how many labels are wrong
    x = 4.0 * MIDDLES[true] + 0.3 * g.normal(size=(900, 3))
    for share in (0.02, 0.3):
        y, bad = true.copy(), np.arange(round(share * 900))
        y[bad] = (y[bad] + g.integers(1, 3, len(bad))) % 3
        right = np.exp(label_posterior(x, y, np.arange(3))[np.arange(900), y])
        assert right[bad].max() < 0.1
        assert np.delete(right, bad).min() > 0.9


def test_wrong_labels_and_swapped_classes_are_found_beside_alike_classes() -> None:
    x, y = some(1500, 2)
    wrong, bad = y.copy(), np.arange(150)
    wrong[bad] = (y[bad] + 1) % 3
    # σ for ε = 1 is about 14
    hub = sketched(10_000, 3, 14.0)
    found = recall(score_labels_by_sketch((x, wrong), hub, DESIGN).score, bad)
    assert found > 0.75
    assert found > recall(score_by_sketch((x, wrong), hub, DESIGN).score, bad) + 0.1
    # two classes swapped throughout: one's own labels agree with themselves, and the sketch does not
    swapped = np.where(y == 2, 2, 1 - y)
    scores = score_labels_by_sketch((x, swapped), hub, DESIGN)
    assert scores.meanings is not None
    assert scores.meanings.tolist() == [1, 0, 2]
    assert recall(scores.score, np.flatnonzero(y < 2)) > 0.95


def test_noise_that_hides_everything_leaves_what_ones_own_records_say() -> None:
    x, y = some(1500, 2)
    wrong, bad = y.copy(), np.arange(150)
    wrong[bad] = (y[bad] + 1) % 3
    blind = score_labels_by_sketch((x, wrong), sketched(1500, 3, 3000.0), DESIGN)
    assert blind.seen is not None
    assert blind.seen.max() == 0.0
    assert recall(blind.score, bad) > 0.6
    # without a sketch nobody can tell two swapped classes
    swapped = np.where(y == 2, 2, 1 - y)
    alone = score_labels_by_sketch((x, swapped), sketched(1500, 3, 3000.0), DESIGN)
    assert recall(alone.score, np.flatnonzero(y < 2)) < 0.8


def test_a_class_that_the_sketch_lacks_keeps_its_name() -> None:
    x, y = some(900, 4)
    found = score_labels_by_sketch((x, y), sketched(9000, 5, 1.0, keep=(1, 2)), DESIGN)
    assert found.seen is not None
    assert found.seen[0] == 0.0
    assert found.seen[1:].min() > 0.5
    assert found.meanings is not None
    assert found.meanings[0] == 0
    assert np.isfinite(found.score).all()


def test_posteriors_are_probabilities_for_equal_records_and_empty_classes() -> None:
    x, y = np.zeros((50, 4)), np.zeros(50, dtype=np.int64)
    for last in (0, 1):
        x[:, 0] = np.arange(50) % (1 + last)
        for classes in (1, 3):
            logs = label_posterior(x, y, np.arange(classes))
            np.testing.assert_allclose(np.exp(logs).sum(1), 1.0)
    meanings, seen = label_meanings(x, y, np.zeros((3, 4)), np.array([100.0, 100.0, 0.0]), 1.0, 1.0)
    assert (meanings.tolist(), seen.tolist()) == ([0, 1, 2], [0.0, 0.0, 0.0])


def test_records_that_do_not_fit_are_refused() -> None:
    x, y = some(60, 0)
    hub = sketched(600, 1, 1.0)
    for rows, labels in ((x[:, :2], y), (x, y + 1), (x, y - 1)):
        with pytest.raises(DataError):
            score_labels_by_sketch((rows, labels), hub, DESIGN)
    with pytest.raises(DataError, match="another range"):
        score_labels_by_sketch((x, y), hub, SketchDesign.box(3, -4.0, 6.0).labelled(3))
