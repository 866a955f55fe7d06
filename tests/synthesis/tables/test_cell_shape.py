"""Noise within groups is smoothed away, and what the records show is kept."""

from __future__ import annotations

import numpy as np
import pytest

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws.cell_shape import cell_shares

SD = 40.0


def axis(cells: int, missing: bool = False) -> Axis:
    edges = np.arange(1, cells - missing) / (cells - missing)
    return Axis(0, cells, tuple(edges), missing=missing, ordered=True)


def error(truth: np.ndarray, groups: np.ndarray, kind: Axis, draws: int = 40) -> tuple[float, float]:
    """Mean distance of the shares within groups, ours and that of the counts with negative ones cut off."""
    rng = np.random.default_rng(0)
    out = []
    for _ in range(draws):
        counts = truth + SD * rng.normal(size=len(truth))
        for shares in (cell_shares(counts, groups, kind, SD), np.maximum(counts, 1e-3)):
            gaps = []
            for group in range(groups.max() + 1):
                at = groups == group
                gaps.append(0.5 * np.abs(shares[at] / shares[at].sum() - truth[at] / truth[at].sum()).sum())
            out.append(np.mean(gaps))
    ours, raw = np.reshape(out, (draws, 2)).mean(axis=0)
    return float(ours), float(raw)


def test_even_cells_stay_even() -> None:
    ours, raw = error(np.full(64, 60.0), np.repeat(np.arange(8), 8), axis(64))
    assert ours < 0.5 * raw


def test_a_value_that_stands_out_is_kept() -> None:
    truth = np.full(24, 60.0)
    truth[12] = 900.0
    groups = np.repeat(np.arange(3), 8)
    shares = cell_shares(truth + SD * np.random.default_rng(1).normal(size=24), groups, axis(24), SD)
    within = shares[8:16] / shares[8:16].sum()
    assert within[4] == pytest.approx(900 / 1320, abs=0.1)


@pytest.mark.parametrize("turned", [False, True])
def test_an_empty_end_stays_empty(turned: bool) -> None:
    truth = np.concatenate([np.full(20, 300.0), 300.0 * 0.5 ** np.arange(1, 5), np.zeros(26)])
    groups = np.minimum(np.arange(50) // 5, 4)
    if turned:
        truth, groups = truth[::-1], 4 - groups[::-1]
    rng = np.random.default_rng(2)
    far = []
    for _ in range(30):
        shares = cell_shares(truth + SD * rng.normal(size=50), groups, axis(50), SD)
        tail = groups == (0 if turned else 4)
        far.append(shares[truth == 0.0].sum() / shares[tail].sum())
    # cutting off negative counts would leave 26·σ/√(2π), half of the group, in cells where nobody is
    assert np.mean(far) < 0.12


def test_missing_values_and_columns_without_order_are_no_tails() -> None:
    counts = np.array([500.0, 400.0, 300.0, 20.0, 10.0, 900.0])
    groups = np.array([0, 0, 1, 1, 1, 2])
    shares = cell_shares(counts, groups, axis(6, missing=True), 1.0)
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares[2:5] / shares[2:5].sum(), counts[2:5] / 330.0, atol=0.01)
    words = cell_shares(counts, groups, Axis(0, 6), 1.0)
    np.testing.assert_allclose(words, counts / counts.sum(), atol=0.01)
    # a missing cell that shares the last group with others, and counts that are all noise
    joined = cell_shares(np.full(6, -5.0), np.array([0, 0, 0, 0, 0, 0]), axis(6, missing=True), 1.0)
    assert (joined >= 0).all()
    assert joined.sum() == pytest.approx(1.0)
