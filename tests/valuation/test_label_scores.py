"""Scores of labels: against scikit-learn's discriminants, with much noise and little, and what they find."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from privot import Vault
from privot.errors import DataError
from privot.federation import Sketch, sketch
from privot.mechanisms import SketchDesign
from privot.valuation import score_by_sketch, score_labels_by_sketch
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


def test_with_little_noise_scores_are_those_of_linear_discriminants() -> None:
    x, y = some(3000, 0)
    found = score_labels_by_sketch((x, y), sketched(30_000, 1, 0.1), DESIGN)
    theirs = LinearDiscriminantAnalysis().fit(*some(30_000, 1)).predict_log_proba(x)
    expected = -theirs[np.arange(len(y)), y]
    assert np.corrcoef(found.score, expected)[0, 1] > 0.995
    assert np.median(np.abs(found.score - expected)) < 0.05
    assert found.seen is not None
    assert found.seen.min() > 0.8
    assert found.guarantee is not None


def test_wrong_labels_are_found_by_the_shape_that_means_do_not_tell() -> None:
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
    assert recall(score_labels_by_sketch((x, swapped), hub, DESIGN).score, np.flatnonzero(y < 2)) > 0.95


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


def test_a_class_that_the_sketch_lacks_keeps_ones_own_mean() -> None:
    x, y = some(900, 4)
    found = score_labels_by_sketch((x, y), sketched(9000, 5, 1.0, keep=(1, 2)), DESIGN)
    assert found.seen is not None
    assert found.seen[0] == 0.0
    assert found.seen[1:].min() > 0.5
    assert np.isfinite(found.score).all()


def test_posteriors_are_probabilities_for_records_without_spread_and_empty_classes() -> None:
    u, y = np.zeros((50, 4)), np.zeros(50, dtype=np.int64)
    u[:, 0] = np.arange(50) % 2
    # with no class to be seen, nothing but the ridge widens a covariance of rank 1
    for count in ([100.0, 100.0, 0.0], [0.0, 0.0, 0.0]):
        logs, seen = label_posterior(u, y, np.zeros((3, 4)), np.array(count), 1.0, 1.0)
        np.testing.assert_allclose(np.exp(logs).sum(1), 1.0)
        assert seen[2] == 0.0


def test_records_that_do_not_fit_are_refused() -> None:
    x, y = some(60, 0)
    hub = sketched(600, 1, 1.0)
    for rows, labels in ((x[:, :2], y), (x, y + 1), (x, y - 1)):
        with pytest.raises(DataError):
            score_labels_by_sketch((rows, labels), hub, DESIGN)
    with pytest.raises(DataError, match="another range"):
        score_labels_by_sketch((x, y), hub, SketchDesign.box(3, -4.0, 6.0).labelled(3))
