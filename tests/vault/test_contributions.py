"""Which rows of a unit take part: its own rows decide, and nothing else. A bound by order in the file is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import DataError
from privot.kinds.contributions import checked_units, kept_rows


class NA:
    """A missing value as some libraries have it: no truth value says whether it is equal to anything."""

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


Rows = list[tuple[str, int, int]]
"""(unit, value, label) of every row."""
Bound = Callable[[Rows, int], list[int]]

ROWS = st.lists(st.tuples(st.sampled_from("abcdé"), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=40)
MOST = st.integers(1, 6)


def by_hash(rows: Rows, most: int) -> list[int]:
    """The product's own bound."""
    values = np.array([[float(value), -0.0] for _, value, _ in rows])
    labels = np.array([label for _, _, label in rows], dtype=np.int64)
    return [int(place) for place in kept_rows([unit for unit, _, _ in rows], values, labels, most)]


def by_order_in_file(rows: Rows, most: int) -> list[int]:
    """The planted bug: the first rows of every unit."""
    seen: Counter[str] = Counter()
    kept = []
    for place, (unit, _, _) in enumerate(rows):
        seen[unit] += 1
        if seen[unit] <= most:
            kept.append(place)
    return kept


def by_rank_among_all(rows: Rows, most: int) -> list[int]:
    """Another planted bug: at most so many rows of every unit, smallest values of *all* rows first, half of them."""
    order = sorted(range(len(rows)), key=lambda place: (rows[place][1], rows[place]))[: (len(rows) + 1) // 2]
    kept = by_hash([rows[place] for place in order], most)
    return [order[place] for place in kept]


def kept_of(bound: Bound, rows: Rows, most: int) -> dict[str, Counter[Any]]:
    """The multiset of rows that take part, by unit."""
    found: dict[str, Counter[Any]] = {unit: Counter() for unit, _, _ in rows}
    for place in bound(rows, most):
        found[rows[place][0]][rows[place]] += 1
    return found


def order_matters(bound: Bound, rows: Rows, shuffled: Rows, most: int) -> bool:
    return kept_of(bound, rows, most) != kept_of(bound, shuffled, most)


def another_unit_matters(bound: Bound, rows: Rows, most: int) -> bool:
    """Whether what some unit keeps changes when another one is removed."""
    whole = kept_of(bound, rows, most)
    for gone in whole:
        rest = [row for row in rows if row[0] != gone]
        if rest and any(whole[unit] != kept for unit, kept in kept_of(bound, rest, most).items()):
            return True
    return False


@given(ROWS, MOST, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_order_of_the_file_does_not_matter(rows: Rows, most: int, dice: Any):
    shuffled = dice.sample(rows, len(rows))
    assert not order_matters(by_hash, rows, shuffled, most)


@given(ROWS, MOST)
@settings(max_examples=150, deadline=None)
def test_another_unit_does_not_matter(rows: Rows, most: int):
    assert not another_unit_matters(by_hash, rows, most)


@given(ROWS, MOST)
@settings(max_examples=150, deadline=None)
def test_a_unit_keeps_as_many_of_its_own_rows_as_it_may(rows: Rows, most: int):
    for unit, kept in kept_of(by_hash, rows, most).items():
        own = Counter(row for row in rows if row[0] == unit)
        assert kept.total() == min(most, own.total())
        assert kept <= own


def test_a_bound_by_order_in_the_file_is_caught():
    rows = [("a", 1, 0), ("a", 2, 0), ("b", 3, 1)]
    assert order_matters(by_order_in_file, rows, rows[::-1], 1)
    assert not order_matters(by_hash, rows, rows[::-1], 1)


def test_a_bound_that_looks_at_all_rows_is_caught():
    rows = [("a", 5, 0), ("a", 6, 0), ("b", 0, 1), ("b", 1, 1)]
    assert another_unit_matters(by_rank_among_all, rows, 1)
    assert not another_unit_matters(by_hash, rows, 1)


def test_copies_of_one_row_are_drawn_like_different_rows():
    # one row 30 times and another 10 times, one of them kept: three quarters of units keep the first
    values = np.array([[0.0]] * 30 + [[1.0]] * 10)
    first = 0
    for number in range(2000):
        (place,) = kept_rows([f"unit {number}"] * 40, values, None, 1)
        first += values[place, 0] == 0.0
    # five standard deviations of a binomial
    assert abs(first - 1500) < 5 * np.sqrt(2000 * 0.75 * 0.25)


def test_which_rows_are_kept_depends_on_the_unit_and_on_the_label():
    values = np.arange(20.0)[:, None]
    of_units = {tuple(kept_rows([unit] * 20, values, None, 3)) for unit in ("a", "b", "c")}
    labels = [np.full(20, label) for label in (0, 1)]
    of_labels = {tuple(kept_rows(["a"] * 20, values, y, 3)) for y in labels}
    assert (len(of_units), len(of_labels)) == (3, 2)


def test_single_and_double_precision_and_negative_zero_keep_the_same():
    values = np.linspace(-1.0, 1.0, 40).astype(np.float32)[:, None]
    values[::2] = 0.0
    other = values.astype(np.float64)
    other[::2] = -0.0
    assert (kept_rows(["a"] * 40, values, None, 7) == kept_rows(["a"] * 40, other, None, 7)).all()


@pytest.mark.parametrize(
    "units",
    [
        ["a"],
        [["a"], ["b"]],
        ["a", None],
        ["a", float("nan")],
        ["a", " "],
        ["a", 0.5],
        [b"a", b"b"],
        [True, False],
        [[], 1],
        # neither all texts nor all whole numbers
        ["a", 7],
        [7, 8.0],
        np.array([7.0, 8.0]),
        [Decimal(7), Decimal(7)],
        [date(2020, 1, 1), date(2020, 1, 2)],
        # missing: marked, masked, or as the text that a library makes of it
        ["a", NA()],
        [1, NA()],
        np.ma.array([7, 8], mask=[False, True]),
        np.ma.array(["a", "b"], mask=[True, False]),
        [1, np.ma.masked],
        np.array(["a", None]).astype(str),
        *(["a", text] for text in ("nan", "NaN", "NA", "None", "null", "<NA>", "NaT", "?", "n/a")),
    ],
)
def test_units_that_cannot_be_used_are_refused_without_quoting_one(units: Any):
    with pytest.raises(DataError) as refused:
        checked_units(units, 2, "patient_id")
    assert "unit" in str(refused.value)
    assert "0.5" not in str(refused.value)


@pytest.mark.parametrize(
    "units", [["a", NA()], np.ma.array([7, 8], mask=[False, True]), ["a", "None"], ["a", None], [1, float("nan")]]
)
def test_missing_units_are_called_missing(units: Any):
    with pytest.raises(DataError, match="missing value: every row must say whose it is"):
        checked_units(units, 2, "patient_id")


def test_a_masked_array_without_a_missing_value_is_taken():
    assert checked_units(np.ma.array([7, 8]), 2, "who") == ["7", "8"]


def test_rows_of_numbered_units_do_not_change_with_a_reader_that_takes_texts_for_numbers():
    values = np.random.default_rng(0).normal(size=(40, 2))
    as_texts = [f"{place % 4:03}" for place in range(40)]
    # the same file with one more unit, which is no number: an inferring reader then leaves all of them texts
    with_another = kept_rows([*as_texts, "x1"], np.vstack([values, [[0.0, 0.0]]]), None, 3)
    as_numbers = kept_rows(checked_units([int(text) for text in as_texts], 40, "who"), values, None, 3)
    assert with_another[:-1].tolist() == as_numbers.tolist()
    assert with_another[-1] == 40


def test_numbers_and_texts_of_one_unit_are_one():
    assert checked_units(np.array([7, 8]), 2, "who") == checked_units([" 7", "8 "], 2, "who")
    assert checked_units(["007", "7"], 2, "who") == ["007", "7"]
