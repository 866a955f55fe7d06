"""Shares of classes: chance is no difference between parties, a clear difference stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from privot.valuation.class_profiles import Profile
from privot.valuation.class_shares import CHANCE, CLEAR, CommonShares, CountedShares, clarity, moved_by
from privot.valuation.labelled_records import Array

EVEN = np.full(10, 0.1)
TILTED = np.array([0.19, 0.19, 0.19, *[0.43 / 7.0] * 7])


def counted(share: Array, seed: int, records: int = 1000, deviation: float = 0.003) -> CountedShares:
    g = np.random.default_rng(seed)
    seen = g.multinomial(records, share) / records + deviation * g.standard_normal(len(share))
    return CountedShares(seen, deviation**2, float(records))


def test_parties_drawn_alike_are_read_as_alike() -> None:
    left = []
    for seed in range(200):
        parties = [counted(EVEN, 10 * seed + k) for k in range(5)]
        common = CommonShares.of(parties, counted(EVEN, 10 * seed + 9, 2000, 0.0015))
        read = np.array([one.read(common) for one in parties])
        raw = np.array([one.share for one in parties])
        left.append(np.abs(read - read.mean(0)).sum() / np.abs(raw - raw.mean(0)).sum())
    # a law of z with mean 0 and deviation 1: few are beyond 1, and hardly one beyond 3
    assert np.mean(left) < 0.1


def test_a_tilted_party_keeps_its_shares_and_moves_nobody_elses() -> None:
    for seed in range(50):
        parties = [counted(TILTED, 10 * seed), *(counted(EVEN, 10 * seed + k) for k in range(1, 5))]
        common = CommonShares.of(parties, counted(EVEN, 10 * seed + 9, 2000, 0.0015))
        np.testing.assert_allclose(parties[0].read(common), parties[0].share, rtol=1e-12)
        # the median of five does not follow one of them
        assert np.abs(common.read - EVEN).max() < 0.02


def test_parties_that_differ_from_the_validation_side_together_keep_that_difference() -> None:
    parties = [counted(TILTED, k, 2000) for k in range(5)]
    common = CommonShares.of(parties, counted(EVEN, 9, 2000, 0.0015))
    assert np.abs(common.read - np.median([one.share for one in parties], axis=0)).max() < 0.002


def test_clarity_is_0_for_chance_1_for_a_clear_difference_and_a_line_between() -> None:
    # f = 1: z = (Q − 1)/√2
    for z, expected in ((0.0, 0.0), (CHANCE, 0.0), ((CHANCE + CLEAR) / 2.0, 0.5), (CLEAR, 1.0), (50.0, 1.0)):
        square = 1.0 + np.sqrt(2.0) * z
        assert clarity(np.sqrt([square / 2.0] * 2), np.ones(2)) == pytest.approx(expected)
    # a class that nobody has is none: one class is left, whose share is 1 on both sides
    assert clarity(np.zeros(2), np.array([0.0, 0.1])) == 1.0


def test_shares_of_a_coalition_move_by_so_much_and_sum_to_1() -> None:
    pool = Profile(np.array([0, 2]), np.array([0.25, 0.75]), np.zeros((2, 1)), np.zeros(2), 0.0, 1.0)
    moved = moved_by(pool, np.array([0.25, 0.0, -0.25]))
    np.testing.assert_allclose(moved.share, [0.5, 0.5])
    # what would move to a class that the coalition does not have stays where it is, and no share is below 0
    np.testing.assert_allclose(moved_by(pool, np.array([0.0, 0.3, -0.5])).share, [0.5, 0.5])
    np.testing.assert_allclose(moved_by(pool, np.array([-0.5, 0.0, 0.25])).share, [0.0, 1.0])
    assert moved_by(pool, np.array([-1.0, 2.0, -1.0])) is pool
