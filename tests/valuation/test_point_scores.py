"""Scores of single records: against POT's duals, at both ends of the noise, and what they find."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from privot import Vault
from privot.errors import DataError, UsageError
from privot.federation import Sketch, sketch
from privot.mechanisms import SketchDesign
from privot.valuation import score_by_records, score_by_sketch
from privot.valuation.labelled_records import LABEL_WEIGHT, Labelled
from privot.valuation.record_scores import REGULARISATION, RELAXATION, _between

MIDDLES = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
DESIGN = SketchDesign.box(3, -3.0, 6.0).labelled(3)


def some(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return MIDDLES[y] + 0.7 * g.normal(size=(n, 3)), y


def sketched(n: int, seed: int, sigma: float) -> Sketch:
    x, y = some(n, seed)
    vault = Vault(x, y, classes=3, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    return sketch(vault, sigma=sigma, delta=1e-5, design=DESIGN)


def of_pot(cost: np.ndarray, share: np.ndarray, scale: float) -> np.ndarray:
    """POT's semi-relaxed potentials, whose plan is exp((f + g − C)/ε)·a·b; calibrated."""
    own = np.full(len(cost), 1.0 / len(cost))
    _, log = ot.unbalanced.sinkhorn_unbalanced(
        own,
        share,
        cost,
        REGULARISATION * scale,
        (float("inf"), RELAXATION * scale),
        reg_type="kl",
        method="sinkhorn_stabilized",
        log=True,
        stopThr=1e-12,
        numItermax=5000,
    )
    f = REGULARISATION * scale * log["logu"]
    return np.asarray(f - (f.sum() - f) / (len(f) - 1))


def recall(score: np.ndarray, bad: np.ndarray) -> float:
    return len(np.intersect1d(np.argsort(-score)[: len(bad)], bad)) / len(bad)


def test_scores_by_records_are_pots_calibrated_duals() -> None:
    (x, y), (v, w) = some(60, 0), some(90, 1)
    found = score_by_records(Labelled.of(x, y, "A"), Labelled.of(v, w, "V"))
    means = np.stack([v[w == c].mean(0) for c in range(3)])
    cost = cdist(x, v, "sqeuclidean") + LABEL_WEIGHT * cdist(means, means, "sqeuclidean")[y][:, w]
    expected = of_pot(cost, np.full(90, 1 / 90), float(np.median(cost)))
    np.testing.assert_allclose(found.score, expected, atol=2e-3 * np.ptp(expected))
    assert found.score.sum() == pytest.approx(0.0, abs=1e-8)
    assert found.worst(3) == list(np.argsort(-found.score)[:3])


@pytest.mark.parametrize("unit", [1e-60, 1e-9, 1e60])
def test_units_change_scores_by_their_square_and_no_ranks(unit: float) -> None:
    (x, y), (v, w) = some(40, 0), some(50, 1)
    plain = score_by_records(Labelled.of(x, y, "A"), Labelled.of(v, w, "V")).score
    found = score_by_records(Labelled.of(unit * x, y, "A"), Labelled.of(unit * v, w, "V")).score
    np.testing.assert_allclose(found / unit**2, plain, atol=1e-9)


def test_most_costs_may_be_zero() -> None:
    x = np.zeros((30, 3))
    x[:3] = np.eye(3)
    own, hub = Labelled.of(x, np.zeros(30, dtype=int), "A"), Labelled.of(x[4:], np.zeros(26, dtype=int), "V")
    score = score_by_records(own, hub).score
    np.testing.assert_allclose(score[:3], score[0])
    # records 1 away from where all others are: that much worse, but for what masses give way
    assert score[0] - score[-1] == pytest.approx(1.0, abs=0.1)


