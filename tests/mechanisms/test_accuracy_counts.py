"""Correct predictions are counted record by record, move by no more than is charged, and have their noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mechanism_samples import Onlooker, Plain, Raw, Silent
from scipy import stats

from privot.accounting import Gaussian, account
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.accuracy_counts import CorrectCounts, _right
from privot.noise import SystemNoise
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.network_features import NetworkFeatures
from privot.vault import Vault
from weaker_noise import WeakerNoise

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


class Turned(Raw):
    """Scores that are the columns of a record, moved on by `by`."""

    def __init__(self, dim: int, by: int) -> None:
        super().__init__(dim)
        self.by = by

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, self.by, dims=1)


def hits(sigma: float = 2.0, **given: Any) -> CorrectCounts:
    return CorrectCounts(tuple(given.pop("classifiers", [Turned(3, by) for by in range(3)])), sigma, **given)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_counts_are_what_another_implementation_counts(adjacency: Adjacency) -> None:
    dice = np.random.default_rng(0)
    x, y = dice.standard_normal((2500, 3)), dice.integers(0, 3, 2500)
    records, noise = Plain(x, y, adjacency, 3), Silent()
    event = hits().event(records.facts)
    assert isinstance(event, Gaussian)
    # adding, removing and replacing all move a count by one at most
    assert (event.sigma, event.adjacency) == (2.0, adjacency)
    assert event.sensitivity == pytest.approx(math.sqrt(3.0), rel=1e-9)
    assert event.sensitivity > math.sqrt(3.0)
    value, public = hits().run(records, noise, event, 0)
    assert value.tolist() == [float((np.roll(x, by, axis=1).argmax(axis=1) == y).sum()) for by in range(3)]
    assert noise.asked == [((3,), 2.0)]
    assert public == {
        "mechanism": "hits",
        "classifiers": [Turned(3, by).to_dict() for by in range(3)],
        "classes": 3,
        "records": 2500 if adjacency is REPLACE else None,
        "sigma": 2.0,
        "made_from": "",
    }


@settings(max_examples=200)
@given(arrays(np.float64, (5, 3), elements=st.floats(allow_nan=True, allow_infinity=True)), st.integers(0, 2))
def test_one_record_moves_every_count_by_at_most_one(scores: np.ndarray, label: int) -> None:
    labels = torch.tensor([0, 1, 2, 0, label])
    found = _right(torch.from_numpy(scores), labels)
    for row, own, hit in zip(scores, labels.tolist(), found.tolist(), strict=True):
        others = np.delete(row, own)
        assert hit == bool(np.isfinite(row).all() and (others < row[own]).all())
        assert bool(_right(torch.from_numpy(row[None]), torch.tensor([own]))) == hit


def test_a_tie_is_no_hit() -> None:
    assert _right(torch.tensor([[1.0, 1.0, 0.0], [2.0, 1.0, 0.0]]), torch.tensor([0, 0])).tolist() == [False, True]


def test_numbers_after_the_scores_do_not_count() -> None:
    """A network ends with a constant, which is no class."""
    x = np.array([[1.0, 2.0, 9.0]] * 4)
    records = Plain(x, np.ones(4, dtype=int), ADD, 2)
    counted = hits(classifiers=[Raw(3)])
    assert counted.run(records, Silent(), counted.event(records.facts), 0)[0].tolist() == [4.0]


def _spread(noise: Any) -> float:
    counted = hits(classifiers=[Turned(3, by % 3) for by in range(300)])
    records = Plain(np.eye(3), np.array([1, 1, 1]), ADD, 3)
    value, _ = counted.run(records, noise, counted.event(records.facts), 0)
    squares = float(((value - 1.0) ** 2).sum()) / 4.0
    return 2.0 * min(stats.chi2.cdf(squares, 300), stats.chi2.sf(squares, 300))


def test_noise_on_every_count_is_the_stated_one() -> None:
    assert _spread(SystemNoise()) > 1e-6
    assert _spread(WeakerNoise(2 / 3)) < 1e-6


def test_they_are_released_by_a_vault_and_charged_before() -> None:
    x, y = np.random.default_rng(0).uniform(size=(40, 3)), np.arange(40) % 3
    vault = Vault(x, y, classes=3, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    release = vault.release(hits(), purpose="choice")
    wanted = account(Gaussian(2.0 / math.sqrt(3.0), 1.0, ADD), 1e-5).epsilon()
    assert release.guarantee.epsilon() == pytest.approx(wanted, rel=1e-9)


def test_a_record_is_a_hit_whatever_records_stand_beside_it() -> None:
    """With a network, whose sums are exact in float64 and in nothing less."""
    dice = np.random.default_rng(3)
    pairs = [(dice.standard_normal((4, 1, 3, 3)), dice.standard_normal(4))]
    network = NetworkFeatures((8, 8), pairs, dice.standard_normal((64, 3)), dice.standard_normal(3))
    given: list[torch.dtype] = []
    features = network.features
    network.features = lambda x: given.append(x.dtype) or features(x)  # type: ignore[method-assign,func-returns-value]
    counted = hits(classifiers=[network])
    x, y = dice.uniform(size=(1030, 64)), dice.integers(0, 3, 1030)

    def count(rows: slice | list[int]) -> float:
        records = Plain(x[rows], y[rows], ADD, 3)
        return float(counted.run(records, Silent(), counted.event(records.facts), 0)[0][0])

    whole = count(slice(None))
    assert 200.0 < whole < 830.0
    assert set(given) == {torch.float64}
    assert sum(count([i]) for i in range(60)) == count(slice(0, 60))
    assert count([*range(500, 1030), *range(500)]) == whole
    # scores that are written down as equal are equal
    tied = torch.from_numpy(np.repeat(x[:1], 7, axis=0))
    assert torch.equal(features(tied), features(tied[:1]).expand(7, -1))


class Mixed(Raw):
    """Rows that are rounded otherwise alone, or beside large ones."""

    def __init__(self, dim: int, alone: bool) -> None:
        super().__init__(dim)
        self.alone = alone

    def features(self, x: torch.Tensor) -> torch.Tensor:
        other = len(x) == 1 if self.alone else bool((x.abs() > 10.0).any())
        return x * (1.0 + 2.0**-52 * other)


class Logarithm(Raw):
    """Not a number where a record is small, and always the same."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x - 0.5)


