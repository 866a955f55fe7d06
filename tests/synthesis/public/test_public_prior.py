"""Means denoised by public images: against the dense formula, and against truths that were drawn from the prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privot.errors import DataError
from privot.synthesis import Fourier, PublicImages
from privot.synthesis.public.public_prior import Prior, PublicUse, denoise, prior_of, public_features


def _features(images: int = 300, size: int = 12, seed: int = 0) -> np.ndarray:
    dice = np.random.default_rng(seed)
    return dice.standard_normal((images, 3)) @ dice.standard_normal((3, size)) + 0.05 * dice.standard_normal(
        (images, size)
    )


def test_the_filter_is_the_dense_posterior_mean() -> None:
    prior = prior_of(_features(20), 2)
    # fewer directions than columns, so that the rest counts too
    assert prior.directions.shape == (12, 10)
    dice = np.random.default_rng(1)
    means, noise = dice.standard_normal((2, 12)), np.array([0.3, 0.8])
    found, spread, likelihood, kept = prior.denoised(means, noise)
    u = prior.directions
    sigma = u @ np.diag(prior.variances) @ u.T + prior.rest * (np.eye(12) - u @ u.T)
    wanted, dense, shares = [], 0.0, []
    for m, mean, s in zip(prior.means, means, noise, strict=True):
        whole = spread * sigma + s**2 * np.eye(12)
        wanted.append(m + spread * sigma @ np.linalg.solve(whole, mean - m))
        dense -= 0.5 * (np.linalg.slogdet(whole)[1] + (mean - m) @ np.linalg.solve(whole, mean - m))
        shares.append(np.trace(spread * sigma @ np.linalg.inv(whole)) / 12)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert likelihood == pytest.approx(dense)
    assert kept == pytest.approx(np.mean(shares))


def test_variances_are_those_of_images_that_gave_no_direction() -> None:
    prior = prior_of(np.random.default_rng(0).standard_normal((200, 150)), 1)
    # of 100 images along their own principal directions the first would be about (1 + √1.5)² = 4.9
    assert 0.8 < prior.variances[-5:].mean() < 1.25
    assert prior.rest == pytest.approx(1.0, rel=0.1)


def test_truths_from_the_prior_are_found_better_and_little_noise_changes_nothing() -> None:
    dice, phi = np.random.default_rng(2), _features()
    prior = prior_of(phi, 10)
    true = (
        prior.means + 0.5 * dice.standard_normal((10, 3)) @ (prior.directions[:, -3:] * prior.variances[-3:] ** 0.5).T
    )
    noisy = true + 0.6 * dice.standard_normal(true.shape)
    found = prior.denoised(noisy, np.full(10, 0.6))[0]
    # three of twelve directions vary: of the noise about a quarter of the square stays
    assert np.linalg.norm(found - true) < 0.65 * np.linalg.norm(noisy - true)
    quiet, _, _, kept = prior.denoised(true + 1e-6 * dice.standard_normal(true.shape), np.full(10, 1e-6))
    assert np.abs(quiet - true).max() < 1e-4
    assert kept > 0.99


def test_labels_are_used_where_they_make_the_release_likelier() -> None:
    dice = np.random.default_rng(3)
    y = np.arange(300) % 3
    x = np.clip(0.1 * dice.standard_normal((300, 16)) + 0.2 + 0.3 * y[:, None], 0.0, 1.0)
    features = Fourier(16, 40, [1.0], 0)
    phi = public_features(features, PublicImages(x), "cpu")
    means = np.stack([phi[y == c].mean(axis=0) for c in range(3)])
    noisy, noise = means + 0.05 * dice.standard_normal(means.shape), np.full(3, 0.05)
    assert denoise(features, noisy, noise, PublicImages(x, y), "cpu")[1].by_class
    assert not denoise(features, noisy, noise, PublicImages(x, (y + 1) % 3), "cpu")[1].by_class
    assert not denoise(features, noisy, noise, PublicImages(x), "cpu")[1].by_class
    # two classes say nothing about three
    assert not denoise(features, noisy, noise, PublicImages(x, y % 2), "cpu")[1].by_class


def test_images_that_are_all_alike_do_no_harm() -> None:
    means = np.array([[0.3, 0.1, 0.0, 0.2]])
    prior = prior_of(np.zeros((20, 4)), 1)
    assert np.isfinite(prior.denoised(means, np.array([0.1]))[0]).all()
    assert isinstance(replace(prior, rest=0.0), Prior)


def test_what_was_done_is_read_back() -> None:
    used = PublicUse("00", 20, True, 0.5, 0.25)
    assert PublicUse.from_dict(used.to_dict()) == used
    for wrong in ({}, {**used.to_dict(), "kept": "x"}, {**used.to_dict(), "images": None}):
        with pytest.raises(DataError):
            PublicUse.from_dict(wrong)
