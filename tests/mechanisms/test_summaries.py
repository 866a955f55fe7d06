"""Counts, means, histograms and quantiles: what they answer, what they cost, and how wide their noise is."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from mechanism_samples import Plain, Silent
from scipy import stats

from privot import Count, Histogram, Mean, Quantiles, Vault
from privot.accounting import Gaussian
from privot.errors import BudgetError, UsageError
from privot.guarantee import Adjacency
from privot.kinds import Vectors
from privot.mechanisms import Facts
from privot.mechanisms.summaries.summary import Summary
from privot.noise import SystemNoise
from privot.tables import Column, Schema, Table, TableCodec
from privot.tables.encoded_columns import encoded_columns
from weaker_noise import WeakerNoise

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
BOTH = pytest.mark.parametrize("adjacency", [A, R])
COST = {"epsilon": 1.0, "delta": 1e-6}

SCHEMA = Schema(
    (
        Column("age", "integer", 0, 10, missing=True),
        Column("income", "continuous", 0, 1000, scale="log"),
        Column("born", "date", "2000-01-01", "2000-12-31"),
        Column("sex", "categorical", categories=("f", "m"), missing=True),
        Column("ill", "boolean", categories=("no", "yes")),
    ),
    "ill",
)


class Encoded(Plain):
    """Rows of SCHEMA, encoded as a vault holds them."""

    def __init__(self, table: dict[str, list[Any]], adjacency: Adjacency) -> None:
        x, y = TableCodec(SCHEMA).encode(Table({n: np.array(v, dtype=object) for n, v in table.items()}), compact=True)
        super().__init__(x, y, adjacency, classes=2)
        f = self.facts
        self.facts = Facts(f.dim, f.records, f.clip, f.adjacency, f.classes, encoded_columns(SCHEMA))


def run(mechanism: Any, records: Plain, noise: Any = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    value, public = mechanism.run(records, noise or Silent(), mechanism.event(records.facts), 0)
    return value, dict(public)


def column(*values: float, adjacency: Adjacency = A) -> Plain:
    return Plain(np.array(values, dtype=np.float64).reshape(len(values), 1), adjacency=adjacency)


@pytest.fixture
def covered(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Every count that noise is added to, divided by the deviation of that noise."""
    seen: list[np.ndarray] = []

    def add(counts: np.ndarray, noise: Any, sigma: float) -> np.ndarray:
        seen.append(np.asarray(counts, dtype=np.float64).ravel() / sigma)
        return np.asarray(counts, dtype=np.float64)

    for home in ("summaries.mean", "summaries.count", "table_counts.marginals"):
        monkeypatch.setattr(f"privot.mechanisms.{home}.add_noise_to_counts", add)
    return seen


ARRAY_MECHANISMS = {
    "count": Count(0, between=(0.25, 0.75), **COST),
    "mean": Mean(0, range=(0.0, 1.0), **COST),
    "histogram": Histogram(0, bins=3, range=(0.0, 1.0), **COST),
    "edges": Histogram(0, bins=(0.0, 0.1, 1.0), **COST),
    "quantiles": Quantiles(0, (0.1, 0.5), range=(0.0, 1.0), cells=5, **COST),
}
VALUES = (-5.0, 0.0, 0.3, 0.5, 1.0, 7.0)


Held = tuple[Any, ...]


def neighbours(sizes: range, values: Held, adjacency: Adjacency) -> Iterator[tuple[Held, Held]]:
    """Every pair of neighbouring data sets of these sizes."""
    for size in sizes:
        for held in itertools.combinations_with_replacement(values, size):
            if adjacency is A:
                yield from ((held, held[:k] + held[k + 1 :]) for k in range(size) if size > 1)
            else:
                others = ((*held[:k], other, *held[k + 1 :]) for k in range(size) for other in values)
                yield from ((held, tuple(sorted(other, key=values.index))) for other in others)


