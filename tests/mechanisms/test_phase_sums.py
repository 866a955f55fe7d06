"""Sums of table cosines: the norm bound of the table as it is, exact in any cut, whatever phases a map gives."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mechanism_samples import Plain, Silent

from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts, MeanEmbedding
from privot.mechanisms import phase_sums as sums_module
from privot.mechanisms.embedding import MARGIN
from privot.mechanisms.phase_sums import AMPLITUDE, COSINES, LARGEST_SQUARE, SINES, PhaseSums, pair_unit, pairs

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
PHASE = st.integers(0, 2**32 - 1)


class Given:
    """A map that is trusted in nothing: the phases of a record are its own values, whole numbers below 2³²."""

    rounding = 0.0

    def __init__(self, dim: int) -> None:
        self.dim = self.frequencies = dim
        self.size = 2 * dim

    def phases(self, rows: np.ndarray) -> np.ndarray:
        return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0).astype(np.int64).astype(np.uint32).T.copy()

    def features(self, x: torch.Tensor) -> torch.Tensor:
        cosines, sines = pairs(self.phases(x.numpy()))
        return torch.from_numpy(np.concatenate([cosines, sines]).T / (AMPLITUDE * math.sqrt(self.dim)))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "given"}


def totals(rows: np.ndarray, labels: np.ndarray | None, classes: int = 1) -> tuple[np.ndarray, ...]:
    adding = PhaseSums(Given(rows.shape[1]), classes, labels is not None)
    held = adding.zeros()
    adding.add(held, rows, labels)
    return held


def entry(phase: int) -> tuple[int, int]:
    """(c, s) by arithmetic of fifty digits, not by the table."""
    with mpmath.workdps(50):
        angle = 2 * mpmath.pi * ((phase >> 20) + mpmath.mpf(1) / 2) / 4096
        return int(mpmath.nint(AMPLITUDE * mpmath.cos(angle))), int(mpmath.nint(AMPLITUDE * mpmath.sin(angle)))


def test_the_table_holds_rounded_cosines_and_sines_and_no_entry_is_near_a_half() -> None:
    for p in range(4096):
        assert (COSINES[p], SINES[p]) == entry(p << 20)
    angles = (np.arange(4096) + 0.5) * (2 * math.pi / 4096)
    for found in (AMPLITUDE * np.cos(angles), AMPLITUDE * np.sin(angles)):
        # a library off by a thousand units in the last place would still round the same way
        assert np.abs(found - np.floor(found) - 0.5).min() > 1e-5


@settings(max_examples=100)
@given(arrays(np.uint32, (5, 4), elements=PHASE))
def test_the_norm_of_a_record_is_below_the_bound_without_rounding(phases: np.ndarray) -> None:
    unit = Fraction(pair_unit(5))
    for cosines, sines in zip(*(part.T for part in pairs(phases)), strict=True):
        squared = sum(int(c) ** 2 + int(s) ** 2 for c, s in zip(cosines, sines, strict=True))
        assert squared * unit**2 <= (1 - Fraction(MARGIN)) ** 2


@pytest.mark.parametrize("m", [1, 2, 3, 500, 2000, 20_000, 10**6])
def test_the_bound_is_that_of_the_largest_entry_and_no_further_off_than_it_has_to_be(m: int) -> None:
    largest = max(int(c) ** 2 + int(s) ** 2 for c, s in zip(COSINES, SINES, strict=True))
    assert largest == LARGEST_SQUARE
    # some entries are longer than A: a unit of (1 − MARGIN)/(A·√m) would not do
    assert largest > AMPLITUDE**2
    reached = m * largest * Fraction(pair_unit(m)) ** 2
    assert (1 - Fraction(MARGIN)) ** 2 * (1 - Fraction(1, 10**6)) < reached <= (1 - Fraction(MARGIN)) ** 2


@pytest.mark.parametrize("classes", [1, 3, 200])
def test_sums_are_those_of_whole_numbers_and_do_not_depend_on_cuts_or_order(classes: int) -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.integers(0, 2**32, (700, 3)).astype(float), rng.integers(0, classes, 700)
    whole = totals(rows, labels, classes)
    wanted = [[0] * 6 for _ in range(classes)]
    for row, label in zip(rows.astype(int).tolist(), labels.tolist(), strict=True):
        for j, (c, s) in enumerate(entry(phase) for phase in row):
            wanted[label][j] += c
            wanted[label][3 + j] += s
    assert whole[0].tolist() == wanted
    assert whole[1].tolist() == np.bincount(labels, minlength=classes).tolist()
    order = rng.permutation(700)
    adding = PhaseSums(Given(3), classes, True)
    for step in (1, 97, 256, 699):
        held = adding.zeros()
        for start in range(0, 700, step):
            some = order[start : start + step]
            adding.add(held, rows[some], labels[some])
        assert all(np.array_equal(a, b) for a, b in zip(held, whole, strict=True))


@pytest.mark.parametrize("turn", [0.0, 0.25, 0.5, 0.75])
def test_sums_of_the_largest_entries_do_not_run_into_each_other(turn: float) -> None:
    """Cosine and sine share one number while a block is added: were there more rows, sines would reach the cosines."""
    rows = np.full((2000, 600), np.floor(turn * 2**32))
    (cosines, sines), found = entry(int(turn * 2**32)), totals(rows, None)[0]
    assert (found[0, :600] == 2000 * cosines).all()
    assert (found[0, 600:] == 2000 * sines).all()


def test_a_record_with_a_value_that_is_no_number_adds_zero() -> None:
    rows = np.full((3, 4), 12345.0)
    rows[1, 2] = np.nan
    held, count = totals(rows, np.array([1, 1, 0]), 2)
    assert np.array_equal(held[0], held[1])
    assert held[0].any()
    assert count.tolist() == [1, 2]


def joint(mechanism: MeanEmbedding, records: Plain) -> np.ndarray:
    """What noise is added to."""
    value, public = mechanism.run(records, Silent(), mechanism.event(records.facts), 0)
    a = public["sigma"] / public["sums_sigma"]
    return np.concatenate([a * value["sums"], public["count_weight"] * value["counts"][:, None]], axis=1)


WORST = int(np.argmax(COSINES**2 + SINES**2))
OPPOSITE = (WORST + 2048) % 4096


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (6, 3), elements=st.one_of(PHASE.map(float), st.just(math.nan), st.just(float(WORST << 20)))),
    arrays(np.float64, 3, elements=st.one_of(PHASE.map(float), st.just(float(OPPOSITE << 20)))),
    arrays(np.int64, 7, elements=st.integers(0, 2)),
    st.integers(0, 5),
)
def test_neighbours_differ_by_no_more_than_is_counted(
    x: np.ndarray, other: np.ndarray, y: np.ndarray, changed: int
) -> None:
    mechanism = MeanEmbedding(Given(3), 1.0, labels=True)
    y, new = y[:6], y[6]
    x2, y2 = x.copy(), y.copy()
    x2[changed], y2[changed] = other, new
    moved = joint(mechanism, Plain(x, y, classes=3)) - joint(mechanism, Plain(x2, y2, classes=3))
    assert np.linalg.norm(moved) <= 2.0
    fewer = Plain(np.delete(x, changed, 0), np.delete(y, changed), ADD, 3)
    moved = joint(mechanism, Plain(x, y, ADD, 3)) - joint(mechanism, fewer)
    assert np.linalg.norm(moved) <= 1.0


def test_the_furthest_neighbours_reach_the_bound() -> None:
    mechanism = MeanEmbedding(Given(50), 1.0, count_weight=0.01)
    one, other = (joint(mechanism, Plain(np.full((1, 50), float(p << 20)))) for p in (WORST, OPPOSITE))
    assert np.linalg.norm(one - other) == pytest.approx(2 * math.sqrt(1 - 0.01**2), rel=2 * MARGIN)
    few, more = (joint(mechanism, Plain(np.full((n, 50), float(WORST << 20)), adjacency=ADD)) for n in (4, 5))
    assert np.linalg.norm(few - more) == pytest.approx(1.0, rel=2 * MARGIN)


def test_a_map_that_breaks_its_promises_is_refused_before_anything_is_paid() -> None:
    class Signed(Given):
        def phases(self, rows: np.ndarray) -> np.ndarray:
            return super().phases(rows).astype(np.int64)

    class Short(Given):
        def phases(self, rows: np.ndarray) -> np.ndarray:
            return super().phases(rows)[:-1]

    class Wide(Given):
        def phases(self, rows: np.ndarray) -> np.ndarray:
            return super().phases(rows)

        def __init__(self, dim: int) -> None:
            super().__init__(dim)
            self.size = 2 * dim + 1

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(x), self.size, dtype=torch.float64)

    class Company(Given):
        def phases(self, rows: np.ndarray) -> np.ndarray:
            return super().phases(rows) + np.uint32(len(rows) << 20)

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(x), self.size, dtype=torch.float64)

    class Fails(Given):
        def phases(self, rows: np.ndarray) -> np.ndarray:
            raise ZeroDivisionError

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(x), self.size, dtype=torch.float64)

    for kind, word in ((Signed, "uint32"), (Short, "shape"), (Wide, "two features"), (Company, "beside it")):
        with pytest.raises(UsageError, match=word):
            MeanEmbedding(kind(3), 1.0).event(Facts(3, 10, 1.0, REPLACE))
    with pytest.raises(UsageError, match="public rows"):
        MeanEmbedding(Fails(3), 1.0).event(Facts(3, 10, 1.0, REPLACE))
    MeanEmbedding(Given(3), 1.0).event(Facts(3, 10, 1.0, REPLACE))


def test_as_many_rows_are_packed_together_as_fit() -> None:
    assert sums_module._ROWS * int(np.abs(SINES).max()) < 2**31
