"""A federation of vaults is used like one vault: the same outcome without noise, its law with it, a charge for each."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_samples import SCHEMA, arrow_table, exact, people, same, silent
from scipy import stats

from privot import Ledger, Schema, Synthesizer, Vault
from privot.common.privacy_unit import Unit
from privot.errors import BudgetError, PrivotError, UnprovenError, UsageError
from privot.federation import Federation
from privot.federation.simulated_federation import ONE_PROCESS
from privot.kinds import Vectors
from privot.mechanisms import Count, Histogram, MeanEmbedding, RandomProjection
from privot.mechanisms.sketching.private_sketch import PrivateSketch, noise_deviation
from privot.mechanisms.sketching.sketch_design import SketchDesign
from privot.noise import SystemNoise
from privot.noise.adding import grid_of
from privot.synthesis import Embedding, Rules
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.hadamard import HadamardFourier
from privot.synthesis.tabular.related.related_design import related_mechanism
from privot.tables import Column, RelatedCodec

Records = list[dict[str, Any]]


def vault_of(records: Records, schema: Schema = SCHEMA, **more: Any) -> Vault:
    stated = {"budget": (1e6, 1e-5), "noise": silent(), **more}
    return Vault.open(arrow_table(records), schema, adjacency="add-remove", **stated)


def evenly(records: Records) -> list[Records]:
    return [records[place::3] for place in range(3)]


def by_label(records: Records) -> list[Records]:
    """One party has no record with the label of the others, and one has a single record."""
    ill = [record for record in records if record["ill"] == "yes"]
    return [ill, [record for record in records if record["ill"] == "no"][1:], records[:1]]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [evenly, by_label])
def test_a_synthesizer_makes_of_a_federation_what_it_makes_of_one_vault(
    spread: Callable[[Records], list[Records]],
) -> None:
    parts = spread(people(300))

    def fitted(source: Any) -> Synthesizer:
        return Synthesizer(1.0, 1e-6, seed=3, allow_unproven=True).fit(source)

    one = fitted(vault_of([record for part in parts for record in part]))
    many = fitted(Federation([vault_of(part) for part in parts]))
    assert same(dict(one.release_.value), dict(many.release_.value))
    assert "scores" in one.release_.value
    assert one.sample(200, seed=1).equals(many.sample(200, seed=1))
    assert many.guarantee_.events == one.guarantee_.events


@pytest.mark.parametrize("parties", [3, 4])
def test_related_tables_of_many_parties_are_those_of_one_vault(tmp_path: Path, parties: int) -> None:
    sick = Column("sick", "boolean", categories=("no", "yes"))
    codec = RelatedCodec({"patients": Schema((sick,)), "visits": Schema((sick,))}, key="patient", per_parent=2)
    dice = np.random.default_rng(5)
    patients = [(f"p{place}", dice.random() < 0.4, dice.integers(0, 3)) for place in range(40)]

    def opened(rows: list[tuple[str, Any, Any]], name: str) -> Vault:
        files = {table: tmp_path / f"{name}-{table}.csv" for table in codec.names}
        with files["patients"].open("w", newline="") as out:
            csv.writer(out).writerows([("patient", "sick"), *((key, "yes" if ill else "no") for key, ill, _ in rows)])
        with files["visits"].open("w", newline="") as out:
            visits = [(key, "yes" if ill and visit else "no") for key, ill, many in rows for visit in range(many)]
            csv.writer(out).writerows([("patient", "sick"), *visits])
        return Vault.open(files, codec, adjacency="add-remove", budget=(1e6, 1e-6), noise=silent())

    whole = opened(patients, "all")
    mechanism = related_mechanism(codec, whole.facts, epsilon=3.0, delta=1e-6)
    # siblings are counted by ranks that follow from what was released before them
    assert mechanism.siblings
    federation = Federation([opened(patients[place::parties], str(place)) for place in range(parties)])
    made = federation.release(mechanism, purpose="related", allow_unproven=True)
    assert same(exact(whole, mechanism), dict(made.value))


def test_rows_of_a_unit_are_bounded_at_each_party() -> None:
    rows, owners = np.random.default_rng(2).uniform(0, 100, (90, 1)), [str(place % 15) for place in range(90)]

    def owned(part: slice) -> Vault:
        how: dict[str, Any] = {"units": owners[part], "unit": Unit("person", 2)}
        return Vault(rows[part], clip=1.0, adjacency="add-remove", budget=(1e6, 1e-6), noise=silent(), **how)

    parts = [slice(0, 20), slice(20, 60), slice(60, 90)]
    mechanism = Count(epsilon=1.0, delta=1e-6)
    made = Federation([owned(part) for part in parts]).release(mechanism, purpose="units", allow_unproven=True)
    assert [exact(owned(part), mechanism)["estimate"] for part in parts] == [20.0, 30.0, 30.0]
    assert made.value["estimate"] == 80.0
    assert str(made.guarantee.unit) == "one person, at most 2 rows"


def cut(rows: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Three parties: one of a single record, one that lacks a class."""
    order = np.argsort(labels, kind="stable")
    return [(rows[own], labels[own]) for own in (order[:1], order[1 : len(order) // 2], order[len(order) // 2 :])]


def of_vectors(rows: np.ndarray, labels: np.ndarray, noise: Any) -> Vault:
    return Vault(rows, labels, classes=2, clip=2.0, adjacency="add-remove", budget=(1e6, 1e-6), noise=noise)


FEATURES = {"floats": Fourier(3, 20, (0.5, 2.0), seed=1), "phases": HadamardFourier(3, 20, (0.5, 2.0), seed=1)}


@pytest.mark.parametrize(
    "mechanism",
    [
        *(MeanEmbedding(features, 3.0, labels=True) for features in FEATURES.values()),
        MeanEmbedding(FEATURES["floats"], 300.0, common=FEATURES["phases"], common_share=0.3),
        PrivateSketch(SketchDesign.plain(3, radius=1.0), 5.0),
    ],
    ids=["floats", "phases", "common", "sketch"],
)
def test_sums_of_floats_are_those_of_one_vault_but_for_steps_of_the_grid(mechanism: Any) -> None:
    rows, labels = np.random.default_rng(4).uniform(size=(200, 3)), np.arange(200) % 2
    one = exact(of_vectors(rows, labels, silent()), mechanism)
    federation = Federation([of_vectors(*part, silent()) for part in cut(rows, labels)])
    made = federation.release(mechanism, purpose="floats", allow_unproven=True)
    many: Any = made.value
    assert one.keys() == many.keys()
    # half a step per party and for the one vault, in the unit of what is released: σ of a number says its weight
    step = grid_of(mechanism.sigma) / mechanism.sigma
    if isinstance(mechanism, MeanEmbedding):
        sigmas = {name: float(made.public[f"{name}_sigma"]) for name in one}
    else:
        sigmas = {name: noise_deviation(made.public, name) for name in one}
    for name, sigma in sigmas.items():
        apart = float(np.abs(one[name] - many[name]).max())
        assert apart <= 2.0 * step * sigma * (1.0 + 1e-6)
        assert float(np.abs(one[name]).max()) > 1.0


@pytest.mark.statistical
def test_the_noise_of_an_embedding_of_many_parties_has_the_law_that_is_stated() -> None:
    rows, labels = np.random.default_rng(4).uniform(size=(60, 3)), np.arange(60) % 2
    mechanism = MeanEmbedding(Fourier(3, 1000, (0.5, 2.0), seed=1), 3.0, labels=True)
    exactly = exact(of_vectors(rows, labels, silent()), mechanism)
    vaults = [of_vectors(*part, SystemNoise()) for part in cut(rows, labels)]
    made = Federation(vaults, collusion=2).release(mechanism, purpose="law")
    assert made.guarantee.standing.name == "PROVEN"
    value: Any = made.value
    noise = (value["sums"] - exactly["sums"]).ravel() / float(made.public["sums_sigma"])
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    for factor, fits in ((3.0, True), (2.0, False), (4.5, False)):
        assert bool(low < float(np.sum(np.square(noise))) / factor < high) is fits
    assert stats.kstest(noise / 3.0**0.5, "norm").pvalue > 1e-6


@pytest.mark.slow
def test_a_generator_is_trained_on_an_embedding_of_many_parties() -> None:
    rows, labels = np.random.default_rng(4).uniform(size=(300, 2)), np.arange(300) % 2
    network = {"kind": "mlp", "dim": 2, "classes": 2, "segments": [[0, 2, "interval"]], "latent": 4, "hidden": [8]}
    vaults = [of_vectors(*part, None) for part in cut(rows, labels)]
    asked = Embedding(Rules(network, steps=5, batch=16, learning_rate=1e-3))
    made = Synthesizer(1.0, 1e-6, method=asked, device="cpu", seed=1).fit(Federation(vaults))
    assert made.sample(10)[0].shape == (10, 2)
    assert made.guarantee_.epsilon() <= 1.0
    # two counts, whose noise is √1.5 times as large: of 10⁹ runs one fails
    spread = float(made.release_.public["counts_sigma"]) * 3.0**0.5
    assert float(np.asarray(made.release_.value["counts"]).sum()) == pytest.approx(300, abs=6.2 * spread)
    assert all(vault.charges("synthesis by embedding") == 1 for vault in vaults)


@pytest.mark.statistical
@pytest.mark.parametrize("collusion", [1, 2])
def test_the_noise_of_a_federation_has_the_law_that_is_stated(collusion: int) -> None:
    mechanism = Histogram("age", bins=4000, range=(0, 100), epsilon=1.0, delta=1e-6)
    rows = [np.random.default_rng(place).uniform(0, 100, (50 * place, 1)) for place in (1, 2, 3)]

    def vault(x: np.ndarray, noise: Any) -> Vault:
        return Vault(
            x, adjacency="add-remove", budget=(1e6, 1e-6), kind=Vectors(clip=1.0, columns=("age",)), noise=noise
        )

    counts = exact(vault(np.concatenate(rows), silent()), mechanism)["estimate"]
    federation = Federation([vault(x, SystemNoise()) for x in rows], collusion)
    release = federation.release(mechanism, purpose="law")
    sigma = mechanism.event(federation.facts).sigma * (3 / (3 - collusion)) ** 0.5
    assert release.public["sigma"] == pytest.approx(sigma)
    noise = np.asarray(release.value["estimate"]) - counts
    # of 4,000 draws: a deviation that is a fifth off is missed once in 10³⁰ runs, and a right one fails once in 10⁶
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    for wrong, fits in ((1.0, True), (1.25, False), (0.8, False)):
        assert bool(low < float(np.sum(np.square(noise / (sigma * wrong)))) < high) is fits
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6


def books(folder: Path, budgets: tuple[float, ...] = (2.0, 2.0, 2.0)) -> tuple[list[Vault], list[Ledger]]:
    """Vaults with noise, each with a ledger of its own."""
    ledgers = [Ledger.create(folder / f"{place}.ledger") for place in range(3)]
    parts = zip(evenly(people(120)), ledgers, budgets, strict=True)
    return [vault_of(own, ledger=book, budget=(epsilon, 1e-5), noise=None) for own, book, epsilon in parts], ledgers


@pytest.mark.slow
def test_each_party_pays_once_and_a_job_goes_on_without_paying(tmp_path: Path) -> None:
    vaults, ledgers = books(tmp_path)
    federation = Federation(vaults)
    made = Synthesizer(1.0, 1e-6, seed=1).fit(federation, folder=tmp_path / "job")
    for vault, ledger in zip(vaults, ledgers, strict=True):
        assert [entry.event.to_dict() for entry in ledger.entries()] == [dict(e) for e in made.guarantee_.events]
        assert 0.9 < vault.remaining() < 2.0
    assert federation.remaining() == min(vault.remaining() for vault in vaults)
    again = Synthesizer(1.0, 1e-6, seed=1).fit(federation, folder=tmp_path / "job")
    assert same(dict(made.release_.value), dict(again.release_.value))
    assert [len(ledger.entries()) for ledger in ledgers] == [1, 1, 1]
    # other parties are others, although a job of theirs would look the same
    other = [vault_of(own, noise=None) for own in evenly(people(120))]
    with pytest.raises(PrivotError, match="another ledger"):
        Synthesizer(1.0, 1e-6, seed=1).fit(Federation(other), folder=tmp_path / "job")


def test_a_guarantee_says_against_whom_it_holds(tmp_path: Path) -> None:
    vaults, _ = books(tmp_path)
    release = Federation(vaults, collusion=2).release(Count(epsilon=1.0, delta=1e-6), purpose="how many")
    assert release.guarantee.standing.name == "PROVEN"
    said = " ".join(release.guarantee.assumptions)
    assert "against the coordinator, whatever that sends" in said
    assert "with at most 2 of the 3 parties" in said
    assert "with each of them, not over all of them together" in said
    assert ONE_PROCESS in release.guarantee.assumptions


def test_what_one_party_cannot_pay_no_party_pays(tmp_path: Path) -> None:
    vaults, ledgers = books(tmp_path, (2.0, 2.0, 0.1))
    with pytest.raises(BudgetError):
        Synthesizer(1.0, 1e-6).fit(Federation(vaults))
    with pytest.raises(UsageError, match="not made of sums"):
        Federation(vaults).release(RandomProjection(slices=4, sigma=1.0), purpose="no sum")
    assert [len(ledger.entries()) for ledger in ledgers] == [0, 0, 0]


def test_noise_without_a_secret_is_refused_and_the_first_failure_is_told() -> None:
    vaults = [
        vault_of(part, noise=noise) for part, noise in zip(evenly(people(30)), (None, silent(), None), strict=True)
    ]
    with pytest.raises(UnprovenError):
        Federation(vaults).release(Count(epsilon=1.0, delta=1e-6), purpose="one without noise")


def test_trainings_that_pay_several_times_are_refused(tmp_path: Path) -> None:
    vaults, ledgers = books(tmp_path)
    federation, mechanism = Federation(vaults), RandomProjection(slices=4, sigma=1.0, steps=3)
    assert not federation.repeats(Count(epsilon=1.0, delta=1e-6))
    for refused in (federation.stream, federation.reserve):
        with pytest.raises(UsageError, match="cannot train together"):
            refused(mechanism, purpose="a training")
    assert [len(ledger.entries()) for ledger in ledgers] == [0, 0, 0]


def test_what_is_no_federation_is_refused(tmp_path: Path) -> None:
    a, b, c = (vault_of(part) for part in evenly(people(30)))
    book = Ledger.create(tmp_path / "book")
    with_books = [vault_of(people(30), ledger=book, budget=(1.0, 1e-5), noise=None) for _ in range(2)]
    turned = Schema(tuple(reversed(SCHEMA.columns)), label=SCHEMA.label)
    for vaults, collusion, said in (
        ([a, b], 1, "merge two releases"),
        ([a, b, c], 3, "1 to 2 may pool"),
        ([a, b, b], 1, "is there twice"),
        ([a, *with_books], 1, "is there twice"),
        ([a, b, people(3)], 1, "made of vaults"),
        ([a, b, vault_of(people(30), turned)], 1, "differs"),
    ):
        with pytest.raises(UsageError, match=said):
            Federation(vaults, collusion)
