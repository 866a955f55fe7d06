"""Means of public classes mixed into released ones: the weight against the best one, and whose classes they are."""

from __future__ import annotations

import numpy as np
import pytest

from privot.errors import DataError
from privot.synthesis import PublicImages
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.public.public_means import PART, PublicUse, mix, mixing_weight, public_means, same_classes


def test_twice_the_weight_is_the_mixture_nearest_to_the_truth() -> None:
    dice = np.random.default_rng(0)
    true = dice.standard_normal((5, 400))
    own, noise = true + 0.7 * dice.standard_normal(true.shape), np.array([0.2, 0.5, 1.0, 1.5, 0.3])
    noisy = true + noise[:, None] * dice.standard_normal(true.shape)
    grid = np.linspace(0.0, 1.0, 1001)
    errors = [np.square((1.0 - a) * noisy + a * own - true).sum() for a in grid]
    assert mixing_weight(noisy, own, noise) / PART == pytest.approx(grid[np.argmin(errors)], abs=0.04)


def test_the_weight_is_small_for_little_noise_and_never_above_a_half() -> None:
    means, own = np.ones((2, 50)), np.zeros((2, 50))
    assert mixing_weight(means, own, np.full(2, 1e-3)) < 1e-6
    assert mixing_weight(means, own, np.full(2, 1e3)) == PART
    assert mixing_weight(means, means, np.full(2, 1.0)) == PART


def _images(seed: int = 3, classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    dice, y = np.random.default_rng(seed), np.arange(240) % classes
    shapes = np.random.default_rng(1).uniform(size=(classes, 16))
    return np.clip(shapes[y] + 0.1 * dice.standard_normal((240, 16)), 0.0, 1.0), y


def test_labels_count_only_where_the_release_shows_the_same_classes() -> None:
    features = Fourier(16, 40, [1.0], 0)
    noise = np.full(6, 0.05)
    dice = np.random.default_rng(4)
    means = public_means(features, PublicImages(*_images(5)), "cpu")
    noisy = means + noise[:, None] * dice.standard_normal(means.shape)
    x, y = _images()
    found, own, used = mix(features, noisy, noise, PublicImages(x, y), "cpu")
    assert used.outcome == "mixed"
    assert own is not None
    assert np.linalg.norm(found - means) < np.linalg.norm(noisy - means)
    other = dice.permutation(6)
    for labels, outcome in (
        (None, "unlabelled"),
        (y % 2, "other classes"),
        ((y + 1) % 6, "disagree"),
        (other[y], "disagree"),
    ):
        found, own, used = mix(features, noisy, noise, PublicImages(x, labels), "cpu")
        assert (used.outcome, used.weight) == (outcome, 0.0)
        assert found is noisy
        assert own is None
    # where noise is small the release says more
    assert mix(features, means + 0.001, np.full(6, 1e-4), PublicImages(x, y), "cpu")[2].outcome == "little noise"
    # of releases without classes
    assert mix(features, noisy[:1], noise[:1], PublicImages(x, np.zeros(240, dtype=int)), "cpu")[2].weight == 0.0


def test_unrelated_classes_are_taken_for_the_same_in_one_of_a_hundred_cases() -> None:
    dice = np.random.default_rng(5)
    taken = sum(same_classes(dice.standard_normal((8, 20)), dice.standard_normal((8, 20))) for _ in range(1_000))
    # 10 expected; five standard deviations more are 26
    assert 1 <= taken <= 26


def test_public_means_are_those_of_each_class() -> None:
    x, y = _images(classes=3)
    features = Fourier(16, 10, [1.0], 0)
    import torch

    phi = features.features(torch.from_numpy(x)).numpy()
    wanted = [phi[y == c].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(public_means(features, PublicImages(x, y), "cpu"), wanted, atol=1e-5)


def test_what_was_done_is_read_back() -> None:
    used = PublicUse("00", 20, "mixed", 0.25)
    assert PublicUse.from_dict(used.to_dict()) == used
    wrongs = (
        {},
        {**used.to_dict(), "weight": 2.0},
        {**used.to_dict(), "outcome": "x"},
        {**used.to_dict(), "images": None},
    )
    for wrong in wrongs:
        with pytest.raises(DataError):
            PublicUse.from_dict(wrong)
