"""The samplers are uniform: exactly, over every keystream of a small kind, and by χ² on real draws."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import chdtrc

from privot.noise import SystemNoise
from privot.noise.record_sampling import Bits, _first_distinct, _smallest_keys, below, poisson, without_replacement

FALSE_ALARM = 1e-7
Draw = Callable[[Bits, int, int], NDArray[np.int64]]


class DrawAgainError(Exception):
    """The sampler asked for more words than the small keystream has."""


def scripted(*answers: tuple[int, ...]) -> Bits:
    """A source of bits that gives these answers, then stops."""
    script = iter(answers)

    def bits(count: int) -> NDArray[np.uint64]:
        answer = next(script, None)
        if answer is None:
            raise DrawAgainError
        assert len(answer) == count
        return np.array(answer, dtype=np.uint64)

    return bits


@pytest.mark.parametrize(
    ("draw", "records", "batch", "words", "values"),
    [
        (_smallest_keys, 4, 2, 4, 4),
        (_smallest_keys, 4, 3, 4, 5),
        (_smallest_keys, 4, 4, 4, 5),
        (_first_distinct, 3, 2, 4, 3),
        (_first_distinct, 4, 3, 5, 4),
    ],
)
def test_every_ordered_tuple_is_exactly_as_likely(
    draw: Draw, records: int, batch: int, words: int, values: int
) -> None:
    counts: Counter[tuple[int, ...]] = Counter()
    for keystream in itertools.product(range(values), repeat=words):
        try:
            counts[tuple(draw(scripted(keystream), records, batch).tolist())] += 1
        except DrawAgainError:
            continue  # undecided: what follows is drawn from new words
    assert set(counts) == set(itertools.permutations(range(records), batch))
    assert len(set(counts.values())) == 1


def test_first_distinct_goes_on_where_it_stopped() -> None:
    bits = scripted((2, 2, 2, 2), (2, 2), (0, 1))
    assert _first_distinct(bits, 3, 2).tolist() == [2, 0]


@pytest.mark.gate(2)
@pytest.mark.statistical
@pytest.mark.parametrize(("records", "batch"), [(5, 2), (5, 1), (4, 3), (4, 4), (1, 1)])
def test_real_draws_are_uniform_over_ordered_tuples(records: int, batch: int) -> None:
    noise, repeats = SystemNoise(), 6000
    outcomes = list(itertools.permutations(range(records), batch))
    counts = Counter(tuple(noise.sample_without_replacement(records, batch).tolist()) for _ in range(repeats))
    assert set(counts) <= set(outcomes)
    expected = repeats / len(outcomes)
    chi_square = sum((counts[outcome] - expected) ** 2 / expected for outcome in outcomes)
    assert len(outcomes) == 1 or chdtrc(len(outcomes) - 1, chi_square) > FALSE_ALARM


@pytest.mark.parametrize(("records", "batch"), [(1000, 100), (1000, 700)])
def test_membership_and_order_in_larger_batches(records: int, batch: int) -> None:
    noise, repeats = SystemNoise(), 1500
    members, first = np.zeros(records), np.zeros(records // 100)
    descents = 0
    for _ in range(repeats):
        indices = noise.sample_without_replacement(records, batch)
        assert indices.dtype == np.int64
        members[indices] += 1
        first[indices[0] // 100] += 1
        descents += int(np.count_nonzero(indices[1:] < indices[:-1]))
    assert members.sum() == repeats * batch
    share = batch / records
    # Σ (count − mean)²/(n·p·(1 − p)) is near records/(records − 1) times a χ² of records − 1 degrees
    spread = float(np.sum((members - repeats * share) ** 2)) / (repeats * share * (1 - share))
    assert chdtrc(records - 1, spread * (records - 1) / records) > FALSE_ALARM
    assert chdtrc(records - 1, spread * (records - 1) / records) < 1 - FALSE_ALARM
    assert chdtrc(first.size - 1, float(np.sum((first - 0.1 * repeats) ** 2)) / (0.1 * repeats)) > FALSE_ALARM
    # descents of a uniform permutation of b: mean (b − 1)/2, variance (b + 1)/12
    deviation = descents - repeats * (batch - 1) / 2
    assert abs(deviation) < 5.4 * np.sqrt(repeats * (batch + 1) / 12)


@settings(max_examples=60, deadline=None)
@given(records=st.integers(1, 300), data=st.data())
def test_indices_are_distinct_and_in_range(records: int, data: st.DataObject) -> None:
    batch = data.draw(st.integers(1, records))
    indices = without_replacement(SystemNoise().uniform_bits, records, batch)
    assert indices.shape == (batch,)
    assert len(set(indices.tolist())) == batch
    assert indices.min() >= 0
    assert indices.max() < records


def test_a_batch_from_a_billion_records_costs_only_the_batch() -> None:
    assert len(set(SystemNoise().sample_without_replacement(10**9, 1000).tolist())) == 1000


def test_below_draws_the_biased_words_again() -> None:
    top = 2**64 - 1  # 2⁶⁴ − 1 is divisible by 3, so only this word would favour 0
    assert below(scripted((top, 4), (top,), (5,)), 3, 2).tolist() == [2, 1]
    assert below(scripted((top, 4)), 2**63, 2).tolist() == [2**63 - 1, 4]
    counts = np.bincount(SystemNoise().integers(7, 70_000), minlength=7)
    assert counts.size == 7
    assert chdtrc(6, float(np.sum((counts - 10_000) ** 2)) / 10_000) > FALSE_ALARM


def heads(*values: int) -> int:
    """The word whose bytes, as they lie in memory, begin with these."""
    return int(np.array([*values, *[255] * (8 - len(values))], dtype=np.uint8).view(np.uint64)[0])


def test_poisson_compares_with_the_rate_and_rounds_it_down() -> None:
    """First bytes below the rate's are in, above it out; those that equal it are decided by 56 more bits."""
    word = heads(63, 64, 65, 255)
    assert poisson(scripted((word,), (0,)), 4, 0.25).tolist() == [0]
    # 64/256 + 1024/2⁶⁴
    rate = 0.25 + 2.0**-54
    words = (1023 << 8 | 255, 1024 << 8)
    assert poisson(scripted((heads(64, 64, 63),), words), 3, rate).tolist() == [0, 2]
    assert poisson(scripted((heads(64, 64, 63),), words[::-1]), 3, rate).tolist() == [1, 2]
    assert poisson(scripted((heads(0, 255),), (0,)), 2, 2.0**-70).tolist() == []
    assert poisson(scripted((heads(255, 255),), (2**64 - 1, 0)), 2, 1.0 - 2.0**-53).tolist() == [1]
    assert poisson(scripted(), 3, 1.0).tolist() == [0, 1, 2]
    assert poisson(scripted(), 0, 0.5).tolist() == []


