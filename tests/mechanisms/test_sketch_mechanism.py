"""A sketch moves by no more than it says, for any records, and its noise is the noise that was counted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privot import Vault
from privot.accounting import Gaussian
from privot.errors import BudgetError, DataError, UnprovenError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign
from privot.mechanisms.sketching.private_sketch import PrivateSketch, _whole
from privot.mechanisms.sketching.sketch_design import shared
from privot.mechanisms.unproven.interpolation import Interpolation
from privot.noise import SystemNoise
from weaker_noise import WeakerNoise

R, A = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
PUBLIC = np.random.default_rng(0).normal(size=(120, 6)) * [3, 2, 1, 1, 1, 1]
DESIGNS = {
    "plain": SketchDesign.plain(6, 2.0, directions=3),
    "whole space": SketchDesign.plain(6, 2.0),
    "box": SketchDesign.box(6, -1.0, 3.0, directions=3),
    "public": SketchDesign.around(PUBLIC, prototypes=5, directions=2, principal=2),
}
ROWS = arrays(np.float64, (2, 6), elements=st.one_of(st.floats(-10, 10), st.floats(-1e150, 1e150)))


def weighted(design: SketchDesign, rows: np.ndarray) -> np.ndarray:
    blocks = design.coordinates(rows)
    return np.concatenate([blocks[n] * design.weights[n] for n, width in design.widths.items() if width], axis=1)


@pytest.mark.parametrize("name", DESIGNS)
@settings(max_examples=150)
@given(rows=ROWS)
def test_neighbours_differ_by_at_most_the_sensitivity(name: str, rows: np.ndarray) -> None:
    design = DESIGNS[name]
    one, other = weighted(design, rows)
    assert np.linalg.norm(one) <= design.sensitivity(A) * (1 + 1e-12)
    assert np.linalg.norm(one - other) <= design.sensitivity(R) * (1 + 1e-12)


def test_the_sensitivity_is_the_smallest_that_holds() -> None:
    design = DESIGNS["whole space"]
    out = np.zeros((2, 6))
    # on two different knots, both beyond the radius, in opposite directions
    out[0, 0], out[1, 0] = math.sqrt(design.knots[-1]), -math.sqrt(design.knots[-2])
    one, other = weighted(design, out)
    assert np.linalg.norm(one) == pytest.approx(design.sensitivity(A), rel=2e-6)
    assert np.linalg.norm(one - other) == pytest.approx(design.sensitivity(R), rel=2e-6)


def test_the_formula_of_the_sensitivity() -> None:
    w = DESIGNS["public"].weights
    squares = [w[n] ** 2 for n in ("features", "shells", "cells", "residuals")]
    assert DESIGNS["public"].sensitivity(A) == pytest.approx(math.sqrt(sum(squares)))
    assert DESIGNS["public"].sensitivity(R) == pytest.approx(math.sqrt(4 * squares[0] + 2 * sum(squares[1:])))
    assert DESIGNS["plain"].sensitivity(A) == pytest.approx(math.sqrt(1 + 1.5**2))
    assert DESIGNS["plain"].sensitivity(R) == pytest.approx(math.sqrt(4 + 2 * 1.5**2))


@given(arrays(np.float64, (4, 6), elements=st.floats(-1, 3)))
def test_no_record_inside_the_box_is_cut(rows: np.ndarray) -> None:
    design = SketchDesign.box(6, -1.0, 3.0)
    np.testing.assert_allclose(
        design.coordinates(rows)["features"], (rows - 1.0) / (2.0 * math.sqrt(6)), rtol=2e-6, atol=1e-12
    )


@given(st.lists(st.floats(0, 40), min_size=1, max_size=20))
def test_shares_keep_the_mean(squares: list[float]) -> None:
    knots = np.array([0.0, 1.0, 3.0, 50.0])
    shares = shared(np.array(squares), knots)
    assert shares.min() >= 0.0
    np.testing.assert_allclose(shares.sum(1), 1.0)
    np.testing.assert_allclose(shares @ knots, squares, atol=1e-9)


def test_what_lies_beyond_the_last_knot_is_counted_there() -> None:
    np.testing.assert_array_equal(shared(np.array([60.0, np.inf]), np.array([0.0, 50.0])), [[0, 1], [0, 1]])


def standardised(noise: SystemNoise, runs: int = 40) -> np.ndarray:
    """(released − exact sum)·weight/σ of many sketches of the same records: N(0, 1) if all is right."""
    design = DESIGNS["public"]
    records = np.random.default_rng(1).normal(size=(50, 6))
    truth = {n: v.sum(0) for n, v in design.coordinates(records).items()}
    out = []
    for _ in range(runs):
        # the vault is not asked to judge this noise: standing is checked elsewhere
        vault = Vault(records, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5), noise=noise)
        value = vault.release(PrivateSketch(design, 3.0), purpose="test").value
        out += [(value[n] - truth[n]) * design.weights[n] / 3.0 for n in truth]
    return np.concatenate(out)


def is_standard(z: np.ndarray) -> bool:
    """Mean and variance within six standard errors of 0 and 1."""
    n = len(z)
    return bool(abs(z.mean()) < 6 / math.sqrt(n) and abs(z.var() - 1) < 6 * math.sqrt(2 / n))


def test_noise_is_accepted_at_sigma_and_rejected_at_two_thirds() -> None:
    assert is_standard(standardised(SystemNoise()))
    assert not is_standard(standardised(WeakerNoise(2 / 3)))


def test_what_is_charged_is_what_runs() -> None:
    design = DESIGNS["public"]
    vault = Vault(PUBLIC, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    mechanism = PrivateSketch(design, 4.0)
    assert mechanism.event(vault.facts) == Gaussian(4.0, design.sensitivity(A), A)
    release = vault.release(mechanism, purpose="test")
    assert release.public["records"] is None
    assert release.public["sigma"] == 4.0
    assert {n: len(v) for n, v in release.value.items()} == design.widths

    class Plain:
        facts, count = vault.facts, len(PUBLIC)

        def rows(self, indices: np.ndarray) -> np.ndarray:
            return PUBLIC[indices]

    with pytest.raises(UsageError, match="event it made"):
        mechanism.run(Plain(), SystemNoise(), Gaussian(4.0, 0.1, A), 0)


def test_many_records_are_counted_and_absurdly_many_refused_before_paying() -> None:
    rows = np.zeros((20_000, 2))
    design = SketchDesign.plain(2, 1.0)
    vault = Vault(rows, clip=1.0, adjacency="replace-one", budget=(60.0, 1e-5))
    value = vault.release(PrivateSketch(design, 1.0), purpose="test").value
    assert value["shells"][0] == pytest.approx(20_000, abs=10)
    with pytest.raises(UsageError, match="too small"):
        vault.release(PrivateSketch(design, 1e-3), purpose="test")


def test_designs_are_repeatable_and_named_by_what_they_share() -> None:
    again = SketchDesign.around(PUBLIC, prototypes=5, directions=2, principal=2)
    assert again.digest() == DESIGNS["public"].digest()
    others = [
        SketchDesign.around(PUBLIC, prototypes=4, directions=2, principal=2),
        SketchDesign.around(PUBLIC, prototypes=5, directions=2, principal=2, seed=1),
        SketchDesign.around(PUBLIC * 1.01, prototypes=5, directions=2, principal=2),
        DESIGNS["plain"],
        DESIGNS["whole space"],
    ]
    assert len({d.digest() for d in others} | {again.digest()}) == 6


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: SketchDesign.plain(3, 0.0), UsageError),
        (lambda: SketchDesign.box(3, 1.0, 1.0), UsageError),
        (lambda: SketchDesign.box(3, 0.0, np.inf), UsageError),
        (lambda: replace(DESIGNS["public"], knots=np.array([0.0, 2.0, 1.0])), UsageError),
        (lambda: replace(DESIGNS["public"], knots=np.array([1.0, 2.0])), UsageError),
        (lambda: replace(DESIGNS["public"], weights={**DESIGNS["public"].weights, "cells": 0.0}), UsageError),
        (lambda: SketchDesign.plain(3, 1.0, seed=1 << 127), UsageError),
        (lambda: SketchDesign.plain(3, 1.0, centre=[1.0, 2.0]), DataError),
        (lambda: SketchDesign.around(np.zeros((3, 2))), DataError),
        (lambda: SketchDesign.around(np.ones((30, 2))), DataError),
        (lambda: SketchDesign.around([[np.nan, 1.0]] * 20), DataError),
        (lambda: Interpolation(np.ones((2, 2)), t=1.0), UsageError),
        (lambda: Interpolation(np.full((2, 2), np.nan)), DataError),
    ],
)
def test_designs_that_make_no_sense_are_refused(make, error) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        make()


def test_an_interpolant_never_leaves_a_vault_with_a_finite_budget() -> None:
    vault = Vault(PUBLIC, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    with pytest.raises(UnprovenError):
        vault.release(Interpolation(np.zeros((1, 6))), purpose="test")
    with pytest.raises(BudgetError):
        vault.release(Interpolation(np.zeros((1, 6))), purpose="test", allow_unproven=True)


def test_a_record_counts_the_same_in_any_company() -> None:
    """Ties between prototypes and sums: neither depends on which records stand beside one."""
    design = DESIGNS["public"]
    g = np.random.default_rng(5)
    first, second = design.prototypes[:2]
    rows = np.concatenate([(first + second) / 2 + g.normal(size=(60, len(first))) * 1e-15, g.normal(size=(40, 6))])
    whole = design.coordinates(rows)
    for pick in (np.arange(100)[::-1], g.permutation(100)[:37], np.array([3])):
        part = design.coordinates(rows[pick])
        for name, block in part.items():
            np.testing.assert_array_equal(block, whole[name][pick])
        total = sum(_whole(name, block).sum(0).sum() for name, block in part.items())
        alone = sum(int(_whole(name, whole[name][[i]]).sum()) for i in pick for name in part)
        assert total == alone


def test_noise_too_large_for_the_margin_is_refused_before_paying() -> None:
    vault = Vault(PUBLIC, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="margin"):
        vault.release(PrivateSketch(DESIGNS["public"], 1e7), purpose="test")


@pytest.mark.parametrize("kind", ["one", "one far out", "two", "last digits"])
def test_public_rows_that_say_nothing_are_refused_with_the_design(kind) -> None:
    g = np.random.default_rng(0)
    rows = g.normal(size=(40, 3))
    public = {
        "one": np.repeat(rows[:1], 50, 0),
        "one far out": np.full((50, 3), 1e8 + 0.1),
        "two": rows[g.integers(0, 2, 200)],
        "last digits": rows + 1e9,
    }[kind]
    with pytest.raises(DataError, match="public rows"):
        SketchDesign.around(public)


@pytest.mark.parametrize(
    "unmatched", [(), ((1.0, 0.0, 0.3),), ((1.0, 0.3, -1.0),), ((2.0, 0.3, 0.3),) * 2, ((np.nan, 1.0, 1.0),)]
)
def test_a_calibration_that_no_reader_accepts_makes_no_design(unmatched) -> None:
    with pytest.raises(UsageError, match="calibration"):
        replace(SketchDesign.plain(3, 1.0), unmatched=unmatched)
