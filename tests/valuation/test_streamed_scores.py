"""Scores of many records: streamed costs against the matrix of costs, medians, far targets, and the largest size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from privot.errors import UsageError
from privot.valuation import record_scores, score_by_records, streamed_costs
from privot.valuation.streamed_costs import StreamedCosts


def some(n: int, seed: int, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return 4.0 * np.eye(3, dim)[y] + g.normal(size=(n, dim)), y


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_scores, "MAX_ENTRIES", 1)
    # blocks of 7 rows, the last of which is not whole
    monkeypatch.setattr(streamed_costs, "BLOCK_ENTRIES", 7 * 90)


def test_streamed_scores_are_those_of_the_whole_matrix(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    own, validation = some(200, 0), some(90, 1)
    streamed = score_by_records(own, validation).score
    monkeypatch.setattr(record_scores, "MAX_ENTRIES", 1 << 26)
    whole = score_by_records(own, validation).score
    assert np.abs(streamed - whole).max() < 1e-4 * whole.std()


def test_a_target_beyond_single_precision_changes_no_score(small_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    own, (v, w) = some(200, 0), some(90, 1)
    # its kernel is e^−800 or so: 0 in single precision, and not in double
    v[4] += 60.0
    streamed = score_by_records(own, (v, w)).score
    monkeypatch.setattr(record_scores, "MAX_ENTRIES", 1 << 26)
    whole = score_by_records(own, (v, w)).score
    assert np.abs(streamed - whole).max() < 1e-3 * whole.std()


def test_costs_and_median_of_blocks_are_those_of_the_matrix(small_blocks: None) -> None:
    (x, y), (v, w) = some(200, 2), some(90, 3)
    labels = np.array([[0.0, 2.0, 5.0], [2.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    streamed = StreamedCosts(x, v, y, w, labels)
    cost = cdist(x, v, "sqeuclidean") + labels[y][:, w]
    blocks = list(streamed.blocks())
    assert len(blocks) == 29
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), cost, atol=1e-10)
    assert streamed.median() == pytest.approx(float(np.median(cost)), abs=2e-6 * cost.max() + 1e-3)


def test_more_than_the_largest_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_scores, "MAX_STREAMED", 200 * 89)
    with pytest.raises(UsageError, match=r"200 × 90 records are too many to score at once: use at most 89"):
        score_by_records(some(200, 0), some(90, 1))