@BOTH
@pytest.mark.parametrize("name", ARRAY_MECHANISMS)
def test_no_neighbours_are_further_apart_than_is_counted_and_some_are_as_far(
    name: str, adjacency: Adjacency, covered: list[np.ndarray]
) -> None:
    mechanism = ARRAY_MECHANISMS[name]

    @cache
    def seen(held: tuple[float, ...]) -> np.ndarray:
        covered.clear()
        run(mechanism, column(*held, adjacency=adjacency))
        return np.concatenate(covered)

    pairs = neighbours(range(2, 4), VALUES, adjacency)
    furthest = max(np.linalg.norm(seen(a) - seen(b)) for a, b in pairs)
    event = mechanism.event(column(0.0, 1.0, adjacency=adjacency).facts)
    assert isinstance(event, Gaussian)
    # dividing counts by σ rounds in the last bit
    assert furthest <= event.sensitivity / event.sigma * (1 + 1e-14)
    assert furthest == pytest.approx(event.sensitivity / event.sigma, rel=1e-9)


TABLE_MECHANISMS = {
    "mean": Mean("age", **COST),
    "quantiles": Quantiles("age", (0.5,), **COST),
    "histogram": Histogram("age", bins=5, **COST),
    "categories": Histogram("sex", **COST),
    "count": Count("sex", category="f", **COST),
    "label": Count("ill", category="yes", **COST),
}
ROWS = [
    (None, 0.0, "2000-01-01", None, "no"),
    (0, 5.0, "2000-06-01", "f", "yes"),
    (10, 1000.0, "2000-12-31", "m", "no"),
]


@BOTH
@pytest.mark.parametrize("name", TABLE_MECHANISMS)
def test_missing_values_and_categories_stay_within_what_is_counted(
    name: str, adjacency: Adjacency, covered: list[np.ndarray]
) -> None:
    mechanism = TABLE_MECHANISMS[name]

    @cache
    def seen(held: tuple[int, ...]) -> np.ndarray:
        covered.clear()
        rows = [ROWS[k] for k in held]
        run(mechanism, Encoded({n: [row[i] for row in rows] for i, n in enumerate(SCHEMA.names)}, adjacency))
        return np.concatenate(covered)

    pairs = list(neighbours(range(2, 4), (0, 1, 2), adjacency))
    furthest = max(np.linalg.norm(seen(a) - seen(b)) for a, b in pairs)
    facts = Encoded({n: [row[i] for row in ROWS] for i, n in enumerate(SCHEMA.names)}, adjacency).facts
    event = mechanism.event(facts)
    assert furthest == pytest.approx(event.sensitivity / event.sigma, rel=1e-9)
    assert furthest <= event.sensitivity / event.sigma * (1 + 1e-14)


def gaussian_delta(epsilon: float, shift: float) -> float:
    """δ of the Gaussian mechanism at Δ/σ = shift, by Balle & Wang 2018; SciPy's own normal law."""
    return float(
        stats.norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * stats.norm.cdf(-shift / 2 - epsilon / shift)
    )


@BOTH
@pytest.mark.parametrize("name", ARRAY_MECHANISMS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (8.0, 1e-9)])
def test_noise_is_what_the_closed_form_asks_for(name: str, adjacency: Adjacency, epsilon: float, delta: float) -> None:
    mechanism = dataclasses.replace(ARRAY_MECHANISMS[name], epsilon=epsilon, delta=delta)
    event = mechanism.event(column(0.0, 1.0, adjacency=adjacency).facts)
    assert gaussian_delta(epsilon, event.sensitivity / event.sigma) <= delta * (1 + 1e-6)
    assert gaussian_delta(epsilon, 1.001 * event.sensitivity / event.sigma) > delta
    levels = 3 if name == "quantiles" and adjacency is R else 4
    stated = {
        "count": (1.0, 1.0),
        "mean": (math.sqrt(2), 2.0),
        "histogram": (1.0, math.sqrt(2)),
        "edges": (1.0, math.sqrt(2)),
        "quantiles": (math.sqrt(levels), math.sqrt(2 * levels)),
    }[name]
    assert event.sensitivity == pytest.approx(stated[adjacency is R], rel=1e-9)


