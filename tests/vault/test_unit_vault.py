"""A vault with units: what one unit can move is what is charged for; what cannot be bounded is refused first."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit_samples import AXES, MARGINALS, PLANTED, ExactCounts, Rows, table

from privot import Count, Histogram, Ledger, Mean, Quantiles, Vault
from privot.accounting.laws import gaussian
from privot.adaptation import DomainAdapter
from privot.errors import BudgetError, CorruptLedgerError, OtherRecordsError, UsageError
from privot.federation import sketch
from privot.guarantee import Adjacency
from privot.kinds import Unit
from privot.kinds.contributions import kept_rows
from privot.mechanisms import RandomProjection
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.scored_marginals import PARTS, ScoreSums
from privot.noise import SeededNoise
from privot.synthesis import Synthesizer

UNITS = np.arange(200) % 40


def counts_of(rows: Rows, per_unit: int) -> tuple[np.ndarray, float]:
    """Exact counts through a vault, and the sensitivity that it charged."""
    release = Vault(**rows.held(per_unit)).release(ExactCounts(), purpose="test")
    event: Any = release.guarantee.events[0]
    assert (event["kind"], event["rows"]) == ("unit", per_unit)
    return np.asarray(release.value), float(event["event"]["sensitivity"])


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("per_unit", [1, 2, 5, 50])
def test_counts_of_neighbours_differ_by_at_most_what_is_charged(planted: int, per_unit: int):
    for seed in range(5):
        whole = table(seed, planted)
        with_unit, charged = counts_of(whole, per_unit)
        # neighbours are sets of records: the other file may be in any order
        rest = whole.without("planted").at(np.random.default_rng(seed).permutation(200))
        without, same = counts_of(rest, per_unit)
        assert same == charged
        assert charged == pytest.approx(per_unit * MARGINALS.sensitivity(Adjacency.ADD_REMOVE))
        assert np.linalg.norm(with_unit - without) <= charged
        # no other unit changed what it gives: the difference is rows of one unit, which only add
        assert (with_unit >= without).all()
        assert with_unit[:4].sum() - without[:4].sum() == min(planted, per_unit)


@pytest.mark.parametrize("planted", PLANTED)
def test_the_charge_is_reached_by_a_unit_whose_rows_are_alike(planted: int):
    whole = table(3, planted, alike=True)
    for per_unit in (1, 5):
        with_unit, charged = counts_of(whole, per_unit)
        without, _ = counts_of(whole.without("planted"), per_unit)
        reached = np.linalg.norm(with_unit - without) / charged
        assert reached == pytest.approx(min(planted, per_unit) / per_unit)


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("per_unit", [1, 5])
def test_scores_of_neighbours_differ_by_at_most_rows_times_the_sensitivity(planted: int, per_unit: int):
    class Law:
        """A law of the label that is often wrong by almost 1."""

        def probabilities(self, groups: np.ndarray) -> np.ndarray:
            share = 0.01 + 0.98 * (groups.sum(axis=1) % 2)
            return np.column_stack([1.0 - share, share])

        def arrays(self) -> dict[str, np.ndarray]:
            return {}

    axes = (Axis(0, 4), Axis(1, 3))
    sums = ScoreSums(axes, 2, Law())
    whole = table(1, planted, alike=True)
    found = []
    for rows in (whole, whole.without("planted")):
        kept = rows.at(kept_rows(rows.units, rows.x, rows.y, per_unit))
        totals = sums.zeros()
        sums.add(totals, kept.x, kept.y)
        found.append(np.concatenate([total.ravel() for total in totals]) / PARTS)
    assert np.linalg.norm(found[0] - found[1]) <= per_unit * np.sqrt(len(axes))


@pytest.mark.parametrize(
    "mechanism",
    [
        Count(0, between=(0, 1), epsilon=1.0, delta=1e-6),
        Mean(0, range=(0, 4), epsilon=1.0, delta=1e-6),
        Histogram(0, bins=4, range=(0, 4), epsilon=1.0, delta=1e-6),
        Quantiles(0, (0.5,), range=(0, 4), epsilon=1.0, delta=1e-6),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_simple_numbers_find_their_noise_for_the_unit(mechanism: Any):
    x = np.arange(200.0)[:, None] % 4
    told: dict[str, Any] = {"clip": 4.0, "adjacency": "add-remove", "budget": (1.0, 1e-6)}
    one = Vault(x, **told).release(mechanism, purpose="one record")
    unit = Vault(x, **told, units=UNITS, unit=Unit("who", 5)).release(mechanism, purpose="one unit")
    assert unit.guarantee.epsilon() == pytest.approx(1.0, rel=1e-3)
    assert unit.guarantee.epsilon() <= 1.0
    assert unit.public["sigma"] == pytest.approx(5.0 * one.public["sigma"], rel=1e-3)
    assert str(unit.guarantee.unit) == "one who, at most 5 rows"


def test_a_sketch_finds_its_noise_for_the_unit():
    x = np.random.default_rng(0).normal(size=(200, 3))
    told: dict[str, Any] = {"clip": 4.0, "adjacency": "add-remove", "budget": (1.0, 1e-6)}
    made = sketch(Vault(x, **told, units=UNITS, unit=Unit("unit", 3)), epsilon=1.0, delta=1e-6)
    one = sketch(Vault(x, **told), epsilon=1.0, delta=1e-6)
    assert made.guarantee.epsilon() <= 1.0
    assert made.public["sigma"] == pytest.approx(3.0 * one.public["sigma"], rel=1e-3)


def test_what_is_bound_to_single_records_is_refused_before_anything_is_paid():
    x = np.random.default_rng(0).normal(size=(200, 3))
    vault = Vault(x, clip=1.0, adjacency="add-remove", budget=(9.0, 1e-6), units=UNITS, unit=Unit("who", 2))
    refused = [
        lambda: vault.release(RandomProjection(slices=2, sigma=1.0), purpose="no"),
        lambda: Synthesizer(1.0, 1e-6, method="sliced").fit(vault),
        lambda: Synthesizer(1.0, 1e-6, method="sinkhorn").fit(vault),
        lambda: DomainAdapter(1.0, 1e-6, method="sliced").fit(vault, (x, np.arange(200) % 2)),
    ]
    for attempt in refused:
        with pytest.raises(UsageError, match="one who, at most 2 rows"):
            attempt()
    assert vault.charges("") == 0


def test_units_need_add_remove_and_go_together_with_their_name():
    x = np.eye(4)
    told: dict[str, Any] = {"clip": 1.0, "budget": (1.0, 1e-6)}
    with pytest.raises(UsageError, match="add-remove only"):
        Vault(x, **told, adjacency="replace-one", units=[1, 1, 2, 2])
    for unit in ("who", Unit("who", 2)):
        with pytest.raises(UsageError, match="needs units"):
            Vault(x, **told, adjacency="add-remove", unit=unit)
    for rows in (0, -1, True, 1.5, 10**7):
        with pytest.raises(UsageError, match="whole number"):
            Vault(x, **told, adjacency="add-remove", units=[1, 1, 2, 2], unit=Unit("who", rows))


def test_the_default_is_one_row_per_unit():
    vault = Vault(np.eye(4), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-6), units=[1, 1, 2, 2])
    assert "one unit, at most 1 row" in repr(vault)
    release = vault.release(Count(epsilon=1.0, delta=1e-6), purpose="how many take part")
    assert release.guarantee.epsilon() == pytest.approx(gaussian.epsilon(1.0 / release.public["sigma"], 1e-6))


def test_one_data_set_has_one_budget_with_and_without_units(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(200, 3))
    told: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove"}
    units: dict[str, Any] = {"units": UNITS, "unit": "who"}
    question = Count(0, between=(0, 1), epsilon=0.5, delta=1e-6)
    with Ledger.create(tmp_path / "a.ledger") as ledger:
        vault = Vault(x, **told, units=UNITS, unit=Unit("who", 5), ledger=ledger, budget=(1.0, 1e-6))
        vault.release(question, purpose="first")
        # another bound, another order: the same records, the same budget
        other = Vault(x[::-1], **told, units=UNITS[::-1], unit=Unit("who", 2), ledger=ledger)
        other.release(question, purpose="second")
        (budget,) = ledger.datasets()
        assert (budget.unit, budget.relation) == ("who", "add-remove of one who")
        spent = ledger.spent(budget.fingerprint)
        assert spent is not None
        assert str(spent.unit) == "one who, at most 5 rows"
        with pytest.raises(BudgetError, match="add-remove of one who"):
            other.release(Count(0, between=(0, 1), epsilon=1.0, delta=1e-6), purpose="too much")
        for told_otherwise in ({}, {**units, "unit": "clinic"}):
            with pytest.raises(UsageError, match="protects one who"):
                Vault(x, **told, **told_otherwise, ledger=ledger)
            # stating that they are new does not help: the ledger knows them
            with pytest.raises(UsageError, match="protects one who"):
                Vault(x, **told, **told_otherwise, ledger=ledger, new_records=True)
        with pytest.raises(OtherRecordsError):
            Vault(x[1:], **told, ledger=ledger)
        # nor can the ledger itself be charged for a record
        with pytest.raises(BudgetError, match="for one who"):
            ledger.charge(budget.fingerprint, question.event(vault.facts), "by hand")
    with Ledger.create(tmp_path / "b.ledger") as ledger:
        Vault(x, **told, ledger=ledger, budget=(1.0, 1e-6))
        with pytest.raises(UsageError, match="protects one record"):
            Vault(x, **told, **units, ledger=ledger)


def test_the_same_records_in_other_units_are_refused_before_any_charge(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(200, 3))
    told: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove", "unit": "who"}
    question = Count(0, between=(0, 1), epsilon=0.5, delta=1e-6)
    with Ledger.create(tmp_path / "a.ledger") as ledger:
        Vault(x, **told, units=UNITS, ledger=ledger, budget=(2.0, 1e-6)).release(question, purpose="patients")
        clinics = UNITS % 3
        one_row_moved = np.concatenate([[7], UNITS[1:]])
        for units in (clinics, one_row_moved, np.arange(200)):
            for new in (False, True):
                with pytest.raises(UsageError, match="grouped otherwise"):
                    Vault(x, **told, units=units, ledger=ledger, new_records=new)
            with pytest.raises(UsageError):
                Vault(x, **told, units=units, ledger=ledger, budget=(2.0, 1e-6))
        assert len(ledger.entries()) == 1
        # any order, single precision of the same numbers, and numbers as texts are the same grouping
        order = np.random.default_rng(1).permutation(200)
        same = Vault(
            x[order],
            **{**told, "unit": Unit("who", 3)},
            units=[str(one) for one in UNITS[order]],
            ledger=ledger,
        )
        same.release(question, purpose="patients again")
        assert len(ledger.entries()) == 2


def test_a_budget_set_at_the_same_time_for_another_grouping_is_refused(tmp_path: Path):
    with Ledger.create(tmp_path / "a.ledger") as ledger:
        terms: tuple[Any, ...] = ("1" * 64, 1.0, 1e-6, "add-remove", "made up")
        ledger.set_budget(*terms, unit="who", grouping="a" * 64)
        assert ledger.set_budget(*terms, unit="who", grouping="a" * 64).grouping == "a" * 64
        with pytest.raises(UsageError, match="has a budget already"):
            ledger.set_budget(*terms, unit="who", grouping="b" * 64)
        for part in ({"unit": "who"}, {"grouping": "a" * 64}):
            with pytest.raises(UsageError, match="needs the unit's name and"):
                ledger.set_budget(*terms, **part)


def test_a_ledger_needs_the_name_of_the_unit(tmp_path: Path):
    told: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove", "budget": (1.0, 1e-6), "units": [1, 1, 2, 2]}
    with Ledger.create(tmp_path / "a.ledger") as ledger:
        with pytest.raises(UsageError, match="give unit"):
            Vault(np.eye(4), **told, ledger=ledger)
        assert ledger.datasets() == []


def test_a_ledger_with_a_unit_has_a_version_that_older_code_refuses(tmp_path: Path):
    file = tmp_path / "a.ledger"

    def version(statement: str = "PRAGMA user_version") -> Any:
        connection = sqlite3.connect(file, isolation_level=None)
        found = connection.execute(statement).fetchone()
        connection.close()
        return found

    told: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove", "budget": (1.0, 1e-6)}
    with Ledger.create(file) as ledger:
        Vault(np.eye(4), **told, ledger=ledger)
        assert version() == (1,)
        Vault(np.eye(5), **told, units=[1, 1, 2, 2, 3], unit="who", ledger=ledger, new_records=True)
        assert version() == (2,)
        assert ledger.verify() == 3
    Ledger.open(file).close()
    version("PRAGMA user_version = 1")
    with pytest.raises(CorruptLedgerError, match="layout"):
        Ledger.open(file)


def test_a_release_made_again_keeps_the_same_rows_and_is_charged_once(tmp_path: Path):
    rows = table(0, 5)
    held = {**rows.held(2), "budget": (2.0, 1e-6)}
    question = GroupedMarginals(AXES[:2], 2, (60.0, 60.0))
    with Ledger.create(tmp_path / "a.ledger") as ledger:
        made = []
        for _ in range(2):
            vault = Vault(**held, ledger=ledger)
            made.append(vault.release_once(question, purpose="once", secret=bytes(range(32))).value)
        assert all(np.array_equal(made[0][name], made[1][name]) for name in made[0])
        assert len(ledger.entries()) == 1


def test_noise_from_a_seed_stays_unproven_and_keeps_its_unit():
    vault = Vault(
        np.eye(4), clip=1.0, adjacency="add-remove", budget=(9.0, 1e-6), units=[1, 1, 2, 2], noise=SeededNoise(1)
    )
    release = vault.release(Count(epsilon=1.0, delta=1e-6), purpose="seeded", allow_unproven=True)
    assert (str(release.guarantee.standing), str(release.guarantee.unit)) == ("unproven", "one unit, at most 1 row")


def test_a_unit_is_not_called_a_record():
    with pytest.raises(UsageError, match="rename"):
        Vault(np.eye(2), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-6), units=[1, 2], unit="Record")