def test_without_noise_a_sketch_gives_the_scores_of_class_means_and_shares() -> None:
    x, y = some(60, 0)
    v, w = some(900, 1)
    found = score_by_sketch(Labelled.of(x, y, "A"), sketched(900, 1, 0.02), DESIGN)
    assert found.guarantee is not None
    assert found.seen is not None
    assert found.seen.min() > 0.8
    means = np.stack([v[w == c].mean(0) for c in range(3)])
    cost = cdist(x, means, "sqeuclidean") + LABEL_WEIGHT * cdist(means, means, "sqeuclidean")[y]
    square = ((x - DESIGN.centre) ** 2).sum(1)
    within = float(np.median(square)) - float(((means - DESIGN.centre) ** 2).sum(1).mean())
    expected = of_pot(cost, np.full(3, 1 / 3), float(np.median(cost + within)))
    np.testing.assert_allclose(found.score, expected, atol=0.01 * np.ptp(expected))


def test_wrong_labels_and_noise_are_found_and_a_systematic_fault_needs_the_sketch() -> None:
    x, y = some(600, 2)
    flipped, noisy = y.copy(), x.copy()
    flipped[:60] = (y[:60] + 1) % 3
    noisy[:60] += 3.0 * np.random.default_rng(3).normal(size=(60, 3))
    # σ for ε = 1 is about 14 here
    hub = sketched(1500, 4, 14.0)
    assert recall(score_by_sketch(Labelled.of(x, flipped, "A"), hub, DESIGN).score, np.arange(60)) > 0.9
    assert recall(score_by_sketch(Labelled.of(noisy, y, "A"), hub, DESIGN).score, np.arange(60)) > 0.8
    swapped = np.where(y == 2, 2, 1 - y)
    bad = np.flatnonzero(y < 2)
    found = score_by_sketch(Labelled.of(x, swapped, "A"), hub, DESIGN)
    assert found.seen is not None
    assert recall(found.score, bad) > 0.95
    # noise that hides everything leaves one's own class means, which see nothing wrong with themselves
    blind = score_by_sketch(Labelled.of(x, swapped, "A"), sketched(1500, 4, 2000.0), DESIGN)
    assert recall(blind.score, bad) < 0.8
    found = score_by_sketch(Labelled.of(x, flipped, "A"), sketched(1500, 4, 2000.0), DESIGN)
    assert recall(found.score, np.arange(60)) > 0.8


def test_noise_alone_moves_class_means_by_little() -> None:
    g = np.random.default_rng(0)
    count = np.full(400, 100.0)
    means, seen = _between(np.zeros((400, 8)), 3.0 * g.normal(size=(400, 8)), count, 1.0, 3.0, 2)
    # the mean of the positive part of 1 − k/χ²_k: about 0.15 for 2 and for 6 coordinates
    assert 0.1 < seen.mean() < 0.3
    assert (means**2).sum(1).mean() < 0.5 * 8 * 0.03**2
    # too few records to be told from noise
    _, seen = _between(np.zeros((400, 8)), g.normal(size=(400, 8)), np.full(400, 3.9), 1.0, 3.0, 2)
    assert not seen.any()


