"""Marginals count what they say, cost what they count, and no record can make them fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mechanism_samples import Plain, Silent

from privot import Vault
from privot.accounting import Gaussian
from privot.errors import BudgetError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import SystemNoise

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
AXES = (
    Axis(0, 4, (0.25, 0.5, 0.75), ordered=True),
    Axis(1, 3),
    Axis(2, 4, (0.3, 0.6), missing=True, ordered=True),
    Axis(LABEL, 2),
)
SETS = ((0,), (0, 1), (1, 2, 3))


def plain(x: np.ndarray, y: np.ndarray, adjacency: Adjacency) -> Plain:
    return Plain(x, y, adjacency, classes=2, clip=9.0)


def run(mechanism: Marginals, x: np.ndarray, y: np.ndarray, adjacency: Adjacency = A, noise: Any = None) -> np.ndarray:
    records = plain(x, y, adjacency)
    return mechanism.run(records, noise or Silent(), mechanism.event(records.facts), 0)[0]


def data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.random(rows), rng.integers(0, 3, rows), rng.random(rows)])
    x[rng.random(rows) < 0.2, 2] = -1.0
    return x, rng.integers(0, 2, rows)


def test_counts_are_those_of_a_loop() -> None:
    x, y = data(300)
    value = run(Marginals(AXES, SETS, 1.0), x, y)
    loop = [np.zeros(4), np.zeros((4, 3)), np.zeros((3, 4, 2))]
    for (a, b, c), label in zip(x, y, strict=True):
        first = int(4 * a)
        third = 3 if c < 0 else 0 if c < 0.3 else 1 if c < 0.6 else 2
        loop[0][first] += 1
        loop[1][first, int(b)] += 1
        loop[2][int(b), third, label] += 1
    np.testing.assert_array_equal(value, np.concatenate([table.ravel() for table in loop]))


def test_many_rows_are_counted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data(1000)
    whole = run(Marginals(AXES, SETS, 1.0), x, y)
    monkeypatch.setattr("privot.common.block_sums.BLOCK", 77)
    np.testing.assert_array_equal(run(Marginals(AXES, SETS, 1.0), x, y), whole)


def scaled(mechanism: Marginals, value: np.ndarray) -> np.ndarray:
    """The value in units of its noise: each marginal divided by its deviation, times σ."""
    return value * np.repeat(mechanism.sigma / np.array(mechanism.scales), mechanism.lengths)


WEIGHTS = st.none() | st.tuples(*[st.floats(0.01, 50.0)] * 3)


@settings(max_examples=150, deadline=None)
@given(
    arrays(np.float64, (5, 3), elements=st.floats(-1e300, 1e300)),
    arrays(np.float64, 3, elements=st.floats(-1e300, 1e300)),
    st.integers(0, 1),
    WEIGHTS,
)
def test_neighbours_never_differ_by_more_than_is_counted(
    x: np.ndarray, other: np.ndarray, label: int, weights: tuple[float, ...] | None
) -> None:
    mechanism = Marginals(AXES, SETS, 2.0, weights)
    y = np.array([0, 1, 0, 1, 0])
    here = scaled(mechanism, run(mechanism, x, y))
    assert np.linalg.norm(here - scaled(mechanism, run(mechanism, x[1:], y[1:]))) == pytest.approx(mechanism.norm)
    assert mechanism.norm <= mechanism.sensitivity(A)
    replaced, labels = x.copy(), y.copy()
    replaced[2], labels[2] = other, label
    moved = np.linalg.norm(here - scaled(mechanism, run(mechanism, replaced, labels, R)))
    assert moved <= mechanism.sensitivity(R)


@pytest.mark.parametrize("weights", [None, (1.0, 3.0, 0.2)])
def test_both_sensitivities_are_reached(weights: tuple[float, ...] | None) -> None:
    mechanism = Marginals(AXES, SETS, 2.0, weights)
    norm = math.sqrt(sum(w * w for w in weights or (1, 1, 1)))
    x, y = data(9)
    x[4], y[4] = (0.1, 0, 0.1), 0
    other, labels = x.copy(), y.copy()
    other[4], labels[4] = (0.9, 2, -1.0), 1
    values = [scaled(mechanism, run(mechanism, *d)) for d in ((x, y), (other, labels))]
    assert np.linalg.norm(values[0] - values[1]) == pytest.approx(math.sqrt(2) * norm)
    assert mechanism.sensitivity(R) == pytest.approx(math.sqrt(2) * norm, rel=1e-11)
    assert mechanism.sensitivity(A) == pytest.approx(norm, rel=1e-11)


def test_the_event_says_what_runs() -> None:
    mechanism = Marginals(AXES, SETS, 6.0, (1.0, 2.0, 3.0))
    x, y = data(20)
    for adjacency, factor in ((A, 1.0), (R, math.sqrt(2))):
        facts = plain(x, y, adjacency).facts
        event = mechanism.event(facts)
        assert event == Gaussian(6.0, math.sqrt(14.0) * factor * (1 + 1e-12), adjacency)
        noise = Silent()
        run(mechanism, x, y, adjacency, noise)
        asked = [sigma for _, sigma in noise.asked]
        assert asked == [6.0, 3.0, 2.0]
        # in units of each noise, Σ 1/σ_m² is what (Δ/σ)² covers
        assert sum(factor**2 / s**2 for s in asked) <= (event.sensitivity / event.sigma) ** 2


def test_noise_has_the_deviation_that_is_counted_in_every_marginal() -> None:
    axes = (Axis(0, 200, tuple(np.arange(1, 200) / 200.0)), Axis(1, 200, tuple(np.arange(1, 200) / 200.0)))
    mechanism = Marginals(axes, ((0, 1), (1, 0)), 5.0, (1.0, 4.0))
    x = np.full((3, 2), 0.5)
    records = plain(x, np.zeros(3, dtype=int), A)
    value = mechanism.run(records, SystemNoise(), mechanism.event(records.facts), 0)[0]
    # 40,000 cells each: within 1.8 % with probability 1 − 1e-6; ⅔σ is far outside
    assert value[:40_000].std() == pytest.approx(5.0, rel=0.018)
    assert value[40_000:].std() == pytest.approx(1.25, rel=0.018)


def test_labels_beyond_the_stated_classes_still_land_in_a_cell() -> None:
    cells = Axis(LABEL, 2).index(np.zeros((3, 1)), np.array([-5, 1, 7]))
    assert cells.tolist() == [0, 1, 1]


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, (4, 5), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_every_row_has_one_cell_on_every_axis(rows: np.ndarray) -> None:
    axes = (
        Axis(0, 5, None),
        Axis(1, 3, (0.2,), missing=True),
        Axis(0, 5, None, width=5),
        Axis(1, 4, (0.2, 0.4), width=3, missing=True),
        Axis(2, 6, None, groups=(0, 0, 1, 2, 1, 0)),
    )
    for axis in axes:
        cell = axis.index(rows, None)
        assert cell.shape == (4,)
        assert cell.min() >= 0
        assert cell.max() < axis.size


@pytest.mark.parametrize(
    "arguments",
    [
        {"axes": (), "sets": ((0,),), "sigma": 1.0},
        {"axes": AXES, "sets": (), "sigma": 1.0},
        {"axes": AXES, "sets": ((0, 0),), "sigma": 1.0},
        {"axes": AXES, "sets": ((9,),), "sigma": 1.0},
        {"axes": AXES, "sets": ((-1,),), "sigma": 1.0},
        {"axes": AXES, "sets": SETS, "sigma": 0.0},
        {"axes": AXES, "sets": SETS, "sigma": 1e-9},
        {"axes": AXES, "sets": SETS, "sigma": 1.0, "weights": (1.0,)},
        {"axes": AXES, "sets": SETS, "sigma": 1.0, "weights": (1.0, 0.0, 1.0)},
        {"axes": AXES, "sets": SETS, "sigma": 1.0, "weights": (1.0, math.nan, 1.0)},
        {"axes": AXES, "sets": SETS, "sigma": 1.0, "steps": 2},
        {"axes": (Axis(0, 10**4), Axis(1, 10**4)), "sets": ((0, 1),), "sigma": 1.0},
    ],
)
def test_impossible_settings_are_refused_when_they_are_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Marginals(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": -2, "cells": 2},
        {"start": 0, "cells": 0},
        {"start": 0, "cells": 3, "edges": (0.5,)},
        {"start": 0, "cells": 3, "edges": (0.5, 0.5)},
        {"start": 0, "cells": 3, "edges": (0.5, math.inf)},
        {"start": 0, "cells": 3, "width": 2},
        {"start": 0, "cells": 3, "groups": (0, 1)},
        {"start": 0, "cells": 3, "groups": (0, 2, 2)},
    ],
)
def test_impossible_axes_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Axis(**arguments)


def test_a_vault_refuses_before_it_is_touched() -> None:
    x, y = data(50)
    vault = Vault(x, y, clip=3.0, classes=2, adjacency=A, budget=(1.0, 1e-6))
    mechanism = Marginals(AXES, SETS, 20.0)
    release = vault.release(mechanism, purpose="test")
    assert release.guarantee.events == (mechanism.event(vault.facts).to_dict(),)
    assert release.guarantee.epsilon() < 1.0
    assert release.value.shape == (4 + 12 + 24,)
    for bad in (Marginals((Axis(3, 2),), ((0,),), 20.0), Marginals((Axis(LABEL, 3),), ((0,),), 20.0)):
        with pytest.raises(UsageError):
            vault.release(bad, purpose="test")
    with pytest.raises(BudgetError):
        vault.release(Marginals(AXES, SETS, 1.0), purpose="test")
    unlabelled = Vault(x, clip=3.0, adjacency=A, budget=(1.0, 1e-6))
    with pytest.raises(UsageError):
        unlabelled.release(mechanism, purpose="test")
    # what was refused was not paid for
    assert vault.release(Marginals(AXES, ((0,),), 40.0), purpose="test").guarantee.epsilon() > 0
