"""What noise and charges are bound to has a name of its own, which no move of a class, and no other class, changes.

A mark that differs from what an earlier version wrote makes a job that was killed after its charge pay twice. MARKS and
the names were recorded from commit 85c0c839, the last that took them from where the classes lay.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import new_class
from typing import Any, ClassVar

import numpy as np
import pytest

import privot.mechanisms
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Count, Facts, Histogram, Mean, MeanEmbedding, Quantiles, RandomProjection, SketchDesign
from privot.mechanisms.mechanism import name_of
from privot.mechanisms.sketching.private_sketch import PrivateSketch, SketchSums
from privot.mechanisms.summaries.array_columns import checked_columns
from privot.mechanisms.summaries.mean import ClampedSum
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.mechanisms.table_counts.cell_tree import TreeRule
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores, InteractionScore, LabelScore
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.related_marginals import RelatedMarginals
from privot.mechanisms.table_counts.row_views import ChildView, ParentView, ViewedSums
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.partitions.kept_sums import described
from privot.partitions.partition_tasks import AddRecords, NameRecords
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.tabular.table_fit import FurtherTablePlanner, TablePlanner
from privot.synthesis.tabular.table_release import Asked
from privot.tables import Column, Schema
from privot.tables.encoded_columns import encoded_columns
from privot.vault.release_steps import kept_noise

SECRET = bytes(range(32))
A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
AXES = (Axis(0, 4, (0.25, 0.5, 0.75), ordered=True), Axis(1, 3), Axis(2, 2))
UNLABELLED = GroupedMarginals(AXES, None, (8.0, 4.0))
PLAIN = GroupedMarginals(AXES, 2, (8.0, 4.0))
SCORED = ScoredMarginals(PLAIN, 6.0, TablePlanner(AXES, population=50))
ASKED = Asked((1,), ((0, 1, 2),))
FURTHER = FurtherScores(
    SCORED, (LabelScore(1, (0, 2), 5.0), InteractionScore((0, 1, 2), 8.0)), FurtherTablePlanner(AXES, ASKED)
)
RULE = TreeRule(sizes=(16, 4, 1), most=16, least=4, ends=2)
GRID = Axis(0, 101, tuple(np.arange(1, 100) / 100), missing=True, ordered=True)
STANDING = GroupedMarginals(
    (Axis(0, 17, tuple(np.arange(1, 16) / 16), missing=True, ordered=True), Axis(1, 5)), 2, (30.0, 20.0)
)
COLUMNS = checked_columns(("a", "b"), 2)
SAMPLES: dict[str, tuple[Any, Facts]] = {
    "Count": (Count(epsilon=1.0, delta=1e-6), Facts(2, None, 1.0, A, columns=COLUMNS)),
    "Mean": (Mean("a", range=(0.0, 9.0), epsilon=1.0, delta=1e-6), Facts(2, None, 1.0, A, columns=COLUMNS)),
    "Histogram": (
        Histogram("b", range=(0.0, 2.0), epsilon=1.0, delta=1e-6), Facts(2, 50, 1.0, R, columns=COLUMNS),
    ),
    "Quantiles": (
        Quantiles("a", (0.5,), range=(0.0, 9.0), epsilon=1.0, delta=1e-6), Facts(2, None, 1.0, A, columns=COLUMNS),
    ),
    "RandomProjection": (RandomProjection(2, 5.0, seed=7), Facts(3, 40, 0.5, R)),
    "PrivateSketch": (PrivateSketch(SketchDesign.plain(3, 4.0), 20.0), Facts(3, 40, 1.0, R)),
    "MeanEmbedding": (MeanEmbedding(Fourier(3, 8, [1.0], 1), 5.0), Facts(3, None, 1.0, A, 2)),
    "GroupedMarginals": (PLAIN, Facts(3, None, 1.0, A, 2)),
    "ScoredMarginals": (SCORED, Facts(3, None, 1.0, A, 2)),
    "FurtherScores": (FURTHER, Facts(3, 60, 1.0, R, 2)),
    "ChosenCells": (
        ChosenCells((GRID, None), 25.0, ScoredMarginals(STANDING, 6.0, TablePlanner(STANDING.axes)), RULE),
        Facts(2, None, 1.0, A, 2),
    ),
    "RelatedMarginals": (
        RelatedMarginals(((UNLABELLED, ParentView(3)), (UNLABELLED, ChildView(1, 3, 4, 2, 5))), siblings=(None, 9.0)),
        Facts(14, None, 1.0, A),
    ),
}  # fmt: skip
"""One mechanism of every kind whose release can be made again, with public facts."""
MARKS = {
    "Count": "a6d5a941082a2a972f6420a45e2ac26c",
    "Mean": "d678df53f64a834f554741331d393cc8",
    "Histogram": "50a54ad0b1f6fadb7dd9e0f7a83649b6",
    "Quantiles": "a75f733ad670de79b47db1cc56c6e75a",
    "RandomProjection": "fc2b48c3b3da96b1c1adf5e3f3690476",
    "PrivateSketch": "3cdf0e0e717d22fb055d13db5507e933",
    "MeanEmbedding": "8341a9fbf9dddf82ca6db1673ebbb758",
    "GroupedMarginals": "c3f32a3387f4030d2dcbe3cb3661a7b8",
    "ScoredMarginals": "ba532f4399b87628b9fd302834fec20a",
    "FurtherScores": "569baa66a68897701bb4a6e9c290e3e8",
    "ChosenCells": "944a9b4b5f405644e546686900142a92",
    "RelatedMarginals": "bcbb190082fb2b7cbdad82dccc7efb30",
}
SUMMANDS = {
    "privot.mechanisms.sketching.private_sketch.SketchSums",
    "privot.mechanisms.summaries.array_columns.ArrayColumn",
    "privot.mechanisms.summaries.mean.ClampedSum",
    "privot.mechanisms.table_counts.cell_axes.Axis",
    "privot.mechanisms.table_counts.cell_counts.CellCounts",
    "privot.mechanisms.table_counts.row_views.ChildView",
    "privot.mechanisms.table_counts.row_views.ViewedSums",
    "privot.partitions.partition_tasks.AddRecords",
    "privot.partitions.partition_tasks.NameRecords",
    "privot.tables.columns.Column",
    "privot.tables.encoded_columns.EncodedColumn",
    "SketchDesign",
}
"""What kept sums of partitions are named by: where one is renamed, finished partitions are read again."""


def identified() -> Iterator[type]:
    """Every class of the product whose release can be made again."""
    for module in pkgutil.walk_packages(privot.mechanisms.__path__, "privot.mechanisms."):
        for kind in vars(importlib.import_module(module.name)).values():
            own = isinstance(kind, type) and kind.__module__ == module.name
            if own and all(hasattr(kind, name) for name in ("identity", "event", "run", "needs")):
                yield kind


def test_every_mechanism_that_can_be_made_again_has_a_name_of_its_own() -> None:
    kinds = [kind for kind in identified() if kind.__name__ not in ("Identified", "Summary")]
    assert {kind.__name__ for kind in kinds} == set(SAMPLES), "give SAMPLES one of every kind"
    names = [vars(kind).get("stable_name") for kind in kinds]
    assert None not in names, kinds[names.index(None)]
    assert len(set(names)) == len(names)


def test_marks_of_charges_are_those_that_were_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.vault.release_steps.arithmetic_mark", lambda *_: "a machine")
    # a ledger that holds the mark of an earlier version, which bound no columns
    known = frozenset(MARKS.values()).__contains__
    found = {name: kept_noise(m, SECRET, facts, "data", "records", known)[1] for name, (m, facts) in SAMPLES.items()}
    assert found == MARKS


@pytest.mark.parametrize("name", SAMPLES)
def test_a_class_that_moves_keeps_its_marks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.vault.release_steps.arithmetic_mark", lambda *_: "a machine")
    mechanism, facts = SAMPLES[name]
    known, now = frozenset(MARKS.values()).__contains__, kept_noise(mechanism, SECRET, facts, "data", "records")[1]
    held = [(kind, kind.__module__, kind.__qualname__, kind.__name__) for kind in (type(mechanism), Facts)]
    try:
        for kind, *_ in held:
            kind.__module__, kind.__qualname__, kind.__name__ = "privot.elsewhere", "Renamed", "Renamed"
        assert kept_noise(mechanism, SECRET, facts, "data", "records", known)[1] == MARKS[name]
        assert kept_noise(mechanism, SECRET, facts, "data", "records")[1] == now
    finally:
        for kind, *names in held:
            kind.__module__, kind.__qualname__, kind.__name__ = names


def test_a_class_without_a_name_of_its_own_is_refused() -> None:
    """A subclass would have the noise of its base, and show what differs between the two."""
    base = type(SAMPLES["Count"][0])
    inherits = new_class("Other", (base,))
    empty = new_class("Other", (base,), {}, lambda body: body.update(stable_name=""))
    for kind in (inherits, empty):
        with pytest.raises(UsageError, match="no stable_name of its own"):
            name_of(kind.__new__(kind))


def test_facts_have_one_text_for_ever() -> None:
    facts = Facts(5, 20, 0.5, R, 3, columns=COLUMNS, unit=None)
    adjacency = "<Adjacency.REPLACE_ONE: 'replace-one'>"
    assert facts.identity() == f"Facts(dim=5, records=20, clip=0.5, adjacency={adjacency}, classes=3)"


def test_kept_sums_are_named_as_before() -> None:
    schema = Schema((Column("age", "integer", 0, 9), Column("sex", "categorical", categories=("f", "m"))))
    cells = CellCounts(AXES, ((0,),))
    summands = [
        cells,
        ViewedSums(cells, ChildView(1, 3, 4, 2, 5)),
        ClampedSum(encoded_columns(schema)[0], 0.0, 9.0),
        ClampedSum(COLUMNS[0], 0.0, 9.0),
        SketchSums(SketchDesign.plain(3, 4.0)),
    ]
    tasks = [NameRecords(3, None, 5), *(AddRecords(summand, 3, None, 5) for summand in summands)]
    heads = [found for task in tasks for found in re.findall(r"([\w.]+) (?:\d+\(|exactly;)", str(described(task)))]
    assert {head for head in heads if head not in ("tuple", "builtins.tuple")} == SUMMANDS


def test_a_class_that_moved_is_named_by_what_it_says() -> None:
    @dataclass(frozen=True)
    class Moved:
        stable_name: ClassVar[str] = "privot.where.it.lay.Moved"
        number: int = 1

    assert described(Moved()) == b"privot.where.it.lay.Moved 1(int 1;)"