def test_records_that_the_sketch_clips_are_clipped_alike_on_ones_own_side() -> None:
    x, y = some(900, 0)
    tight = SketchDesign.plain(3, 1.0).labelled(3)
    vault = Vault(x, y, classes=3, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    hub = sketch(vault, sigma=10.0, delta=1e-5, design=tight)
    # the same records: nothing but noise is between the means, and all of it would be if one side were not cut
    found = score_by_sketch(Labelled.of(x[::-1].copy(), y[::-1].copy(), "A"), hub, tight)
    assert found.seen is not None
    assert found.seen.mean() < 0.8


def test_a_class_that_noise_has_emptied_costs_its_records_a_little_and_not_the_way_to_another() -> None:
    x, y = some(300, 0)
    v, w = some(900, 1)
    vault = Vault(v[w > 0], w[w > 0], classes=3, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    hub = sketch(vault, sigma=0.05, delta=1e-5, design=DESIGN)
    found = score_by_sketch(Labelled.of(x, y, "A"), hub, DESIGN)
    assert found.seen is not None
    assert found.seen[0] == 0.0
    above = np.median(found.score[y == 0]) - np.median(found.score[y > 0])
    # another class is 18 away, and twice that by its label: 54
    assert 0.0 < above < 30.0


def test_one_surplus_record_in_a_class_does_not_raise_all_its_scores() -> None:
    x, y = some(301, 5)
    v, w = some(300, 6)
    means = np.stack([v[w == c].mean(0) for c in range(3)])
    scale = float(np.median(cdist(x, v, "sqeuclidean") + LABEL_WEIGHT * cdist(means, means, "sqeuclidean")[y][:, w]))
    score = score_by_records(Labelled.of(x, y, "A"), Labelled.of(v, w, "V")).score
    medians = [float(np.median(score[y == c])) for c in range(3)]
    # moving one record to another class costs about 54, and would be the potential of all of its class
    assert max(medians) - min(medians) < 0.02 * scale
    # three times as many of a class are too many, by at most ρ ln of what the shares are off
    tilted = np.concatenate([np.flatnonzero(y != 0), np.repeat(np.flatnonzero(y == 0), 3)])
    score = score_by_records(Labelled.of(x[tilted], y[tilted], "A"), Labelled.of(v, w, "V")).score
    above = np.median(score[y[tilted] == 0]) - np.median(score[y[tilted] != 0])
    assert 0.5 * RELAXATION * scale < above < 2.0 * RELAXATION * scale * np.log(3.0)


def test_invalid_records_are_refused() -> None:
    x, y = some(30, 0)
    own, hub = Labelled.of(x, y, "A"), sketched(60, 1, 1.0)
    for rows, labels in ((x * np.nan, y), (x[:0], y[:0]), (x[:1], y[:1]), (x, None), (x, y[:3]), (x, y + 0.5)):
        with pytest.raises(DataError):
            Labelled.of(rows, labels, "A")
    for rows, labels in ((x[:, :2], y), (x, y + 1), (x, y - 1)):
        with pytest.raises(DataError):
            score_by_records(Labelled.of(rows, labels, "A"), Labelled.of(*some(30, 1), "V"))
        with pytest.raises(DataError):
            score_by_sketch(Labelled.of(rows, labels, "A"), hub, DESIGN)
    with pytest.raises(DataError, match="same records"):
        score_by_records(own, Labelled.of(x, y, "V"))
    with pytest.raises(DataError, match="another range"):
        score_by_sketch(own, hub, SketchDesign.box(3, -3.0, 7.0).labelled(3))
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    bare = sketch(vault, sigma=1.0, delta=1e-5, design=SketchDesign.box(3, -3.0, 6.0))
    with pytest.raises(DataError, match="without labels"):
        score_by_sketch(own, bare, DESIGN)
    with pytest.raises(DataError, match="too large"):
        Labelled.of(x * 1e160, y, "A")


def test_labelled_records_are_a_plain_tuple() -> None:
    (x, y), (v, w) = some(60, 0), some(50, 1)
    found = score_by_records((x, y), (v, w))
    assert np.array_equal(found.score, score_by_records(Labelled.of(x, y, "A"), Labelled.of(v, w, "V")).score)
    hub = sketched(900, 1, 0.02)
    assert np.array_equal(
        score_by_sketch((x, y), hub, DESIGN).score, score_by_sketch(Labelled.of(x, y, "A"), hub, DESIGN).score
    )
    with pytest.raises(DataError, match="Your records has no labels"):
        score_by_records((x, None), (v, w))
    with pytest.raises(UsageError, match=r"as a tuple \(x, y\), got ndarray"):
        score_by_records(x, (v, w))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"The validation set as a tuple .* of length 3"):
        score_by_records((x, y), (v, w, w))  # type: ignore[arg-type]
