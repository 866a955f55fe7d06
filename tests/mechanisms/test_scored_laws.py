"""A law is held to what the price of its scores assumes: one row at a time, one share a class, known beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from privot import Vault
from privot.common.block_sums import RowSums
from privot.errors import PrivotError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.scored_marginals import PARTS, ScoredMarginals, residuals

A = Adjacency.ADD_REMOVE
AXES = (Axis(0, 4), Axis(1, 5), Axis(2, 3))
GROUPS = np.concatenate([np.arange(axis.cells) for axis in AXES])
CLASSES = 5


@dataclass
class Made:
    """A planner and its law in one."""

    chances: Callable[[np.ndarray], np.ndarray]
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def law(self, value: Mapping[str, Any], public: Mapping[str, Any]) -> Made:
        return self

    def probabilities(self, groups: np.ndarray) -> np.ndarray:
        return self.chances(groups)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.kept


def mechanism(made: Made) -> ScoredMarginals:
    return ScoredMarginals(GroupedMarginals(AXES, CLASSES, (30.0, 20.0)), 10.0, made)


def vault(rows: int = 40) -> Vault:
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, axis.cells, rows) for axis in AXES], axis=1)
    return Vault(x, rng.integers(0, CLASSES, rows), clip=9.0, classes=CLASSES, adjacency=A, budget=(10.0, 1e-6))


def even(groups: np.ndarray) -> np.ndarray:
    return np.full((len(groups), CLASSES), 1.0 / CLASSES)


@pytest.mark.parametrize("width", [2, CLASSES + 1])
def test_a_law_of_another_number_of_classes_is_not_spread_over_them(width: int) -> None:
    # one column of residuals, added to four classes, would move the scores by twice the norm, √2 of it unpaid
    made = mechanism(Made(lambda groups: np.eye(width)[np.zeros(len(groups), dtype=int)]))
    records = _Few(np.zeros((1, 3)), np.array([1]))
    try:
        moved = made._sums(records, made.planner, GROUPS) / PARTS  # type: ignore[arg-type]
    except UsageError:
        return
    assert np.linalg.norm(moved) <= made.sensitivity(A)
    pytest.fail("a law with another number of classes was scored")


@pytest.mark.parametrize("shape", [(3, CLASSES - 1), (1, CLASSES), (CLASSES,), (3, CLASSES, 1)])
def test_shares_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        residuals(np.zeros(shape), np.zeros(3, dtype=np.int64), CLASSES)


def test_whole_parts_stay_within_the_bound_in_any_precision() -> None:
    rng = np.random.default_rng(0)
    for kind in (np.float32, np.float64, np.int64):
        chances = (rng.dirichlet(np.full(CLASSES, 0.03), 20_000) * (1.0 + 1e-6)).astype(kind)
        for first in (0, 1):
            parts = residuals(chances, rng.integers(0, CLASSES, len(chances)), CLASSES, first)
            assert np.square(parts).sum(axis=1).max() <= 2 * PARTS**2


def test_a_law_that_looks_at_other_rows_is_refused_before_it_sees_a_record() -> None:
    seen: list[int] = []

    def among(groups: np.ndarray) -> np.ndarray:
        seen.append(len(groups))
        return even(groups) / len(groups)

    with pytest.raises(PrivotError):
        vault(rows=977).release(mechanism(Made(among)), purpose="test")
    assert 977 not in seen


def test_what_a_law_shows_was_fixed_before_it_saw_a_record() -> None:
    made = Made(even, {"law.first": np.zeros(3)})

    def remembering(groups: np.ndarray) -> np.ndarray:
        made.kept["law.first"] += groups.sum(axis=0)
        made.kept["law.second"] = groups.astype(float)
        return even(groups)

    made.chances = remembering
    release = vault(rows=977).release(mechanism(made), purpose="test")
    assert set(release.value) == {"fine", "groups", "pairs", "scores", "law.first"}
    assert release.value["law.first"].tolist() == [0.0, 0.0, 0.0]


def test_a_law_may_not_put_its_own_numbers_in_place_of_noisy_ones() -> None:
    with pytest.raises(PrivotError):
        vault().release(mechanism(Made(even, {"scores": np.zeros(3)})), purpose="test")


class _Few(RowSums):
    """Records without a vault around them."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y, self.count = x, y, len(x)
        self.facts = Facts(3, None, 9.0, A, CLASSES)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self.x[indices]

    def labels(self, indices: np.ndarray) -> np.ndarray:
        return self.y[indices]


def test_the_bound_is_met_for_all_records_of_a_small_domain() -> None:
    # every record of 4·5·3 cells and 5 classes, every law that is sure of one class: adding it, and replacing it
    made = mechanism(Made(lambda groups: np.eye(CLASSES)[(groups[:, 0] + groups[:, 1]) % CLASSES]))
    cells = np.stack(np.meshgrid(*(np.arange(axis.cells) for axis in AXES), indexing="ij"), axis=-1).reshape(-1, 3)
    moves = np.stack(
        [
            made._sums(_Few(cell[None].astype(float), np.array([y])), made.planner, GROUPS) / PARTS  # type: ignore[arg-type]
            for cell in cells
            for y in range(CLASSES)
        ]
    )
    assert np.linalg.norm(moves, axis=1).max() == pytest.approx(math.sqrt(6.0))
    square = np.square(moves).sum(axis=1)
    apart = np.sqrt(np.maximum(square[:, None] + square[None] - 2.0 * moves @ moves.T, 0.0))
    assert apart.max() <= made.sensitivity(Adjacency.REPLACE_ONE)
    assert np.linalg.norm(moves, axis=1).max() <= made.sensitivity(A)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e300, 2.5])
def test_every_row_has_a_cell_whatever_it_holds(value: float) -> None:
    for axis in (
        Axis(0, 4),
        Axis(0, 4, width=4),
        Axis(0, 3, (0.3, 0.6)),
        Axis(0, 4, (0.3, 0.6), missing=True),
        Axis(0, 4, (0.3, 0.6), width=3, missing=True),
    ):
        cells = axis.index(np.full((2, 4), value), None)
        assert ((cells >= 0) & (cells < axis.size)).all()