def test_without_noise_the_answers_are_exact() -> None:
    values = np.random.default_rng(1).random(500)
    for adjacency in (A, R):
        held = column(*values, adjacency=adjacency)
        assert run(Mean(0, range=(0, 1), **COST), held)[0]["estimate"] == pytest.approx(values.mean(), abs=1e-7)
        inside = ((values >= 0.2) & (values <= 0.4)).sum()
        assert run(Count(0, between=(0.2, 0.4), **COST), held)[0]["estimate"] == inside
        found, public = run(Histogram(0, bins=7, range=(0, 1), **COST), held)
        np.testing.assert_array_equal(found["estimate"], np.histogram(values, 7, (0, 1))[0])
        assert public["edges"] == pytest.approx(np.linspace(0, 1, 8))
        wanted = (0.05, 0.25, 0.5, 0.9)
        found, _ = run(Quantiles(0, wanted, range=(0, 1), cells=333, **COST), held)
        exact = np.quantile(values, wanted, method="inverted_cdf")
        assert (np.abs(found["estimate"] - exact) <= 0.5 / 333 + 1e-12).all()
    assert run(Count(**COST), column(*values))[0]["estimate"] == 500


def test_columns_of_a_table_answer_in_their_own_unit() -> None:
    rng = np.random.default_rng(2)
    ages = [None if rng.random() < 0.2 else int(a) for a in rng.integers(0, 11, 300)]
    incomes = np.exp(rng.uniform(0, 6, 300))
    days = rng.integers(0, 366, 300)
    table = {
        "age": ages,
        "income": list(incomes),
        "born": [str(np.datetime64("2000-01-01") + int(d)) for d in days],
        "sex": [[None, "f", "m"][k] for k in rng.integers(0, 3, 300)],
        "ill": [["no", "yes"][k] for k in rng.integers(0, 2, 300)],
    }
    here = np.array([a for a in ages if a is not None], dtype=float)
    for adjacency in (A, R):
        held = Encoded(table, adjacency)
        value, _ = run(Mean("age", **COST), held)
        # of a value that may be missing the number is private under both adjacencies
        assert value["estimate"] == pytest.approx(here.mean(), abs=1e-6)
        assert value["count"] == len(here)
        value, _ = run(Mean("income", **COST), held)
        assert value["estimate"] == pytest.approx(incomes.mean(), rel=1e-6)
        assert ("count" in value) == (adjacency is A)
        value, _ = run(Quantiles("age", (0.3, 0.5), **COST), held)
        assert value["estimate"].tolist() == np.quantile(here, (0.3, 0.5), method="inverted_cdf").tolist()
        value, _ = run(Quantiles("income", (0.5,), **COST), held)
        assert value["estimate"] == pytest.approx(np.quantile(incomes, 0.5, method="inverted_cdf"), rel=0.02)
        first = (np.datetime64("2000-01-01") - np.datetime64("1970-01-01")).astype(int)
        value, _ = run(Quantiles("born", (0.5,), **COST), held)
        assert value["estimate"] == first + np.quantile(days, 0.5, method="inverted_cdf")
        value, public = run(Histogram("age", bins=(0, 3, 10), **COST), held)
        assert value["estimate"].tolist() == [(here < 3).sum(), (here >= 3).sum(), 300 - len(here)]
        assert public["missing"] is True
        value, public = run(Histogram("sex", **COST), held)
        assert public["categories"] == ["f", "m", "(missing)"]
        assert value["estimate"].tolist() == [table["sex"].count(c) for c in ("f", "m", None)]
        value, _ = run(Histogram("ill", **COST), held)
        assert value["estimate"].tolist() == [table["ill"].count(c) for c in ("no", "yes")]
        assert run(Count("sex", category="m", **COST), held)[0]["estimate"] == table["sex"].count("m")
        assert run(Count("age", between=(2, 4), **COST), held)[0]["estimate"] == ((here >= 2) & (here <= 4)).sum()


def deviations(mechanism: Any, held: Plain, noise: Any, exact: Any, scale: float, runs: int) -> np.ndarray:
    event = mechanism.event(held.facts)
    found = [mechanism.run(held, noise, event, 0)[0]["estimate"] for _ in range(runs)]
    return np.ravel((np.array(found) - exact) / (event.sigma * scale))


