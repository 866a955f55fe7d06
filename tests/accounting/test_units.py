"""Events of a unit: k times the sensitivity, one unit for all, and no theorem where there is none."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.accounting import (
    Composed,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Repeated,
    Sampled,
    account,
    read_guarantee,
)
from privot.accounting.events import Downgraded, Event, PerUnit, Projection, Renyi, Unbounded, event_from_dict, leaves
from privot.accounting.laws import gaussian
from privot.accounting.units import for_unit
from privot.common.privacy_unit import Unit
from privot.errors import DataError, NoTheoremError, UsageError
from privot.guarantee import Adjacency, Guarantee, Standing

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ONE = Gaussian(4.0, 1.0, ADD)
PATIENT = Unit("patient_id", 5)


@given(st.floats(0.5, 50.0), st.floats(0.01, 3.0), st.integers(1, 500))
def test_cost_is_that_of_the_gaussian_mechanism_with_k_times_the_sensitivity(sigma: float, bound: float, rows: int):
    counted = account(for_unit(Gaussian(sigma, bound, ADD), Unit("u", rows)), 1e-5).epsilon()
    closed = gaussian.epsilon(rows * bound / sigma, 1e-5)
    assert counted >= closed * (1.0 - 1e-12)
    assert counted == pytest.approx(closed, rel=1e-9, abs=1e-12)


def test_every_part_of_a_composition_is_scaled():
    whole = Composed((ONE, Repeated(Laplace(2.0, 0.5, ADD), 3)))
    found = [(leaf, times) for leaf, times in leaves(for_unit(whole, PATIENT))]
    assert [(leaf.kind, times) for leaf, times in found] == [("gaussian", 1), ("laplace", 3)]
    for (leaf, _), bound in zip(found, (5.0, 2.5), strict=True):
        assert leaf.sensitivity >= bound  # type: ignore[attr-defined]
        assert leaf.sensitivity == pytest.approx(bound)  # type: ignore[attr-defined]


def test_one_row_per_unit_costs_what_one_record_costs():
    assert account(for_unit(ONE, Unit("u", 1)), 1e-5).epsilon() == account(ONE, 1e-5).epsilon()
    assert for_unit(ONE, None) is ONE


@pytest.mark.parametrize(
    "event",
    [
        Sampled(ONE, Poisson(0.1)),
        Repeated(Sampled(ONE, Poisson(0.1)), 10),
        Composed((ONE, Sampled(ONE, Poisson(0.1)))),
        Renyi((2.0,), (0.5,), ADD, Standing.PROVEN),
        Unbounded("exact", ADD),
        Projection(4, 2, 1.0, 1.0, REPLACE),
        Sampled(Gaussian(4.0, 1.0, REPLACE), FixedSize(2, 10)),
        Gaussian(4.0, 1.0, REPLACE),
    ],
)
def test_what_no_theorem_covers_is_refused(event: Event):
    with pytest.raises(NoTheoremError):
        for_unit(event, PATIENT)


def test_a_sampled_event_cannot_be_written_into_a_unit_either():
    with pytest.raises(NoTheoremError):
        PerUnit(Sampled(ONE, Poisson(0.1)), "patient_id", 5)
    with pytest.raises(UsageError):
        PerUnit(for_unit(ONE, PATIENT), "patient_id", 5)
    with pytest.raises(NoTheoremError):
        Sampled(for_unit(ONE, PATIENT), Poisson(0.1))


def test_events_read_back_equal():
    event = Downgraded(Repeated(for_unit(Composed((ONE, ONE)), PATIENT), 2), Standing.UNPROVEN, "seeded")
    assert event_from_dict(event.to_dict()) == event


def test_units_do_not_mix_with_records_or_other_units():
    for other in (ONE, for_unit(ONE, Unit("clinic", 5))):
        with pytest.raises(NoTheoremError, match="different units"):
            account(Composed((for_unit(ONE, PATIENT), other)), 1e-5)
        with pytest.raises(UsageError, match="do not compose"):
            account(for_unit(ONE, PATIENT), 1e-5).compose(account(other, 1e-5))


def test_releases_with_other_numbers_of_rows_compose():
    first, second = account(for_unit(ONE, PATIENT), 1e-5), account(for_unit(ONE, Unit("patient_id", 2)), 1e-5)
    both = first.compose(second)
    assert both.unit == PATIENT
    assert both.epsilon() == pytest.approx(gaussian.epsilon(math.hypot(5 / 4, 2 / 4), 1e-5), rel=1e-9)


def test_a_guarantee_names_its_unit_everywhere():
    cost = account(for_unit(ONE, PATIENT), 1e-5)
    for words in (repr(cost), cost.stated(), cost.explain(), cost._repr_html_(), cost.to_json()):
        assert "patient_id" in words
        assert "5" in words
    assert dict(cost.facts())["unit"] == "one patient_id, at most 5 rows"
    assert "one record" not in cost.explain()
    plain = account(ONE, 1e-5)
    assert plain.to_dict()["unit"] == "record"
    assert dict(plain.facts())["unit"] == "one record"


def test_a_guarantee_of_a_unit_reads_back():
    cost = account(for_unit(ONE, PATIENT), 1e-5)
    for read in (Guarantee.from_json(cost.to_json()), read_guarantee(cost.to_json())):
        assert (read.unit, read.stated()) == (cost.unit, cost.stated())
    # written before there were units
    older = account(ONE, 1e-5).to_dict()
    del older["unit"]
    assert Guarantee.from_dict(older).unit is None


def test_a_guarantee_that_claims_another_unit_than_its_events_is_refused():
    told = account(ONE, 1e-5).to_dict() | {"unit": {"column": "patient_id", "rows": 5}}
    with pytest.raises(DataError, match="another unit"):
        read_guarantee(json.dumps(told))
    for odd in ("patient_id", {"column": "patient_id"}, {"column": "", "rows": 1}, {"column": "record", "rows": 1}, 3):
        with pytest.raises(DataError):
            Guarantee.from_dict(told | {"unit": odd})
