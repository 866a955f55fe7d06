"""How alike siblings are: sums against a loop over pairs, bounds for any row, and noise that is what is charged."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from mechanism_samples import Plain
from scipy import stats

from privot.accounting.events import Gaussian
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.related_marginals import RelatedMarginals, sibling_sums
from privot.mechanisms.table_counts.row_views import ChildView, ParentView
from privot.mechanisms.table_counts.sibling_likeness import PARTS, SiblingSums, likeness_sensitivity, ranks_of
from weaker_noise import WeakerNoise

A = Adjacency.ADD_REMOVE
# one column of the parent, the number of children, four slots of a number, a category and a label of three classes
VIEW = ChildView(context=2, count=1, start=2, width=2, most=4, classes=3)
NUMBER, WORD = Axis(2, 4, (0.25, 0.5, 0.75), ordered=True), Axis(3, 3)
RANKS = (-PARTS, -1000, 1500, PARTS)
SUMS = SiblingSums(VIEW, (NUMBER, WORD, Axis(LABEL, 3)), (RANKS, None, None))


def rows(parents: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    slots = np.stack(
        [rng.random((parents, 4)), rng.integers(0, 3, (parents, 4)), rng.integers(0, 3, (parents, 4))], axis=2
    )
    return np.column_stack([rng.random(parents), rng.integers(0, 5, parents) / 4, slots.reshape(parents, 12)])


def test_sums_are_those_of_a_loop_over_pairs() -> None:
    held = rows(200)
    for row, found in zip(held, SUMS.of_parents(held), strict=True):
        slots = row[2:].reshape(4, 3)[: round(row[1] * 4)]
        pairs = list(combinations(slots, 2))
        if not pairs:
            assert not found.any()
            continue
        rank = [np.array(RANKS)[math.floor(4 * slot[0])] / PARTS for slot in slots]
        products = np.mean([a * b for a, b in combinations(rank, 2)])
        same = [np.mean([a[k] == b[k] for a, b in pairs]) for k in (1, 2)]
        assert found / PARTS == pytest.approx([products, *same, 1.0], abs=2 / PARTS)
    total = SUMS.zeros()
    SUMS.add(total, held, None)
    assert (total[0] == SUMS.of_parents(held).sum(axis=0)).all()


def test_no_row_adds_more_than_is_charged_and_some_row_adds_as_much() -> None:
    bound = likeness_sensitivity(VIEW, A) * PARTS
    odd = np.random.default_rng(1).normal(scale=1e9, size=(300, 14))
    odd[0], odd[1], odd[2] = np.inf, -np.inf, np.nan
    wild = SiblingSums(VIEW, SUMS.axes, ((10**7, -(10**7), 10**7, 10**7), None, None))
    for summed in (SUMS, wild):
        added = summed.of_parents(np.vstack([odd, rows(500)]))
        assert (np.abs(added) <= PARTS).all()
        assert (np.linalg.norm(added, axis=1) <= bound).all()
    alike = np.array([[0.5, 1.0, *[0.9, 1.0, 2.0] * 4], [0.5, 0.5, *[0.0, 1.0, 2.0] * 4]])
    assert np.linalg.norm(SUMS.of_parents(alike), axis=1) == pytest.approx(bound, rel=1e-9)
    assert likeness_sensitivity(VIEW, A) == pytest.approx(2.0)
    assert likeness_sensitivity(VIEW, Adjacency.REPLACE_ONE) == pytest.approx(4.0)


def test_what_a_parent_adds_does_not_depend_on_others() -> None:
    held = rows(300)
    together = SUMS.of_parents(held)
    assert (SUMS.of_parents(held[::-1])[::-1] == together).all()
    assert all((SUMS.of_parents(row[None])[0] == found).all() for row, found in zip(held[:50], together, strict=False))


def test_ranks_are_middles_of_places_whatever_the_counts_are() -> None:
    assert ranks_of(np.array([10.0, 0.0, 20.0, 10.0]), np.array([0, 0, 1, 2])) == pytest.approx([-0.75, 0.0, 0.75])
    for counts in (np.zeros(3), np.full(3, -5.0), np.array([1e300, 1e300, -1e300])):
        assert (np.abs(ranks_of(counts, np.arange(3))) <= 1.0).all()


def mechanism(sigma: float | None = 5.0) -> RelatedMarginals:
    parents = GroupedMarginals((Axis(0, 2, (0.5,), ordered=True),), None, (30.0, 30.0))
    axes = (Axis(0, 2, (0.5,), ordered=True), Axis(1, 2, (0.5,), ordered=True), NUMBER, WORD)
    children = GroupedMarginals(axes, 3, (30.0, 30.0), label_sigma=30.0)
    return RelatedMarginals(((parents, ParentView(1)), (children, VIEW)), siblings=(None, sigma))


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (2.0 / 3.0, False)])
def test_noise_is_what_was_charged(factor: float, right: bool) -> None:
    made, held = mechanism(), Plain(rows(80), None, A, clip=9.0)
    event = made.event(held.facts)
    assert event.events[-1] == Gaussian(5.0, likeness_sensitivity(VIEW, A), A)  # type: ignore[attr-defined]
    noise: list[float] = []
    for _ in range(60):
        value, public = made.run(held, WeakerNoise(factor), event, 0)
        own = {name.removeprefix("1."): array for name, array in value.items() if name.startswith("1.")}
        exact = held.sums(sibling_sums(made.tables[1][0], VIEW, own))[0] / PARTS
        noise += list((value["1.siblings"] - exact) / 5.0)
        assert public["tables"][1]["siblings"] == {"sigma": 5.0}
    low, high = stats.chi2.ppf([5e-5, 1.0 - 5e-5], len(noise))
    assert bool(low < np.sum(np.square(noise)) < high) is right


def test_likeness_of_parents_or_of_single_children_is_refused() -> None:
    made = mechanism()
    # 2³⁰ alone could be added to counts, but not in parts: refused now, and not after the charge
    for siblings in ((5.0, None), (5.0,), (None, 2.0**30)):
        with pytest.raises(UsageError):
            RelatedMarginals(made.tables, siblings=siblings)
    assert len(mechanism(None).event(Plain(rows(5), None, A).facts).events) + 1 == len(  # type: ignore[attr-defined]
        made.event(Plain(rows(5), None, A).facts).events  # type: ignore[attr-defined]
    )
