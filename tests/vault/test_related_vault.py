"""Related tables in a vault: what one key can move, by exact counts; who is refused; what a ledger knows them by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from related_samples import BACKWARDS, KEY, PARENTS, PER_PARENT, PLANTED, codec, related, tables

from privot import Ledger, Schema, Vault
from privot.accounting.events import Gaussian, leaves
from privot.errors import DataError, OtherRecordsError, UsageError
from privot.kinds import related_records
from privot.kinds.related_records import RelatedTables
from privot.mechanisms import Count
from privot.mechanisms.table_counts import related_marginals
from privot.mechanisms.table_counts.related_marginals import RelatedMarginals
from privot.mechanisms.table_counts.row_views import ChildView
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.mechanisms.table_counts.sibling_likeness import SiblingSums
from privot.synthesis.tabular.related.related_design import related_mechanism, views_of
from privot.synthesis.tabular.table_fit import TablePlanner
from privot.tables import Column, RelatedCodec

TERMS: dict[str, Any] = {"adjacency": "add-remove", "budget": (1e9, 1e-6)}


class Asked:
    """Stands where noise is added to counts: keeps the exact counts, answers alike whatever the records are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: list[np.ndarray] = []
        for place in ("marginals", "scored_marginals", "related_marginals"):
            monkeypatch.setattr(f"privot.mechanisms.table_counts.{place}.add_noise_to_counts", self)

    def __call__(self, counts: np.ndarray, noise: Any, sigma: float) -> np.ndarray:
        self.counts.append(counts / sigma)
        return np.random.default_rng(len(self.counts)).uniform(40.0, 400.0, counts.shape)


def mechanism_for(vault: Vault, labels: bool = False) -> RelatedMarginals:
    made = related_mechanism(codec(labels), vault.facts, epsilon=1.0, delta=1e-6)
    if labels:
        parts = [(part, view) for part, view in made.tables if isinstance(part, ScoredMarginals)]
        assert len(parts) == 2
        small = [(replace(p, planner=TablePlanner(p.marginals.axes, population=200)), view) for p, view in parts]
        made = replace(made, tables=tuple(small))
    return made


def moved(
    monkeypatch: pytest.MonkeyPatch, one: RelatedTables, other: RelatedTables, labels: bool = False
) -> tuple[float, float]:
    """(how far the exact sums of two data sets are apart, the most that is charged for), both over their noise."""
    asked, claimed = [], 0.0
    for held in (one, other):
        with monkeypatch.context() as patch:
            seen = Asked(patch)
            vault = Vault(held, clip=held.codec.bound(), **TERMS)
            mechanism = mechanism_for(vault, labels)
            vault.release(mechanism, purpose="exact")
            claimed = sum((leaf.sensitivity / leaf.sigma) ** 2 for leaf in gaussians(mechanism, vault))
            asked.append(seen.counts)
    apart = sum(float(np.square(a - b).sum()) for a, b in zip(*asked, strict=True))
    return apart**0.5, claimed**0.5


def gaussians(mechanism: RelatedMarginals, vault: Vault) -> Iterator[Gaussian]:
    for leaf, times in leaves(mechanism.event(vault.facts)):
        assert isinstance(leaf, Gaussian)
        for _ in range(times):
            yield leaf


@pytest.mark.parametrize("planted", PLANTED)
def test_a_parent_with_all_children_moves_sums_by_what_is_charged_and_no_more(
    monkeypatch: pytest.MonkeyPatch, planted: int
):
    found, claimed = moved(monkeypatch, related(planted, order=1), related(None, order=2))
    assert found <= claimed * (1.0 + 1e-12)
    # the parent's own part has three tenths of the budget, a child 1/25 of the children's counts, which have the rest
    # but for the twentieth that says how alike siblings are
    counted = 0.3 + 0.7 * 0.95 * min(planted, PER_PARENT) ** 2 / PER_PARENT**2
    if planted < 2:
        assert found == pytest.approx(claimed * counted**0.5, rel=1e-8)
    else:
        # of three numbers about siblings two are reached: all are in one ward, and there are two of them; the third is
        # a product of ranks, which are less than 1
        alike = (found / claimed) ** 2 - counted
        assert 0.7 * 0.05 * (2 / 3) * (1.0 - 1e-8) <= alike <= 0.7 * 0.05


