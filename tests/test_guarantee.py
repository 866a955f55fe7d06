"""Guarantees: tables that never promise more than the curve, files that are checked, words that say what is meant."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.accounting import FixedSize, Gaussian, Laplace, Repeated, Sampled, account
from privot.accounting.events import Projection, Unbounded
from privot.accounting.laws import gaussian
from privot.common.arguments import check_delta, check_epsilon, is_number
from privot.errors import DataError, UsageError
from privot.guarantee import TABLE_DELTAS, Adjacency, Curve, Guarantee, Standing, TabulatedCurve

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
SHIFTS = st.sampled_from([0.01, 0.1, 0.7, 1.0, 3.0, 10.0, 80.0])


class GaussianCurve:
    """The closed form, with no accountant in between."""

    def __init__(self, shift: float) -> None:
        self.shift = shift

    def epsilon(self, delta: float) -> float:
        return gaussian.epsilon(self.shift, delta)

    def delta(self, epsilon: float) -> float:
        return float(gaussian.delta(self.shift, epsilon))

    def compose(self, others: Sequence[Curve]) -> Curve:
        raise AssertionError


@lru_cache
def tabulated(shift: float) -> TabulatedCurve:
    return TabulatedCurve(tuple((d, gaussian.epsilon(shift, d)) for d in TABLE_DELTAS))


# --- tables ------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(SHIFTS, st.floats(-17.0, -0.01))
def test_a_table_never_promises_more_than_the_curve(shift: float, log_delta: float) -> None:
    """Chords in e^ε lie above a convex curve; outside the table the next more cautious point is used."""
    delta = 10.0**log_delta
    table = tabulated(shift)
    true = gaussian.epsilon(shift, delta)
    claimed = table.epsilon(delta)
    assert claimed >= true * (1 - 1e-9)
    if 1e-15 <= delta <= 0.5:
        # no looser than the next table point to the left
        assert claimed <= gaussian.epsilon(shift, max(d for d in TABLE_DELTAS if d <= delta)) * (1 + 1e-12)
    elif delta < 1e-15:
        assert claimed == math.inf


@settings(max_examples=150, deadline=None)
@given(SHIFTS, st.floats(-3.0, 4.0))
def test_a_tables_delta_is_never_below_the_curve(shift: float, log_epsilon: float) -> None:
    epsilon = 10.0**log_epsilon
    claimed = tabulated(shift).delta(epsilon)
    assert gaussian.delta(shift, epsilon) * (1 - 1e-9) <= claimed <= 1.0
    assert tabulated(shift).delta(0.0) >= float(gaussian.delta(shift, 0.0)) * (1 - 1e-9)


def test_a_table_is_exact_at_its_points_and_the_chord_between() -> None:
    table = TabulatedCurve(((0.01, 2.0), (0.1, 1.0), (0.5, 0.0)))
    assert [table.epsilon(d) for d in (0.01, 0.1, 0.5, 0.7)] == [2.0, 1.0, 0.0, 0.0]
    assert table.epsilon(0.001) == math.inf
    middle = math.log((math.exp(2.0) + math.exp(1.0)) / 2.0)
    assert table.epsilon(0.055) == pytest.approx(middle)
    assert table.delta(middle) == pytest.approx(0.055)
    assert [table.delta(e) for e in (0.0, 1.0, 2.0, 9.0)] == pytest.approx([0.5, 0.1, 0.01, 0.01])
    assert TabulatedCurve(()).epsilon(0.1) == math.inf
    assert TabulatedCurve(()).delta(1.0) == 1.0


def test_infinite_and_huge_epsilons_in_a_table() -> None:
    table = TabulatedCurve(((1e-9, math.inf), (1e-6, 5000.0), (0.1, 1.0)))
    assert table.epsilon(1e-7) == math.inf
    assert table.epsilon(1e-6) == 5000.0
    assert 4990.0 < table.epsilon(1e-5) <= 5000.0
    assert table.delta(6000.0) == 1e-6
    assert table.delta(100.0) == 0.1  # e^5000 overflows: the cautious end is used


# --- files -------------------------------------------------------------------------------------------------------

EXAMPLES = [
    Gaussian(1.0, 1.0, ADD),
    Repeated(Sampled(Gaussian(0.5, 1.0, REPLACE), FixedSize(10, 1000)), 50),
    Projection(784, 200, 1.0, 1.0, REPLACE, "independent", "clt", 1e-7),
    Unbounded("fedwad", REPLACE),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda e: e.kind)
def test_a_guarantee_survives_its_file(event: Any) -> None:
    guarantee = account(event, 1e-6)
    read = Guarantee.from_json(guarantee.to_json())
    assert read.epsilon() == guarantee.epsilon()
    for name in ("adjacency", "standing", "sampling", "assumptions", "at_delta"):
        assert getattr(read, name) == getattr(guarantee, name)
    assert [dict(e) for e in read.events] == [dict(e) for e in guarantee.events]
    assert json.loads(read.to_json()) == json.loads(guarantee.to_json())
    assert Guarantee.from_dict(read.to_dict()).to_dict() == read.to_dict()
    for delta in (1e-12, 3e-8, 1e-6, 0.02):
        assert read.epsilon(delta) >= guarantee.epsilon(delta) * (1 - 1e-9)
    for epsilon in (0.0, 0.3, 4.0):
        assert read.delta(epsilon) >= guarantee.delta(epsilon) * (1 - 1e-3)
    assert read.explain() == guarantee.explain()


GOOD = account(Gaussian(1.0, 1.0, ADD), 1e-5).to_dict()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "3",
        "null",
        '"x"',
        "{}",
        '{"schema": 1}',
        json.dumps(GOOD)[:-30],
        json.dumps({**GOOD, "schema": 2}),
        json.dumps({**GOOD, "adjacency": "neighbours"}),
        json.dumps({**GOOD, "standing": "certain"}),
        json.dumps({**GOOD, "delta": 0.0}),
        json.dumps({**GOOD, "delta": math.nan}),
        json.dumps({**GOOD, "curve": [{"delta": 1e-5, "epsilon": -1.0}]}),
        json.dumps({**GOOD, "curve": [{"delta": 1e-5, "epsilon": 1.0}, {"delta": 1e-3, "epsilon": 2.0}]}),
        json.dumps({**GOOD, "curve": [{"delta": 2.0, "epsilon": 1.0}]}),
        json.dumps({**GOOD, "curve": [{"delta": 1e-5, "epsilon": math.nan}]}),
        json.dumps({**GOOD, "curve": 5}),
        json.dumps({**GOOD, "events": [5]}),
        json.dumps({**GOOD, "epsilon": GOOD["epsilon"] * 0.99}),
        json.dumps({**GOOD, "epsilon": math.nan}),
        '{"schema": 1, "curve": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"schema": ' + "9" * 5000 + "}",
        json.dumps({**GOOD, "delta": 10**400}),
    ],
    ids=lambda text: f"{len(text)}-characters",
)
def test_corrupted_text_is_refused_as_data(text: str) -> None:
    with pytest.raises(DataError, match=r"\A[^\n]{1,400}\Z"):
        Guarantee.from_json(text)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(GOOD)),
    st.one_of(
        st.sampled_from(
            [None, True, 0, -1, 10**400, 10**5000, math.nan, math.inf, "", "a\nb", b"x", [], {}, [[]], [None]]
        ),
        st.floats(),
        st.lists(st.dictionaries(st.sampled_from(["delta", "epsilon"]), st.floats(-1.0, 2.0) | st.none()), max_size=3),
    ),
    st.booleans(),
)
def test_mutated_guarantees_are_refused_or_cautious(name: str, value: Any, drop: bool) -> None:
    """Whatever is read is a guarantee that works; a finite ε is one its own curve bears out."""
    fields = {k: v for k, v in GOOD.items() if k != name} if drop else {**GOOD, name: value}
    try:
        guarantee = Guarantee.from_dict(fields)
    except DataError as error:
        shown = str(error)
        assert "\n" not in shown
        assert len(shown) < 400
        return
    assert guarantee.epsilon() >= 0.0
    assert 0.0 <= guarantee.delta(1.0) <= 1.0
    assert guarantee.explain()
    if isinstance(fields["epsilon"], float) and math.isfinite(fields["epsilon"]):
        assert guarantee.epsilon() <= fields["epsilon"] * (1 + 1e-6)


# --- words -------------------------------------------------------------------------------------------------------


def test_an_explanation_says_the_odds_and_the_standing() -> None:
    text = account(Gaussian(1.0, 1.0, REPLACE), 1e-5).explain()
    assert "ε = 4.37718" in text
    assert "replaced by any other record" in text
    assert "mathematical theorem" in text
    assert "at most 98.76 %" in text  # 1 − (1 − δ)/(1 + e^ε) = .987594, rounded up
    assert "nothing is promised" in account(Unbounded("x", ADD), 1e-5).explain()
    assert "NO theorem" in account(Unbounded("x", ADD), 1e-5).explain()
    published = Projection(9, 3, 1.0, 1.0, REPLACE, "independent", "clt", 1e-7)
    assert "limit argument" in account(published, 1e-5).explain()
    assert "e^" in account(Gaussian(0.01, 1.0, ADD), 1e-5).explain()


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 400.0))
def test_odds_are_rounded_up_and_never_called_certain(epsilon: float) -> None:
    curve = TabulatedCurve(((1e-5, epsilon),))
    text = Guarantee(curve, REPLACE, Standing.PROVEN, "none", (), ({"kind": "x"},)).explain()
    said = re.search(r"at most (1 − )?([0-9.e-]+)( %)?\.", text)
    assert said is not None
    shown = Fraction(said[2]) / 100 if said[3] else 1 - Fraction(said[2])
    true = 1 - (1 - Fraction(1, 100_000)) / (1 + Fraction(math.exp(epsilon)))
    assert true - Fraction(1, 10**12) <= shown < 1
    assert shown - true < Fraction(1, 1000)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 5.0), st.floats(-8.0, -1.0), st.floats(-4.0, 4.0))
def test_no_guess_beats_the_odds_that_are_explained(shift: float, log_delta: float, threshold: float) -> None:
    """Guessing by any threshold on the released number is right no more often than (1 − (1−δ)/(1+e^ε))."""
    delta = 10.0**log_delta
    epsilon = account(Gaussian(1.0, shift, ADD), delta).epsilon()
    bound = 1.0 - (1.0 - delta) / (1.0 + math.exp(epsilon))

    def above(mean: float) -> float:
        return 0.5 * math.erfc((threshold - mean) / math.sqrt(2.0))

    assert 0.5 * above(shift) + 0.5 * (1.0 - above(0.0)) <= bound + 1e-12


def test_composition_keeps_the_weakest_of_everything() -> None:
    proven = account(Gaussian(2.0, 1.0, REPLACE), 1e-5)
    clt = account(Projection(9, 3, 5.0, 1.0, REPLACE, "independent", "clt", 1e-8), 1e-6)
    sampled = account(Sampled(Laplace(2.0, 1.0, REPLACE), FixedSize(1, 10)), 1e-5)
    together = proven.compose(clt, sampled)
    assert together.standing is Standing.ASYMPTOTIC
    assert together.at_delta == 1e-5
    assert together.sampling == "none; fixed-size sampling without replacement, 1 of 10"
    assert len(together.events) == 3
    assert set(proven.assumptions) | set(clt.assumptions) | set(sampled.assumptions) == set(together.assumptions)
    assert together.epsilon() > max(proven.epsilon(), clt.epsilon(1e-5), sampled.epsilon())
    with pytest.raises(UsageError, match="do not compose"):
        proven.compose(account(Gaussian(1.0, 1.0, ADD), 1e-5))


def test_quoting_at_another_delta_changes_nothing_else() -> None:
    guarantee = account(Gaussian(1.0, 1.0, ADD), 1e-5)
    quoted = guarantee.quoted_at(1e-9)
    assert quoted.epsilon() == guarantee.epsilon(1e-9) > guarantee.epsilon()
    assert quoted.curve is guarantee.curve


@pytest.mark.parametrize("text", ["add-remove", "ADD_REMOVE", "Add-Remove", Adjacency.ADD_REMOVE])
def test_adjacency_is_read_as_people_write_it(text: str) -> None:
    assert Adjacency.parse(text) is ADD


def test_other_adjacencies_are_refused() -> None:
    odd: list[Any] = ["", "both", None, 3, 10**5000, ["add-remove"]]
    for text in odd:
        with pytest.raises(UsageError, match=r"\A[^\n]+\Z"):
            Adjacency.parse(text)


def test_the_sensitivity_doubles_when_a_record_is_replaced() -> None:
    assert ADD.sensitivity(0.5) == 0.5
    assert REPLACE.sensitivity(0.5) == 1.0


def test_a_chain_stands_as_its_weakest_link() -> None:
    proven, asymptotic, unproven = Standing.PROVEN, Standing.ASYMPTOTIC, Standing.UNPROVEN
    assert Standing.weakest([]) is proven
    assert Standing.weakest([proven, asymptotic, proven]) is asymptotic
    assert Standing.weakest([unproven, asymptotic]) is unproven


ODD: list[Any] = [math.nan, math.inf, -math.inf, -1.0, 0, True, None, "1", b"", [], 10**400, 10**5000, 1j, object()]


@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__)
def test_odd_numbers_are_refused(value: Any) -> None:
    for check in (check_delta, check_epsilon):
        with pytest.raises(UsageError, match=r"\A[^\n]{1,200}\Z"):
            check(value)
    guarantee = account(Gaussian(1.0, 1.0, ADD), 1e-5)
    if type(value) is int and value == 0:  # pure privacy, which Gaussian noise does not have
        assert guarantee.epsilon(value) == guarantee.quoted_at(value).epsilon() == math.inf
        return
    if value is not None:  # None means the quoted δ
        with pytest.raises(UsageError):
            guarantee.epsilon(value)
    with pytest.raises(UsageError):
        guarantee.quoted_at(value)
    with pytest.raises(UsageError):
        guarantee.delta(value)


def test_numbers_are_numbers() -> None:
    assert is_number(3)
    assert is_number(-0.5)
    assert not is_number(math.nan)
    assert not is_number(True)
    assert check_delta(0.5) == 0.5
    assert check_epsilon(3) == 3.0


def test_a_dented_curve_is_written_without_its_dents() -> None:
    """ε in the file never rises with δ, even where rounding made the curve do so."""

    class Dented(GaussianCurve):
        def epsilon(self, delta: float) -> float:
            return super().epsilon(delta) + (1e-6 if delta == 0.1 else 0.0)

    guarantee = Guarantee(Dented(1e-3), ADD, Standing.PROVEN, "none", (), ())
    table = guarantee.to_dict()["curve"]
    costs = [point["epsilon"] for point in table]
    assert costs == sorted(costs, reverse=True)
    assert Guarantee.from_json(guarantee.to_json()).epsilon() >= guarantee.epsilon()


def test_repr_says_what_is_promised_where_nothing_is() -> None:
    nothing = Guarantee(TabulatedCurve(()), ADD, Standing.UNPROVEN, "none", (), ())
    assert repr(nothing) == "Guarantee(ε = inf at δ = 1e-05, add-remove, unproven)"
