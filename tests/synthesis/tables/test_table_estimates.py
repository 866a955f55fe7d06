"""Noisy marginals are made to agree, without bias and with less noise than each alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privot import Vault
from privot.errors import DataError
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.release import Release
from privot.synthesis.tabular.column_laws.consistent_marginals import Estimates, _possible, _with_total, estimate

AXES = (Axis(0, 8, tuple(np.arange(1, 8) / 8), ordered=True), Axis(1, 5), Axis(2, 6))


def table(rows: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.random(rows)
    b = np.minimum((5 * a * rng.random(rows) ** 0.3).astype(int), 4)
    c = rng.integers(0, 6, rows)
    return np.column_stack([a, b, c]), (a + 0.3 * rng.normal(size=rows) > 0.6).astype(int)


X, Y = table()


def release(sigma: float, **changes: Any) -> tuple[GroupedMarginals, Release]:
    settings: dict[str, Any] = {"axes": AXES, "classes": 2, "sigma": (sigma, sigma), "by_class": True, **changes}
    if settings.get("label_sigma"):
        settings["label_sigma"] = sigma
    mechanism = GroupedMarginals(**settings)
    labels = Y if mechanism.classes else None
    vault = Vault(X, labels, clip=20.0, classes=mechanism.classes, adjacency="add-remove", budget=(1e12, 1e-6))
    return mechanism, vault.release(mechanism, purpose="test")


def truth(groups: list[np.ndarray]) -> list[np.ndarray]:
    out = []
    for i, axis in enumerate(AXES):
        code = groups[i][axis.index(X, Y)]
        out.append(np.stack([np.bincount(code[y == Y], minlength=groups[i].max() + 1) for y in (0, 1)], axis=1))
    return out


KINDS = ({"by_class": True}, {"by_class": False}, {"by_class": False, "label_sigma": True}, {"label_sigma": True})
"""Pairs by class or not; fine counts by class, or merged ones."""


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_they_are_the_true_shares(kind: dict[str, Any]) -> None:
    known = estimate(release(0.01, **kind)[1])
    assert known.records == pytest.approx(6000, abs=1)
    for found, counts in zip(known.by_label, truth(known.groups), strict=True):
        # every group is kept possible, by a thousandth
        np.testing.assert_allclose(found * 6000, counts, atol=7)
    code = [known.groups[i][axis.index(X, Y)] for i, axis in enumerate(AXES)]
    joint = np.zeros(known.two(0, 1).shape)
    np.add.at(joint, (code[0], code[1]), 1)
    np.testing.assert_allclose(known.two(0, 1) * 6000, joint, atol=7)
    np.testing.assert_allclose(known.two(1, 0), known.two(0, 1).T)


@pytest.mark.parametrize("kind", KINDS)
def test_all_marginals_agree(kind: dict[str, Any]) -> None:
    known = estimate(release(25.0, **kind)[1])
    by_class = kind.get("by_class", True)
    for table_ in known.by_label:
        np.testing.assert_allclose(table_.sum(axis=0), known.label, rtol=1e-9)
        assert (table_ > 0).all()
    assert known.label.sum() == pytest.approx(1.0)
    for (i, j), pair in known.pairs.items():
        left, right = (
            (known.by_label[i], known.by_label[j]) if by_class else (known.one(i)[:, None], known.one(j)[:, None])
        )
        np.testing.assert_allclose(pair.sum(axis=1), left, atol=1e-12)
        np.testing.assert_allclose(pair.sum(axis=0), right, atol=1e-12)


@pytest.mark.slow
def test_agreement_averages_the_noise_away_without_bias() -> None:
    errors, raws, spread = [], [], 0.0
    for _ in range(60):
        mechanism, made = release(15.0)
        known = estimate(made)
        # column 1 has five well-filled categories: its groups are its cells
        assert known.groups[1].tolist() == [0, 1, 2, 3, 4]
        counts = truth(known.groups)[1]
        raw = np.split(made.value["fine"], np.cumsum(mechanism.fine().lengths)[:-1])[1].reshape(5, 2)
        errors.append(known.by_label[1] * known.records - counts)
        raws.append(raw - counts)
        spread = float(known.spread[1].mean())
    error, raw_error = np.array(errors), np.array(raws)
    # 600 numbers: a deviation is within 16 % with probability 1 − 1e-7; ⅔σ is far outside
    assert raw_error.std() == pytest.approx(15.0, rel=0.16)
    # the fine counts alone leave 15; each of the two pairs with about eight groups adds a tenth to what is known
    assert spread < 0.95 * 15.0
    assert error.std() == pytest.approx(spread, rel=0.16)
    assert np.abs(error.mean(axis=0)).max() < 5 * error.std() / np.sqrt(60) + 2.0


@pytest.mark.slow
def test_counts_without_class_make_one_way_shares_better() -> None:
    def error(**kind: Any) -> float:
        out = []
        for _ in range(30):
            known = estimate(release(15.0, by_class=False, **kind)[1])
            out.append(np.abs(known.one(1) * known.records - truth(known.groups)[1].sum(axis=1)).mean())
        return float(np.mean(out))

    # for twice the variance of the fine counts by class, merged counts add a second estimate that is as good
    assert error(label_sigma=True) < 0.8 * error()


def test_possible_tables_keep_both_margins() -> None:
    rng = np.random.default_rng(0)
    counts = rng.normal(30.0, 40.0, (12, 4))
    total = np.maximum(counts.sum(axis=0), 1.0)
    out = _possible(counts, total)
    assert (out > 0).all()
    np.testing.assert_allclose(out.sum(axis=0), total, rtol=1e-9)
    np.testing.assert_allclose(out.sum(axis=1), _with_total(counts.sum(axis=1), total.sum()), rtol=1e-6)


def test_dependence_is_seen_and_independence_too() -> None:
    found = estimate(release(10.0)[1]).dependence()
    np.testing.assert_allclose(found, found.T)
    assert found[0, 1] > 500
    assert abs(found[0, 2]) < 0.1 * found[0, 1]
    assert abs(found[1, 2]) < 0.1 * found[0, 1]


def law_of_noise(known: Estimates, i: int, j: int) -> np.ndarray:
    """λ: without dependence, `dependence` of i and j is Σ λ·(z² − 1) with z of N(0, 1), for noise in the pair alone.

    The noise of a pair whose margins are kept is centred in both directions, ε → Pε; the weights are 1/expected.
    """
    spread, shares = known.two_spread(i, j), np.outer(known.one(i), known.one(j))
    rows, columns = (np.eye(size) - 1.0 / size for size in shares.shape)
    centre = np.kron(rows, columns)
    return np.linalg.eigvalsh(centre @ (spread**2 / np.maximum(known.records * shares, spread).reshape(-1, 1) * centre))


def test_noise_alone_is_not_dependence() -> None:
    """The mean of 40 estimates without dependence is within what the noise's own law allows but once in 10⁶.

    In units of the deviation known from that law, noise that is not subtracted adds 2.9 to the mean, and noise that is
    subtracted as if no margins were kept takes 1.5 off. Laurent & Massart (2000), lemma 1: Σ λ·(z² − 1)
    exceeds 2|λ|·√x + 2·max λ·x, or falls below −2|λ|·√x, with probability e^−x at most each.
    """
    found, largest = [], 0.0
    for _ in range(20):
        known = estimate(release(60.0)[1])
        for i in (0, 1):
            law = law_of_noise(known, i, 2)
            deviation = np.sqrt(2.0 * (law**2).sum())
            found.append(known.dependence()[i, 2] / deviation)
            largest = max(largest, law.max() / deviation)
    x = np.log(2e6)
    below = np.sqrt(2.0 * x / len(found))
    # a tenth covers the χ² of the records themselves and the noise of uneven margins, 0.03 together
    assert -below < np.mean(found) < below + 2.0 * largest * x / len(found) + 0.1


def test_tables_without_labels_have_one_class() -> None:
    known = estimate(release(10.0, classes=None, by_class=False)[1])
    assert known.classes == 1
    assert known.by_label[1].shape[1] == 1
    assert known.records == pytest.approx(6000, rel=0.05)


def test_noise_that_drowns_everything_is_survived() -> None:
    for _ in range(5):
        known = estimate(release(1e6)[1])
        assert known.records >= 1.0
        assert all(np.isfinite(pair).all() for pair in known.pairs.values())


def test_other_releases_are_refused() -> None:
    _, made = release(10.0)
    for broken in (
        replace(made, value={"fine": made.value["fine"]}),
        replace(made, value={**made.value, "pairs": made.value["pairs"][:-1]}),
        replace(made, value={**made.value, "groups": made.value["groups"][:-1]}),
        replace(made, public={}),
        replace(made, value=np.zeros(3)),
        replace(made, public={**made.public, "labelled": {"scales": [1.0]}}),
    ):
        with pytest.raises(DataError):
            estimate(broken)