@pytest.mark.statistical
@BOTH
def test_noise_has_the_deviation_that_is_counted_and_not_two_thirds_of_it(adjacency: Adjacency) -> None:
    held = column(*np.full(1000, 0.5), adjacency=adjacency)
    cases = [
        (Count(0, between=(0, 1), **COST), 1000.0, 1.0, 1000),
        (Histogram(0, bins=40, range=(0, 1), **COST), np.eye(40)[20] * 1000, 1.0, 25),
    ]
    if adjacency is R:
        cases.append((Mean(0, range=(0, 1), **COST), 0.5, 0.5 / 1000, 1000))
    for mechanism, exact, scale, runs in cases:
        # 1,000 draws: the deviation is within 11 % with probability 1 − 1e-6, and ⅔σ is three times as far off
        right = deviations(mechanism, held, SystemNoise(), exact, scale, runs)
        assert right.std() == pytest.approx(1.0, abs=0.11), type(mechanism)
        assert abs(right.mean()) < 5.0 / math.sqrt(right.size)
        weak = deviations(mechanism, held, WeakerNoise(2 / 3), exact, scale, runs)
        assert abs(weak.std() - 1.0) > 0.11


@pytest.mark.gate(1)
@pytest.mark.statistical
@BOTH
def test_intervals_cover_what_they_say(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    values = np.round(rng.beta(2, 5, 3000), 3)
    held = column(*values, adjacency=adjacency)
    wanted = (0.1, 0.5, 0.8)
    exact_q = np.quantile(values, wanted, method="inverted_cdf")
    cases: list[tuple[Any, Any, bool]] = [
        (Mean(0, range=(0, 1), level=0.8, **COST), values.mean(), True),
        (Count(0, between=(0.1, 0.3), level=0.8, **COST), ((values >= 0.1) & (values <= 0.3)).sum(), True),
        (Histogram(0, bins=3, range=(0, 1), level=0.8, **COST), np.histogram(values, 3, (0, 1))[0], False),
        (Quantiles(0, wanted, range=(0, 1), cells=128, level=0.8, **COST), exact_q, False),
    ]
    for mechanism, exact, tight in cases:
        event = mechanism.event(held.facts)
        found = [mechanism.run(held, SystemNoise(), event, 0)[0] for _ in range(400)]
        inside = np.mean([(f["low"] <= exact) & (exact <= f["high"]) for f in found], axis=0)
        # 400 draws: within 0.1 of 0.8 with probability 1 − 1e-6; ⅔σ would cover 0.95
        assert (inside >= 0.7).all(), (type(mechanism), inside)
        if tight:
            assert inside <= 0.9, (type(mechanism), inside)
        # an interval that is too narrow is found out
        with monkeypatch.context() as patch:
            patch.setattr(Summary, "reach", 0.1)
            narrow = [mechanism.run(held, SystemNoise(), event, 0)[0] for _ in range(100)]
        missed = np.mean([(f["low"] <= exact) & (exact <= f["high"]) for f in narrow], axis=0)
        assert (missed < 0.7).any(), (type(mechanism), missed)


@pytest.mark.statistical
def test_the_interval_of_a_mean_holds_with_hardly_any_records() -> None:
    held = column(0.9, 0.8, 0.95)
    mechanism = Mean(0, range=(0, 1), level=0.8, **COST)
    event = mechanism.event(held.facts)
    found = [mechanism.run(held, SystemNoise(), event, 0)[0] for _ in range(400)]
    assert np.mean([f["low"] <= 0.8833 <= f["high"] for f in found]) >= 0.7
    assert all(0 <= f["low"] <= f["estimate"] <= f["high"] <= 1 for f in found)


def test_nothing_is_answered_beyond_the_range_and_no_record_can_spoil_it() -> None:
    for adjacency in (A, R):
        held = column(1e300, -1e300, 1e-320, 5e9, adjacency=adjacency)
        for mechanism in ARRAY_MECHANISMS.values():
            value, _ = run(mechanism, held, SystemNoise())
            assert all(np.isfinite(part).all() for part in value.values())
        for mechanism in (ARRAY_MECHANISMS["mean"], ARRAY_MECHANISMS["quantiles"]):
            value, _ = run(mechanism, held, SystemNoise())
            assert all(((part >= 0) & (part <= 1)).all() for name, part in value.items() if name != "count")


def test_sums_do_not_depend_on_the_order_or_the_number_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).normal(0.5, 1.0, 999)
    whole = run(Mean(0, range=(0, 1), **COST), column(*values))[0]["estimate"]
    monkeypatch.setattr("privot.common.block_sums.BLOCK", 77)
    assert run(Mean(0, range=(0, 1), **COST), column(*values[::-1]))[0]["estimate"] == whole


