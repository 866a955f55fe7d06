"""A label of several classes: every class counts alike, both measurements count, and classes that go together do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from privot.errors import DataError
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.conditional import one_hot
from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates
from privot.synthesis.tabular.column_laws.group_basis import Basis, basis_of, stacked
from privot.synthesis.tabular.label_laws.additive_label import fit_additive
from privot.synthesis.tabular.label_laws.class_moments import ClassMoments, counted_moments, fit_classes, scored_moments
from privot.synthesis.tabular.label_laws.class_prior import class_strengths
from privot.synthesis.tabular.label_laws.label_model import LabelLaw, corrected_label, released_scores
from privot.synthesis.tabular.table_model import Factor, Levels

ROWS, GROUPS, CLASSES, COLUMNS = 3000, 6, 4, 3
SLOPES = np.array([-1.2, -0.4, 0.3, 1.3])
"""One direction of all classes, as where they have an order."""


def bases() -> list[Basis]:
    axis = Axis(0, GROUPS, tuple(np.arange(1, GROUPS) / GROUPS), ordered=True)
    return [basis_of(np.full(GROUPS, 1 / GROUPS), axis, np.arange(GROUPS)) for _ in range(COLUMNS)]


def rows() -> tuple[np.ndarray, csr_matrix]:
    codes = np.random.default_rng(0).integers(0, GROUPS, (ROWS, COLUMNS))
    return codes, one_hot(codes, [GROUPS] * COLUMNS)


def law(z: csr_matrix, theta: np.ndarray, bias: np.ndarray) -> np.ndarray:
    logits = z @ theta + bias
    chance = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def truth(z: csr_matrix) -> np.ndarray:
    ranks = np.linspace(-1, 1, GROUPS)
    strong = np.concatenate([weight * ranks for weight in (1.2, 0.6, 0.0)])
    return law(z, np.outer(strong, SLOPES), np.log([0.1, 0.4, 0.3, 0.2]))


def estimates(codes: np.ndarray, p: np.ndarray, sd: float, seed: int) -> Estimates:
    """Noisy counts by class, of a model of x that is right."""
    rng = np.random.default_rng(seed)
    tables = [one_hot(codes[:, i : i + 1], [GROUPS]).T @ p for i in range(COLUMNS)]
    total = p.sum(axis=0)
    noisy = []
    for table in tables:
        made = np.maximum(table + sd * rng.normal(size=table.shape), 1.0)
        for _ in range(50):
            made *= (table.sum(axis=1) / made.sum(axis=1))[:, None]
            made *= total / made.sum(axis=0)
        noisy.append(made / ROWS)
    return Estimates(
        ROWS, CLASSES, [t.sum(axis=1) for t in tables], 1.0, [np.arange(GROUPS)] * COLUMNS, noisy,
        [np.full((GROUPS, CLASSES), sd)] * COLUMNS, np.full(CLASSES, sd), {}, {},
    )  # fmt: skip


def test_the_law_behind_exact_moments_of_all_classes_is_found() -> None:
    _, z = rows()
    p = truth(z)
    variance, totals = np.full((z.shape[1], CLASSES), 1e-4), (p.sum(axis=0), np.full(CLASSES, 1e-4))
    omega = np.eye(CLASSES) - 1.0 / CLASSES
    found, bias = fit_additive(
        z, np.zeros((ROWS, CLASSES)), z.T @ p, variance, totals, ROWS, 100.0, stacked(bases()), omega
    )
    np.testing.assert_allclose(law(z, found, bias), p, atol=1e-3)
    assert (found[:, 0] == 0).all()


def test_no_class_is_special_for_being_the_first() -> None:
    """Classes in another order: the same law. With the classes but the first alone, it is another."""
    codes, z = rows()
    p, turned = truth(z), [2, 0, 3, 1]
    known = estimates(codes, p, 30.0, 1)
    other = Estimates(**{**known.__dict__, "by_label": [table[:, turned] for table in known.by_label]})
    chance = z.T @ (p * (1.0 - p))
    one = fit_classes(known, z, counted_moments(known, codes), chance, bases())
    two = fit_classes(other, z, counted_moments(other, codes), chance[:, turned], bases())
    np.testing.assert_allclose(law(z, *one)[:, turned], law(z, *two), atol=2e-3)


def test_strengths_and_the_direction_of_classes_are_found_in_noise() -> None:
    """Thirty functions of u ~ N(0, τ²·vvᵀ) in noise of a third of their size: Ω is mostly vvᵀ, τ right within 30 %."""
    rng = np.random.default_rng(3)
    label, records, width = np.array([0.1, 0.4, 0.3, 0.2]), 1e4, 11
    axis = Axis(0, width, tuple(np.arange(1, width) / width), ordered=True)
    many = [basis_of(np.full(width, 1 / width), axis, np.arange(width)) for _ in range(3)]
    v = SLOPES - SLOPES.mean()
    v *= np.sqrt(3.0) / np.linalg.norm(v)
    curve = records * (np.diag(label) - np.outer(label, label))
    size, excess = 0.4, []
    for basis in many:
        u = np.outer(size * rng.normal(size=basis.vectors.shape[1]), v)
        # Lᵀ·excess = A·u, where the functions are orthonormal under even shares
        excess.append(basis.vectors @ (u @ curve) / width)
    whole = np.concatenate(excess)
    noise = whole.std() / 3.0
    whole = whole + noise * rng.normal(size=whole.shape)
    shares = np.full(3 * width, 1 / width)
    tau, omega = class_strengths(whole, shares, np.full(whole.shape, noise**2), many, label, records, (0.03, 1.5))
    sizes, vectors = np.linalg.eigh(omega)
    assert np.trace(omega) == pytest.approx(3.0)
    assert np.abs(omega.sum(axis=0)).max() < 1e-9
    assert sizes[-1] > 0.6 * 3.0
    assert abs(vectors[:, -1] @ v) / np.linalg.norm(v) > 0.98
    assert np.sqrt(np.mean(np.square(tau)) * sizes[-1] / 3.0) == pytest.approx(size, rel=0.3)
    # nothing but noise: the smallest strength that is allowed, or near it
    drowned = class_strengths(
        noise * rng.normal(size=whole.shape), shares, np.full(whole.shape, noise**2), many, label, records, (0.03, 1.5)
    )[0]
    assert np.median(drowned) < 0.25 * size


def test_the_average_of_two_measurements_has_the_variance_of_both() -> None:
    one, two = ClassMoments(np.array([[4.0]]), np.array([[1.0]])), ClassMoments(np.array([[8.0]]), np.array([[3.0]]))
    both = one.with_other(two)
    assert both.counts.item() == pytest.approx(5.0)
    assert both.noise.item() == pytest.approx(0.75)


def scored(codes: np.ndarray, z: csr_matrix, p: np.ndarray, known: Estimates, seed: int, every: bool = True) -> Any:
    """A release of scores of a law that knows the shares of classes only, and that law."""
    factor = Factor(None, tuple((i,) for i in range(COLUMNS)), np.zeros((z.shape[1], CLASSES)), np.log(known.label))
    levels = Levels(known.groups, [np.zeros(GROUPS, dtype=np.int64)] * COLUMNS)
    exact = z.T @ (p - known.label)
    noisy = exact + 30.0 * np.random.default_rng(seed).normal(size=exact.shape)
    value = {"scores": (noisy if every else noisy[:, 1:]).ravel()}
    return LabelLaw(factor, levels), value, {"scores": {"sigma": 30.0}}


@pytest.mark.slow
def test_counts_and_scores_together_are_better_than_either() -> None:
    """Mean squared error of p(y | x) over five draws: less than 0.8 of each alone (half would be the best of all)."""
    codes, z = rows()
    p = truth(z)
    chance = z.T @ (p * (1.0 - p))
    error: dict[str, list[float]] = {"counts": [], "scores": [], "both": [], "earlier": []}
    for seed in range(5):
        known = estimates(codes, p, 30.0, seed)
        of_counts = counted_moments(known, codes)
        asked = scored(codes, z, p, known, 100 + seed)
        scores, sd = released_scores(asked[1], asked[2], z.shape[1], CLASSES)
        of_scores = scored_moments(z, np.tile(np.log(known.label), (ROWS, 1)), scores, sd, ROWS)
        for name, moments in (("counts", of_counts), ("scores", of_scores)):
            error[name].append(np.mean(np.square(law(z, *fit_classes(known, z, moments, chance, bases())) - p)))
        for name, given in (("both", asked), ("earlier", scored(codes, z, p, known, 100 + seed, every=False))):
            factor = corrected_label(known, *given, codes, bases())
            error[name].append(np.mean(np.square(law(z, factor.theta, factor.bias) - p)))
    mean = {name: float(np.mean(found)) for name, found in error.items()}
    assert mean["both"] < 0.8 * min(mean["counts"], mean["scores"])
    # a release from before the first class had scores: a little more is lost
    assert mean["both"] < mean["earlier"] < 1.5 * mean["both"]


def test_released_scores_add_up_to_nothing_and_others_are_refused() -> None:
    value: dict[str, Any] = {"scores": np.arange(12.0)}
    public = {"scores": {"sigma": 2.0}}
    found, sd = released_scores(value, public, 3, 4)
    assert sd == 2.0
    np.testing.assert_allclose(found, np.tile([-1.5, -0.5, 0.5, 1.5], (3, 1)))
    earlier, _ = released_scores(value, public, 4, 4)
    np.testing.assert_allclose(earlier[:, 1:].ravel(), np.arange(12.0))
    np.testing.assert_allclose(earlier.sum(axis=1), 0.0)
    two, _ = released_scores(value, public, 12, 2)
    np.testing.assert_allclose(two, np.stack([-np.arange(12.0), np.arange(12.0)], axis=1))
    codes, z = rows()
    known = estimates(codes, truth(z), 1.0, 0)
    asked = scored(codes, z, truth(z), known, 0)
    with pytest.raises(DataError):
        corrected_label(known, asked[0], {"scores": np.zeros(7)}, asked[2], codes, bases())
