"""A conditional law meets the moments it is given, shrinks what the noise drowns, and says when it did not converge."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from privot.errors import ConvergenceError
from privot.synthesis.tabular.column_laws import conditional
from privot.synthesis.tabular.column_laws.conditional import draw, fit_conditional, one_hot, ridge


def law(z: np.ndarray, theta: np.ndarray, bias: np.ndarray) -> np.ndarray:
    logits = z @ theta + bias
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def test_one_parent_has_a_closed_form() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (5000, 1))
    shares = rng.dirichlet(np.ones(4), 3)
    present = np.bincount(codes[:, 0]) / 5000
    moments = present[:, None] * shares
    z = one_hot(codes, [3])
    theta, bias = fit_conditional(z, moments, moments.sum(axis=0), np.full((3, 4), 1e-9), 1e8, tolerance=1e-3)
    np.testing.assert_allclose(law(np.eye(3), theta, bias), shares, atol=2e-4)


def test_it_is_the_regression_on_the_records_themselves() -> None:
    # given the moments of real rows and those rows as population, it is an ordinary penalised logistic regression
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, 3, 3000), rng.integers(0, 4, 3000)])
    z = one_hot(codes, [3, 4])
    y = (rng.random(3000) < 1 / (1 + np.exp(1.0 - codes[:, 0] + 0.7 * (codes[:, 1] == 2)))).astype(int)
    moments = np.stack([z.T @ (y == k) for k in (0, 1)], axis=1) / 3000
    theta, bias = fit_conditional(z, moments, np.bincount(y) / 3000, np.full((7, 2), 1 / 3000), 1e9, tolerance=1e-3)
    # (θ₀, θ₁) with ½ρ(θ₀² + θ₁²) is w = θ₁ − θ₀ with ¼ρw²: twice the C of scikit-learn's ½w²
    peer = LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(z, y)
    np.testing.assert_allclose(law(z.toarray(), theta, bias), peer.predict_proba(z), atol=1e-4)


def test_noise_is_shrunk_away_and_signal_is_kept() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 50, (4000, 1))
    z = one_hot(codes, [50])
    present = np.bincount(codes[:, 0], minlength=50) / 4000
    true = np.where(np.arange(50) < 25, 0.3, 0.7)
    errors = {}
    for records in (2000.0, 2e6):
        counts = records * present[:, None] * np.column_stack([1 - true, true])
        noisy = (counts + rng.normal(0, 40.0, counts.shape)) / records
        penalty = ridge(counts.sum() / 100 * np.ones((50, 2)), 40.0, 1.0, records)
        found = law(np.eye(50), *fit_conditional(z, noisy, np.array([0.5, 0.5]), penalty, records))[:, 1]
        errors[records] = np.sqrt(np.mean((found - true) ** 2))
    # 40 records a cell under noise of 40: nearly nothing is believed, and nothing absurd; 40,000 are believed
    assert errors[2000.0] < 0.25
    assert errors[2e6] < 0.01


def test_the_ridge_is_the_best_linear_shrinkage() -> None:
    # T = μθ + N(0, v), θ ~ N(0, τ²): E[θ|T] = T/(μ + v/(τ²μ)), and the minimum of ½μθ² − Tθ + ½ρθ² is T/(μ + ρ)
    mu, sigma, tau, records = 300.0, 40.0, 0.8, 1000.0
    rng = np.random.default_rng(6)
    theta = rng.normal(0, tau, 200_000)
    seen = mu * theta + rng.normal(0, np.sqrt(sigma**2 + mu), 200_000)
    rho = float(ridge(np.array(mu), sigma, tau, records)) * records
    errors = [np.mean((seen / (mu + r) - theta) ** 2) for r in (0.5 * rho, rho, 2 * rho)]
    assert errors[1] < min(errors[0], errors[2])


def test_draws_follow_the_law() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (60_000, 1))
    theta, bias = np.array([[0.0, 1.0, -2.0], [1.0, 0.0, 0.5]]), np.array([0.1, 0.0, 0.3])
    drawn = draw(one_hot(codes, [2]), theta, bias, rng)
    for a in (0, 1):
        expected = law(np.eye(2), theta, bias)[a]
        got = np.bincount(drawn[codes[:, 0] == a], minlength=3) / np.sum(codes[:, 0] == a)
        assert np.abs(got - expected).max() < 5 * 0.5 / np.sqrt(30_000)
    none = draw(one_hot(np.zeros((1000, 0), dtype=int), []), np.zeros((0, 2)), np.log([0.25, 0.75]), rng)
    assert abs(none.mean() - 0.75) < 0.07


def test_a_fit_that_stops_early_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "MAX_STEPS", 1)
    codes = np.random.default_rng(4).integers(0, 4, (500, 3))
    z = one_hot(codes, [4, 4, 4])
    moments = np.random.default_rng(5).dirichlet(np.ones(24)).reshape(12, 2)
    with pytest.raises(ConvergenceError):
        fit_conditional(z, moments, moments[:4].sum(axis=0), np.full((12, 2), 1e-6), 1e6)