def test_the_vault_charges_what_the_guarantee_says_and_refuses_what_does_not_fit() -> None:
    stated = {"clip": 1.0, "adjacency": "add-remove", "kind": Vectors(columns=("a", "b"))}
    vault = Vault(np.arange(50.0).reshape(25, 2), budget=(1.2, 1e-6), **stated)
    release = vault.release(Mean("b", range=(0, 50), **COST), purpose="mean of b")
    assert 0.999 <= release.guarantee.epsilon() <= 1.0
    assert str(release.guarantee.standing) == "proven"
    assert release.public["column"] == "b"
    with pytest.raises(BudgetError):
        vault.release(Mean("b", range=(0, 50), **COST), purpose="again")


@pytest.mark.parametrize(
    ("mechanism", "adjacency", "sentence"),
    [
        (Count(**COST), R, "is public under replace-one"),
        (Mean("age", **COST), A, "have no names"),
        (Mean(1, range=(0, 1), **COST), A, "numbered from 0 to 0"),
        (Mean(0, **COST), A, "has to be stated"),
        (Count(0, category="f", **COST), A, "are numbers"),
        (Quantiles(0, range=(1.0, 1.0 + 1e-14), **COST), A, "finer than numbers"),
        (Mean(0, range=(0, 1), epsilon=1e-7, delta=1e-9), A, "too large"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_anything_is_paid(
    mechanism: Any, adjacency: Any, sentence: str
) -> None:
    vault = Vault(np.ones((5, 1)), clip=1.0, adjacency=adjacency, budget=(10.0, 1e-5))
    with pytest.raises(UsageError, match=sentence):
        vault.release(mechanism, purpose="refused")
    vault.release(Count(0, between=(0, 2), **COST), purpose="nothing was paid")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Mean(0, range=(1, 0), **COST),
        lambda: Mean(0, range=(0, math.inf), **COST),
        lambda: Mean(0, range=0.5, **COST),
        lambda: Mean(0, epsilon=0.0, delta=1e-6),
        lambda: Mean(0, epsilon=1.0, delta=0.0),
        lambda: Count(0, **COST),
        lambda: Count(between=(0, 1), **COST),
        lambda: Count(0, between=(0, 1), category="f", **COST),
        lambda: Histogram(0, bins=0, **COST),
        lambda: Histogram(0, bins=(0, 2, 1), **COST),
        lambda: Histogram(0, bins=(0, 1), range=(0, 1), **COST),
        lambda: Quantiles(0, (0.0,), **COST),
        lambda: Quantiles(0, (), **COST),
        lambda: Quantiles(0, cells=1, **COST),
        lambda: Mean(0, level=1.0, **COST),
    ],
)
def test_arguments_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


def test_a_column_of_a_table_refuses_what_its_schema_does_not_state() -> None:
    facts = Encoded({n: [row[i] for row in ROWS] for i, n in enumerate(SCHEMA.names)}, A).facts
    for mechanism, sentence in [
        (Mean("sex", **COST), "are categories"),
        (Mean("nowhere", **COST), "There is no column"),
        (Mean("age", range=(0, 99), **COST), "within the stated"),
        (Histogram("sex", bins=3, **COST), "leave bins and range out"),
        (Histogram("age", bins=(-4, 3), **COST), "within the stated range"),
        (Count("sex", category="x", **COST), "has no category"),
        (Count("sex", between=(0, 1), **COST), "are categories"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            mechanism.event(facts)
    Mean("age", range=(2, 8), **COST).event(facts)