def test_with_labels_and_scores_the_bound_holds(monkeypatch: pytest.MonkeyPatch):
    found, claimed = moved(monkeypatch, related(500, labels=True, order=1), related(None, labels=True), labels=True)
    assert 0.5 * claimed < found <= claimed


def test_children_bounded_by_their_order_in_the_file_are_caught(monkeypatch: pytest.MonkeyPatch):
    def first_rows(keys: list[str], rows: Any, labels: Any, most: int) -> np.ndarray:
        seen: dict[str, int] = {}
        kept = []
        for place, key in enumerate(keys):
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= most:
                kept.append(place)
        return np.array(kept)

    two = related(5, many=True), related(None, many=True, order=BACKWARDS)
    assert moved(monkeypatch, *two)[0] <= moved(monkeypatch, *two)[1] * (1.0 + 1e-12)
    monkeypatch.setattr(related_records, "kept_rows", first_rows)
    found, claimed = moved(monkeypatch, *two)
    assert found > 2.0 * claimed


def test_children_that_are_charged_as_single_records_are_caught(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(related_marginals, "group_event", lambda event, most: event)
    found, claimed = moved(monkeypatch, related(500), related(None))
    assert found > 1.5 * claimed


def test_likeness_that_grows_with_the_number_of_siblings_is_caught(monkeypatch: pytest.MonkeyPatch):
    mean = SiblingSums.of_parents

    def over_all_pairs(self: SiblingSums, rows: np.ndarray) -> np.ndarray:
        filled = self.view.filled(rows)
        return mean(self, rows) * np.maximum(filled * (filled - 1) // 2, 1)[:, None]

    monkeypatch.setattr(SiblingSums, "of_parents", over_all_pairs)
    found, claimed = moved(monkeypatch, related(500), related(None))
    assert found > 1.5 * claimed


def test_a_row_is_one_parent_with_its_children_in_any_order_of_the_files():
    whole = related(500).rows()
    assert whole.shape == (PARENTS + 1, codec().dim)
    shuffled = related(500, order=7).rows()
    assert sorted(map(tuple, shuffled.tolist())) == sorted(map(tuple, whole.tolist()))
    # without a parent all other rows are the same to the bit
    rest = sorted(map(tuple, related(None, order=8).rows().tolist()))
    left = sorted(map(tuple, whole.tolist()))
    left.remove((1.0, 1.0, 1.0, *[1.0, 2.0] * PER_PARENT))
    assert rest == left
    assert (np.linalg.norm(whole, axis=1) <= codec().bound()).all()


def test_a_view_makes_at_most_so_many_records_of_any_row():
    (_, view) = views_of(codec(labels=True))
    assert isinstance(view, ChildView)
    rows = np.random.default_rng(1).normal(scale=1e9, size=(50, codec(labels=True).dim))
    rows[0], rows[1], rows[2] = np.inf, -np.inf, np.nan
    for row in rows:
        made, labels = view.records(row[None])
        assert len(made) <= PER_PARENT
        assert labels is not None
        assert set(labels.tolist()) <= {0, 1}


def test_records_of_a_view_are_the_join_of_the_tables():
    held = tables(3, labels=True)
    made = RelatedTables(codec(labels=True, per_parent=1000), held)
    parents, children = views_of(made.codec)
    rows = made.rows()
    x, y, keys = held["patients"]
    numbers = np.array([sum(key == of for of in held["visits"][2]) for key in keys])
    seen, labels = parents.records(rows)
    np.testing.assert_array_equal(seen, np.column_stack([x, numbers / 1000]))
    np.testing.assert_array_equal(labels, y)
    seen, labels = children.records(rows)
    at = [keys.index(key) for key in held["visits"][2]]
    joined = np.column_stack([x[at], numbers[at] / 1000, y[at], held["visits"][0], held["visits"][1]])
    assert sorted(map(tuple, np.column_stack([seen, labels]).tolist())) == sorted(map(tuple, joined.tolist()))


def test_orphans_are_refused_or_dropped_and_equal_keys_are_refused():
    held = tables(5)
    without = {**held, "patients": tables(None)["patients"]}
    with pytest.raises(DataError, match=r"no row of 'patients' has.*orphans") as error:
        RelatedTables(codec(), without)
    assert "planted" not in str(error.value)
    dropped = RelatedTables(codec(), without, orphans="drop")
    np.testing.assert_array_equal(dropped.rows(), related(None).rows())
    x, y, keys = held["patients"]
    with pytest.raises(DataError, match="Two rows of 'patients' have one 'patient_id'") as error:
        RelatedTables(codec(), {**held, "patients": (x, y, ["p1", *keys[1:]])})
    assert "p1" not in str(error.value).replace("'patient_id'", "")
    with pytest.raises(UsageError, match="Orphans are either of"):
        RelatedTables(codec(), held, orphans="keep")


def test_the_unit_is_charged_and_named():
    vault = Vault(related(5), clip=codec().bound(), **TERMS)
    assert str(vault.facts.unit) == "one patient_id, at most 6 rows"
    released = vault.release(mechanism_for(vault), purpose="counts")
    assert released.guarantee.unit == vault.facts.unit
    assert released.guarantee.epsilon() <= 1.0
    (event,) = released.guarantee.events
    assert (event["kind"], event["unit"], event["rows"]) == ("unit", KEY, 6)
    # what is stated for one row is charged for one row: a parent with its children is one
    counted = vault.release(Count(epsilon=0.5, delta=1e-6), purpose="parents").guarantee
    assert counted.events[0]["event"]["sensitivity"] == pytest.approx(1.0)
    assert counted.epsilon() == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(UsageError, match="add-remove only"):
        Vault(related(5), clip=1.0, adjacency="replace-one", budget=(1.0, 1e-6))
    with pytest.raises(UsageError, match="their own labels and key"):
        Vault(related(5), clip=1.0, units=["a"], **TERMS)


def test_a_ledger_knows_all_tables_as_one_data_set(tmp_path: Path):
    with Ledger.create(tmp_path / "clinic.ledger") as ledger:
        told: dict[str, Any] = {"ledger": ledger, "adjacency": "add-remove", "clip": codec().bound()}
        Vault(related(5), budget=(1.0, 1e-6), **told)
        # in any order, with another bound on children: one budget
        Vault(related(5, order=3), **told)
        Vault(RelatedTables(codec(per_parent=2), tables(5)), **{**told, "clip": codec(per_parent=2).bound()})
        (known,) = ledger.datasets()
        assert known.unit == KEY
        with pytest.raises(UsageError, match="together with other related tables"):
            Vault(related(6), budget=(1.0, 1e-6), new_records=True, **told)
        # one of the tables alone
        for name in ("patients", "visits"):
            x, _, keys = tables(5)[name]
            for units in ({}, {"units": keys, "unit": KEY}):
                for new in (False, True):
                    alone: dict[str, Any] = {"adjacency": "add-remove", "new_records": new, **units}
                    with pytest.raises(UsageError, match="together with other related tables"):
                        Vault(x, clip=3.0, ledger=ledger, budget=(1.0, 1e-6), **alone)
        # the same parents with other children, and the same children with other parents
        for name in ("patients", "visits"):
            x, y, keys = tables(5)[name]
            changed = RelatedTables(codec(), {**tables(5), name: (x[:, ::-1] * 0.5, y, keys)})
            with pytest.raises(UsageError, match="together with other related tables"):
                Vault(changed, budget=(1.0, 1e-6), new_records=True, **told)
        # others are new, and no children at all are nobody's
        x, y, keys = tables(5, seed=4)["patients"]
        nobody = tables(5)["visits"][0][:0], None, []
        for scale, visits in ((1.0, tables(5, seed=4)["visits"]), (0.5, nobody), (0.25, nobody)):
            others = RelatedTables(codec(), {"patients": (x * scale, y, keys), "visits": visits})
            with pytest.raises(OtherRecordsError):
                Vault(others, budget=(1.0, 1e-6), **told)
            Vault(others, budget=(1.0, 1e-6), new_records=True, **told)
        # the same rows under other keys
        held = tables(5)
        x, y, keys = held["visits"]
        with pytest.raises(UsageError, match="other values of patient_id"):
            Vault(RelatedTables(codec(), {**held, "visits": (x, y, [*keys[1:], keys[0]])}), **told)


def test_a_ledger_of_one_table_alone_refuses_it_with_others(tmp_path: Path):
    for name in ("patients", "visits"):
        with Ledger.create(tmp_path / f"{name}.ledger") as ledger:
            told: dict[str, Any] = {"ledger": ledger, "adjacency": "add-remove", "budget": (1.0, 1e-6)}
            Vault(tables(5)[name][0], clip=3.0, **told)
            with pytest.raises(UsageError, match=f"a budget for '{name}' alone"):
                Vault(related(5), clip=codec().bound(), new_records=True, **told)


def test_a_ledger_of_one_table_alone_knows_it_with_and_without_the_orphans_that_are_dropped(tmp_path: Path):
    held = {**tables(5), "patients": tables(None)["patients"]}
    for place, alone in enumerate((tables(5)["visits"][0], tables(None)["visits"][0])):
        with Ledger.create(tmp_path / f"{place}.ledger") as ledger:
            told: dict[str, Any] = {"ledger": ledger, "adjacency": "add-remove", "budget": (1.0, 1e-6)}
            Vault(alone, clip=3.0, **told)
            with pytest.raises(UsageError, match="a budget for 'visits' alone"):
                Vault(RelatedTables(codec(), held, orphans="drop"), clip=codec().bound(), new_records=True, **told)


def test_a_table_of_children_without_any_is_released_like_others():
    """What has to do with labels runs on no rows, too: a failure after the charge would tell."""
    held = tables(5, labels=True)
    x, y, _ = held["visits"]
    empty = RelatedTables(codec(labels=True), {**held, "visits": (x[:0], y[:0], [])})
    vault = Vault(empty, clip=empty.codec.bound(), **TERMS)
    released = vault.release(mechanism_for(vault, labels=True), purpose="nobody has children")
    assert isinstance(released.value, Mapping)
    assert np.isfinite(released.value["1.scores"]).all()


def test_files_are_read_with_their_keys_and_a_table_of_children_may_be_empty(tmp_path: Path):
    files = {name: tmp_path / f"{name}.csv" for name in ("patients", "visits")}
    files["patients"].write_text("sex,patient_id,age\nf,007,3\nm,7,9\n")
    files["visits"].write_text("ward,patient_id,days\n")
    vault = Vault.open(files, codec(), **TERMS)
    assert "planted" not in repr(vault)
    assert vault.facts.records is None
    files["visits"].write_text("ward,patient_id,days\na,7,1\n")
    Vault.open(files, codec(), **TERMS)
    for text, said in [
        ("ward,days\na,1\n", "visits.csv: The table lacks column 'patient_id'"),
        ("ward,days\n", "visits.csv: The table lacks column 'patient_id'"),
        ("ward,patient_id,days\na,,1\n", "missing value"),
        ("ward,patient_id,days\nz,7,1\n", "visits.csv: "),
        ("ward,patient_id,days\na,8,1\n", "orphans"),
        ("ward,patient_id,days,more\na,7,1,2\n", "which the schema lacks"),
    ]:
        files["visits"].write_text(text)
        with pytest.raises(DataError, match=said):
            Vault.open(files, codec(), **TERMS)
    with pytest.raises(UsageError, match="one file for each of the names"):
        Vault.open({"patients": files["patients"]}, codec(), **TERMS)


def test_a_codec_refuses_what_cannot_be_linked_and_reads_back_what_it_wrote():
    one = Schema((Column("age", "integer", 0, 9), Column("k", "categorical", categories=("a", "b"))), "k")
    plain = Schema((Column("age", "integer", 0, 9),))
    for schemas, more, said in [
        ({"a": plain}, {}, "a parent and 1 to"),
        ({"a": plain, "A": plain}, {}, "the same name"),
        ({"a": plain, "../b": plain}, {}, "named by letters"),
        ({"a": one, "b": plain}, {}, "cannot be predicted"),
        ({"a": plain, "b": plain}, {"per_parent": 0}, "from 1 to"),
        ({"a": plain, "b": plain}, {"per_parent": {"a": 2}}, "no table of children"),
        ({"a": plain, "b": "schema"}, {}, "names to schemas"),
    ]:
        with pytest.raises(UsageError, match=said):
            RelatedCodec(schemas, key="k", **more)
    again = RelatedCodec.from_dict(codec(labels=True).to_dict())
    assert again.to_dict() == codec(labels=True).to_dict()
    for damaged in ({}, {**again.to_dict(), "per_parent": [1, 2]}, {**again.to_dict(), "tables": [1]}):
        with pytest.raises(DataError):
            RelatedCodec.from_dict(damaged)
