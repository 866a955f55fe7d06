"""Intervals for events that happen to records: they cover at their level, however the draws depend on each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from privot.audit.statistics.effects import LEVEL, Effect, mean_below, share_above
from privot.audit.statistics.epsilon_bounds import rate_below

Array = np.ndarray
RUNS = 150


def nothing(generator: np.random.Generator, records: int, halvings: int) -> tuple[Array, Array]:
    return np.zeros((records, halvings), dtype=bool), np.zeros((records, halvings), dtype=bool)


def each_alone(generator: np.random.Generator, records: int, halvings: int) -> tuple[Array, Array]:
    return generator.random((records, halvings)) < 0.05, generator.random((records, halvings)) < 0.02


def the_record_decides(generator: np.random.Generator, records: int, halvings: int) -> tuple[Array, Array]:
    """A record is recovered always or never: halvings add nothing, and records alone are independent."""
    luck = np.repeat(generator.random((records, 1)), halvings, axis=1)
    return luck < 0.3, (luck > 0.2) & (luck < 0.47)


def the_halving_decides(generator: np.random.Generator, records: int, halvings: int) -> tuple[Array, Array]:
    """Some releases give back more than others: records add little, and halvings alone are independent."""
    rate = generator.choice([0.1, 0.3], (1, halvings))
    return generator.random((records, halvings)) < rate, np.zeros((records, halvings), dtype=bool)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "excess", "beyond"),
    [(nothing, 0.0, 0.0), (each_alone, 0.03, 0.049), (the_record_decides, 0.03, 0.2), (the_halving_decides, 0.2, 0.2)],
)
def test_intervals_of_pairs_cover(law, excess: float, beyond: float) -> None:
    generator = np.random.default_rng(5)
    missed = exceeded = 0
    for _ in range(RUNS):
        first, second = law(generator, 300, 8)
        found = Effect.paired(first, second)
        assert found.low <= found.value <= found.high
        missed += not found.low <= excess <= found.high
        exceeded += share_above(first & ~second) < beyond
    allowed = binom.ppf(0.999, RUNS, LEVEL)
    assert missed <= allowed
    assert exceeded <= allowed


def test_events_of_more_than_a_few_records_are_detected() -> None:
    """Of 600 records none was: at most 0.84 %. Eight and none the other way: more than nothing (McNemar: six)."""
    never = np.zeros((600, 10), dtype=bool)
    some = never.copy()
    none = Effect.paired(never, never)
    assert none.low == -none.high
    assert 0.005 < none.high < 0.0085
    assert 0.005 < share_above(never) < 0.0071
    some[:8] = True
    assert Effect.paired(some, never).low > 0.0
    assert Effect.paired(never, some).high < 0.0
    # eight in one halving only are less
    some[:, 1:] = False
    assert Effect.paired(some, never).low < 0.0 < Effect.paired(some, never).value


@pytest.mark.parametrize("hits", [0, 1, 5, 30, 99, 100])
@pytest.mark.parametrize("error", [0.05, 0.001])
def test_the_bound_on_a_mean_beside_the_exact_one(hits: int, error: float) -> None:
    """For zeros and ones no bound that grows with the hits lies above Clopper and Pearson's; ours is not far below."""
    found = mean_below((np.arange(100) < hits) * 1.0, error)
    assert found <= float(rate_below(hits, 100, error))
    assert found >= float(rate_below(hits, 100, error / 100.0))


def test_the_bound_is_where_the_wealth_reaches_its_limit() -> None:
    """The integral over all stakes, by the arcsine law, in place of the sum over some of them."""
    values = np.random.default_rng(6).beta(0.5, 2.0, 60)
    found = mean_below(values, 0.025)

    def wealth(angle: float) -> float:
        stake = np.sin(angle) ** 2
        return float(np.prod(1.0 - stake + stake * values / found))

    assert quad(wealth, 0.0, np.pi / 2)[0] * 2.0 / np.pi == pytest.approx(40.0, rel=1e-6)
    assert 0.0 < found < values.mean()


def test_numbers_keep_the_wider_interval() -> None:
    """Student's t over five records that differ, in four halvings that do not."""
    values = np.repeat(np.arange(5.0)[:, None], 4, axis=1)
    found = Effect.of(values)
    # t of four degrees at 97.5 % is 2.776445, the deviation √2.5
    assert (found.value, found.high) == (2.0, pytest.approx(2.0 + 2.776445 * np.sqrt(2.5 / 5)))
    assert Effect.of(values.T) == found
