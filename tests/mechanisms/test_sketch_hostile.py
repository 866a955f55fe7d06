"""Designs that a stranger chose to break the bound: each is refused, or the bound holds for every record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot import Vault
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.mechanisms.mechanism import Facts
from privot.mechanisms.sketching.private_sketch import UNIT, PrivateSketch, _whole

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
WEIGHTS = {"features": 1.0, "shells": 1.5, "cells": 0.9, "residuals": 1.1}
ANY = st.floats(-300.0, 300.0).map(lambda e: 10.0**e)
SIGNED = st.one_of(st.just(0.0), st.floats(-10, 10), st.builds(lambda s, v: s * v, st.sampled_from([-1.0, 1.0]), ANY))


def moved(design: SketchDesign, rows: np.ndarray) -> np.ndarray:
    """What each record adds to the sums that noise is put on, to the last bit."""
    blocks = design.coordinates(rows)
    parts = [_whole(n, blocks[n]) * UNIT * design.weights[n] for n, width in design.widths.items() if width]
    return np.concatenate(parts, axis=1)


@settings(max_examples=400, deadline=None)
@given(
    radius=st.one_of(st.floats(0.1, 10.0), ANY, st.just(5e-324)),
    centre=st.lists(SIGNED, min_size=3, max_size=3),
    basis=st.lists(SIGNED, min_size=3, max_size=3),
    prototypes=st.lists(SIGNED, min_size=6, max_size=6),
    knots=st.lists(ANY, min_size=1, max_size=4, unique=True),
    rows=st.lists(SIGNED, min_size=6, max_size=6),
    public=st.booleans(),
)
def test_no_design_moves_a_sum_by_more_than_it_says(radius, centre, basis, prototypes, knots, rows, public) -> None:
    around = np.array(prototypes).reshape(2, 3) if public else np.zeros((0, 3))
    try:
        design = SketchDesign(
            3, radius, np.array(centre), np.array([basis]).T, around, np.array([0.0, *sorted(knots)]), WEIGHTS, 1
        )
    except UsageError:
        return
    one, other = moved(design, np.array(rows).reshape(2, 3))
    assert np.linalg.norm(one) <= design.sensitivity(A)
    assert np.linalg.norm(one - other) <= design.sensitivity(R)


def overflowing(radius: float) -> SketchDesign:
    """Coordinates overflow for records beyond 0.3 in the first column: each such record once moved a sum by 2³¹."""
    centre = np.array([0.3 - np.finfo(float).max / 1e300, 0.0, 0.0])
    none = np.zeros((0, 3))
    return SketchDesign(3, radius, centre, none.T, none, np.array([0.0, 1e12]), WEIGHTS, 4)


def test_a_radius_that_makes_coordinates_overflow_is_refused() -> None:
    for radius in (1e-12, 1e-300):
        with pytest.raises(UsageError, match="radius"):
            overflowing(radius)
    with pytest.raises(UsageError, match="proportion"):
        SketchDesign(3, 1.0, np.zeros(3), np.zeros((3, 0)), np.zeros((0, 3)), np.array([0.0, 1e20]), WEIGHTS, 4)
    for name, bad in (("centre", np.inf), ("centre", 1e200), ("knots", np.inf), ("knots", 1e200)):
        given = {"centre": np.zeros(3), "knots": np.array([0.0, 1.0])}
        given[name][-1] = bad
        with pytest.raises(UsageError, match="finite"):
            SketchDesign(3, 1.0, given["centre"], np.zeros((3, 0)), np.zeros((0, 3)), given["knots"], WEIGHTS, 4)


def test_directions_cannot_be_changed_after_they_were_checked() -> None:
    with pytest.raises(ValueError, match="read-only"):
        SketchDesign.plain(3, 1.0).matrix[0, 0] = np.inf


@pytest.mark.slow
def test_many_prototypes_and_classes_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    points = np.random.default_rng(0).normal(size=(400, 100))
    design = SketchDesign(
        100, 20.0, np.zeros(100), np.zeros((100, 0)), points, np.array([0.0, 50.0, 200.0]), WEIGHTS, 4, classes=800
    )
    vault = Vault(points, np.arange(400) % 800, classes=800, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    monkeypatch.setattr("privot.mechanisms.sketching.private_sketch.BLOCK_NUMBERS", 1 << 16, raising=False)
    tracemalloc.start()
    release = vault.release(PrivateSketch(design, 50.0), purpose="p")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    costs = np.array(release.public["prototype_costs"])
    np.testing.assert_allclose(costs, ((points[:, None] - points[None]) ** 2).sum(-1))


def test_so_many_records_that_their_sums_round_beyond_the_margin_are_refused_before_paying() -> None:
    mechanism = PrivateSketch(SketchDesign.plain(3, 1.0), 1e4)
    mechanism.event(Facts(3, 10**9, 1.0, R))
    with pytest.raises(UsageError, match="rounding"):
        mechanism.event(Facts(3, 2 * 10**9, 1.0, R))


@pytest.mark.parametrize("radius", [0.0, -1.0, 1e-300, 1e200, 1e308, np.inf, np.nan])
def test_radii_and_ranges_that_floats_cannot_square_are_refused_in_a_sentence(radius: float) -> None:
    with pytest.raises(UsageError, match="radius"):
        SketchDesign.plain(3, radius)
    with pytest.raises(UsageError, match=r"r(ange|adius) of"):
        SketchDesign.box(3, -radius, radius)
    if radius > 1e100:
        public = np.random.default_rng(0).normal(size=(40, 3)) * radius
        with pytest.raises(DataError, match="ublic rows"):
            SketchDesign.around(public)


def test_a_middle_so_far_out_that_records_round_to_it_is_refused() -> None:
    with pytest.raises(UsageError, match="too far"):
        SketchDesign.box(3, 1e16, 1e16 + 2.0)
