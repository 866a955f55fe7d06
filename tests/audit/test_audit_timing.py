"""Times of releases: a dependence on a record is found, and none is invented; every clock here is a made-up one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privot.accounting.sampling import Poisson
from privot.audit.attacks.dp_sgd_attack import RowGradients
from privot.audit.implementation.timing import MIN_PAIRS, SHARE, compare_times, paired_times, same_time
from privot.audit.implementation.timing_cases import CANARIES, Chosen, audit_times, ordinary_and_canary
from privot.audit.simulation.neighbours import open_stream
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import ClippedGradients
from privot.mechanisms.gradients.gradient_function import Query
from privot.noise import SystemNoise

pytestmark = pytest.mark.slow


class Machine:
    """A clock that work advances, on a machine that is now and then busy with something else."""

    def __init__(self, busy: float = 0.0, seed: int = 0) -> None:
        self.now, self._busy, self._generator = 0.0, busy, np.random.default_rng(seed)

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        # heavy tails, as interruptions have them
        self.now += seconds * (1.0 + self._busy * float(self._generator.pareto(1.1)))


def check(machine: Machine, first: float, second: float, pairs: int = 150) -> Any:
    return same_time("it", lambda: machine.work(first), lambda: machine.work(second), pairs=pairs, clock=machine)


@pytest.mark.gate(2)
@pytest.mark.parametrize("busy", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("slower", [0.6, 1.5])
def test_a_slower_release_is_found_on_a_busy_machine(busy: float, slower: float) -> None:
    assert not check(Machine(busy), 1.0, slower).passed


def test_equal_times_pass_however_busy_the_machine() -> None:
    for busy in (0.0, 0.2, 3.0):
        assert all(check(Machine(busy, seed), 1.0, 1.0, pairs=60).passed for seed in range(60))


def test_differences_below_the_stated_share_are_ignored() -> None:
    assert check(Machine(0.02), 1.0, 1.0 + 0.5 * SHARE).passed
    assert "looking for a dependence of 10% or more" in check(Machine(), 1.0, 1.0).detail
    assert "is not ruled out" in check(Machine(5.0), 1.0, 1.0).detail


def test_the_interval_covers_the_median_at_its_confidence() -> None:
    generator = np.random.default_rng(5)
    missed = 0
    for _ in range(4000):
        found = compare_times(np.ones(40), 1.0 + generator.standard_cauchy(40))
        missed += not found.low <= 0.0 <= found.high
    assert missed <= 14  # 4000 · 0.001, and twice chance's worth


def test_runs_are_interleaved_in_random_order() -> None:
    said: list[int] = []
    paired_times(lambda: said.append(0), lambda: said.append(1), 100)
    pairs = np.array(said).reshape(-1, 2)
    assert (pairs.sum(1) == 1).all()
    assert 20 < pairs[:, 0].sum() < 85
    with pytest.raises(UsageError, match="two arrays of equally many times"):
        compare_times(np.ones(MIN_PAIRS - 1), np.ones(MIN_PAIRS - 1))


class Dawdling(ClippedGradients):
    """Takes longer over a record that lies far out, or over a sample that is not empty."""

    machine: Machine
    what: str

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        value = super().run(records, noise, event, step)
        indices = event.sampling.draw(noise, records.count)
        more = len(indices) > 0 if self.what == "empty" else bool((np.abs(records.rows(indices)) > 1e9).any())
        # far above the tenth that is looked for, since the clock is busy at random
        self.machine.work(1.0 + 0.6 * more)
        return value


@pytest.mark.parametrize("what", ["extreme", "empty", "nothing"])
def test_a_mechanism_slowed_by_a_record_is_found_through_the_vault(what: str) -> None:
    machine = Machine(0.05)
    made = Dawdling(RowGradients(64), Query(np.zeros(64)), 1.0, 1.0, Poisson(0.5), steps=400)
    object.__setattr__(made, "machine", machine)
    object.__setattr__(made, "what", what)
    without, with_ = ordinary_and_canary(CANARIES["extreme"])
    noise = SystemNoise()
    terms: dict[str, Any] = {"clip": 1.0, "adjacency": Adjacency.ADD_REMOVE}
    if what == "empty":
        sides = [(without, False), (without, True)]
    else:
        sides = [(without, True), (with_ if what == "extreme" else without, True)]
    one, two = (open_stream(w, made, 400, noise=Chosen(noise, full), **terms) for w, full in sides)  # type: ignore[arg-type]
    found = same_time(what, lambda: next(one), lambda: next(two), pairs=60, clock=machine)
    assert found.passed is (what == "nothing")


def test_an_empty_sample_of_dp_sgd_computes_as_many_gradients_as_another() -> None:
    """What made it 19 % quicker, and was found so: no gradient was taken at all."""

    class Counted(RowGradients):
        calls = 0

        def each(self, weights: Any, rows: Any, labels: Any) -> Any:
            Counted.calls += 1
            return super().each(weights, rows, labels)

    made = ClippedGradients(Counted(64), Query(np.zeros(64)), 1.0, 1.0, Poisson(0.5), steps=3)
    for full in (False, True):
        noise: Any = Chosen(SystemNoise(), full)
        stream = open_stream(
            ordinary_and_canary(0.0)[0], made, 3, clip=1.0, adjacency=Adjacency.ADD_REMOVE, noise=noise
        )
        # whatever was asked on public rows before
        Counted.calls = 0
        assert len(list(stream)) == 3
        assert Counted.calls == 3


def test_every_mechanism_is_timed_with_every_canary() -> None:
    pytest.importorskip("torch")
    ticks = iter(range(1_000_000))
    found = audit_times(SystemNoise(), pairs=MIN_PAIRS, clock=lambda: float(next(ticks)))
    names = [c.name for c in found]
    assert len(names) == len(set(names)) == 5 * len(CANARIES) + 4 + 2
    assert all(c.passed for c in found)