def test_a_map_whose_rows_differ_in_the_last_bit_and_an_onlooker_are_refused() -> None:
    facts = Plain(np.zeros((4, 3)), np.zeros(4, dtype=int), ADD, 3).facts
    for alone in (True, False):
        with pytest.raises(UsageError, match="beside it"):
            hits(classifiers=[Mixed(3, alone)]).event(facts)
    hits(classifiers=[Logarithm(3)]).event(facts)
    with Onlooker(), pytest.raises(UsageError):
        hits().event(facts)


def test_what_cannot_be_counted_is_refused_before_paying() -> None:
    facts = Plain(np.zeros((4, 3)), np.zeros(4, dtype=int), ADD, 3).facts
    for bad in ({"classifiers": []}, {"classifiers": [Raw(3), Raw(4)]}, {"sigma": 0.0}, {"sigma": 1e-9}):
        with pytest.raises(UsageError):
            hits(**bad)
    with pytest.raises(UsageError, match="last bit"):
        hits(classifiers=[Fourier(3, 2, [1.0], 0)])
    for classes in (1, 4):
        with pytest.raises(UsageError, match="every class"):
            hits().event(Plain(np.zeros((4, 3)), np.zeros(4, dtype=int), ADD, classes).facts)
    with pytest.raises(UsageError, match="event they made"):
        hits().run(Plain(np.zeros((4, 3)), np.zeros(4, dtype=int), ADD, 3), Silent(), Gaussian(2.0, 1.0, ADD), 0)
    assert hits().event(facts) == hits().event(facts)