@pytest.mark.parametrize("records", [1, 7, 8, 9, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 21) + 13])
def test_poisson_uses_every_word_once_and_asks_for_no_more(records: int) -> None:
    """A byte a record, and a word a record whose byte decides nothing; against the comparison of whole words."""
    random, log, rate = np.random.default_rng(records), [], 0.37
    first, rest = divmod(int(Fraction(rate) * 2**64), 2**56)

    def bits(count: int) -> NDArray[np.uint64]:
        log.append(random.integers(0, 2**64, size=count, dtype=np.uint64))
        return log[-1].copy()

    found, script, wanted = poisson(bits, records, rate), iter(log), []
    for start in range(0, records, 1 << 20):
        count = min(1 << 20, records - start)
        words = next(script)
        assert len(words) == -(-count // 8)
        whole = words.view(np.uint8)[:count].astype(np.float64)
        ties = np.flatnonzero(whole == first)
        more = next(script)
        assert len(more) == len(ties)
        whole[ties] += (more >> np.uint64(8)).astype(np.float64) / 2.0**56
        wanted.append(start + np.flatnonzero(whole < first + rest / 2.0**56))
    assert next(script, None) is None
    np.testing.assert_array_equal(found, np.concatenate(wanted))


@pytest.mark.parametrize("rate", [0.003, 1 / 256, 0.3, 0.97])
def test_poisson_takes_each_record_at_its_rate(rate: float) -> None:
    records = (1 << 20) + 12_345
    indices = SystemNoise().poisson_sample(records, rate)
    assert np.all(np.diff(indices) > 0)
    assert abs(indices.size - records * rate) < 5.4 * np.sqrt(records * rate * (1 - rate))
    # neighbouring pairs: records·rate² of them if records are taken independently, with at most this variance
    pairs = np.count_nonzero(np.diff(indices) == 1)
    assert abs(pairs - records * rate**2) < 5.4 * np.sqrt(records * rate**2 * (1 + 2 * rate))
    assert indices[-1] > 1 << 20


def test_bits_are_balanced_in_every_position() -> None:
    words = SystemNoise().uniform_bits(300_000)
    ones = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0, dtype=np.int64)
    assert np.max(np.abs(ones - 150_000)) < 6.2 * np.sqrt(300_000 / 4)
    assert np.unique(words).size == words.size
