"""A release that was paid for can be made again, the same, and nothing else can be had for that charge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from privot import Ledger, Vault
from privot.errors import BudgetError, DataError, UsageError
from privot.guarantee import Standing
from privot.jobs.paid_question import release_once
from privot.kinds import Vectors
from privot.mechanisms import Mean, RandomProjection, SketchDesign
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.noise.adding import add_noise
from privot.noise.kept_noise import KeptNoise

X = np.random.default_rng(1).normal(size=(40, 3))
Y = np.arange(40) % 2
DESIGN = SketchDesign.plain(3, 4.0)
SECRET = os.urandom(32)


def open_vault(path: Path, x: np.ndarray = X, y: np.ndarray | None = None, epsilon: float = 1.0) -> Vault:
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    classes = None if y is None else 2
    held: dict[str, Any] = {"clip": 1.0, "adjacency": "replace-one", "classes": classes, "new_records": x is not X}
    return Vault(x, y, **held, ledger=ledger, budget=(epsilon, 1e-5))


def blocks(vault: Vault, mechanism: PrivateSketch, secret: bytes = SECRET) -> np.ndarray:
    value = vault.release_once(mechanism, purpose="a sketch", secret=secret).value
    return np.concatenate([value[name] for name in sorted(value)])


def test_it_is_charged_once_and_answered_alike_also_after_a_restart(tmp_path: Path) -> None:
    mechanism = PrivateSketch(DESIGN, 20.0)
    first = blocks(open_vault(tmp_path / "l"), mechanism)
    again = blocks(open_vault(tmp_path / "l"), mechanism)
    np.testing.assert_array_equal(first, again)
    with Ledger.open(tmp_path / "l") as ledger:
        assert len(ledger.entries()) == 1
        assert ledger.entries()[0].purpose.startswith("a sketch [once ")
        assert SECRET.hex()[:16] not in ledger.entries()[0].purpose


def test_another_version_or_rounding_has_independent_noise_and_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is fitted to an earlier one may differ there by a little, and would get fresh noise for no charge."""
    mechanism = PrivateSketch(DESIGN, 20.0)
    vault = open_vault(tmp_path / "l", epsilon=50.0)
    first = blocks(vault, mechanism)
    monkeypatch.setattr("privot.vault.release_steps.arithmetic_mark", lambda *given: "privot 99")
    assert not vault.released_once(mechanism, secret=SECRET)
    assert not np.array_equal(blocks(vault, mechanism), first)
    with Ledger.open(tmp_path / "l") as ledger:
        assert len(ledger.entries()) == 2


def test_any_other_question_secret_or_data_has_independent_noise_and_pays(tmp_path: Path) -> None:
    sigma = 20.0
    vault = open_vault(tmp_path / "l", epsilon=50.0)
    base = blocks(vault, PrivateSketch(DESIGN, sigma))
    nearly = SketchDesign.plain(3, 4.0 * (1 + 1e-12))
    # the same digest to six digits, another design to the last bit
    assert nearly.digest() == DESIGN.digest()
    labelled = [blocks(open_vault(tmp_path / "l2", y=labels), PrivateSketch(DESIGN, sigma)) for labels in (Y, 1 - Y)]
    others = [
        blocks(vault, PrivateSketch(nearly, sigma)),
        blocks(vault, PrivateSketch(DESIGN, sigma), os.urandom(32)),
        blocks(open_vault(tmp_path / "l", np.r_[X[1:], X[:1] + 1e-9], epsilon=50.0), PrivateSketch(DESIGN, sigma)),
        labelled[0] + base - labelled[1],
    ]
    for other in others:
        assert np.abs(other - base).min() > 1e-4
    with Ledger.open(tmp_path / "l") as ledger:
        assert len(ledger.entries()) == 4


def test_a_column_of_one_name_at_another_place_is_another_release_and_pays(tmp_path: Path) -> None:
    def seen(*names: str) -> Vault:
        held: dict[str, Any] = {"ledger": ledger, "budget": (9.0, 1e-5)}
        return Vault(X, clip=1.0, adjacency="add-remove", kind=Vectors(columns=names), **held)

    def asked(vault: Vault) -> list[float]:
        found: Any = vault.release_once(mean, purpose="a mean", secret=SECRET).value
        return [float(found["estimate"]), float(found["count"])]

    def told(vault: Vault, fail: bool = False) -> float:
        with release_once(vault, mean, purpose="a mean", delta=1e-6) as paid:
            if fail:
                raise OSError(28, "full")
            return float(paid.value.value["estimate"])  # type: ignore[call-overload, index]

    mean = Mean("a", range=(-3.0, 3.0), epsilon=1.0, delta=1e-6)
    with Ledger.create(tmp_path / "l") as ledger:
        first, other = asked(seen("a", "b", "c")), asked(seen("c", "b", "a"))
        assert all(mine != theirs for mine, theirs in zip(first, other, strict=True))
        assert asked(seen("a", "b", "c")) == first
        assert len(ledger.entries()) == 2
        # nor is what was kept for one of them the answer to the other
        with pytest.raises(DataError, match="paid for and kept"):
            told(seen("a", "b", "c"), fail=True)
        told(seen("c", "b", "a"))
        assert len(ledger.entries()) == 4
        told(seen("a", "b", "c"))
        assert len(ledger.entries()) == 4


def test_the_budget_still_refuses(tmp_path: Path) -> None:
    vault = open_vault(tmp_path / "l")
    blocks(vault, PrivateSketch(DESIGN, 12.0))
    with pytest.raises(BudgetError):
        blocks(vault, PrivateSketch(DESIGN, 12.5))
    np.testing.assert_array_equal(
        blocks(vault, PrivateSketch(DESIGN, 12.0)), blocks(vault, PrivateSketch(DESIGN, 12.0))
    )


def test_what_cannot_be_asked_again_is_refused(tmp_path: Path) -> None:
    memory = Vault(X, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    with pytest.raises(UsageError, match="ledger"):
        memory.release_once(PrivateSketch(DESIGN, 20.0), purpose="p", secret=SECRET)
    vault = open_vault(tmp_path / "l")
    with pytest.raises(UsageError, match="32 bytes"):
        vault.release_once(PrivateSketch(DESIGN, 20.0), purpose="p", secret=b"short")
    with pytest.raises(UsageError, match="suffixes are reserved"):
        vault.release_once(PrivateSketch(DESIGN, 20.0), purpose="p [once 00]", secret=SECRET)
    with pytest.raises(UsageError, match="drawn anew each time"):
        vault.release_once(RandomProjection(2, 5.0), purpose="p", secret=SECRET)


def test_a_seed_of_a_release_that_can_be_made_again_is_taken_once(tmp_path: Path) -> None:
    vault = open_vault(tmp_path / "l", epsilon=50.0)
    mechanism = RandomProjection(2, 5.0, seed=1)
    first, again = (vault.release_once(mechanism, purpose="p", secret=SECRET).value for _ in range(2))
    np.testing.assert_array_equal(first, again)  # type: ignore[arg-type]
    assert vault.charges("") == 1
    for other in (mechanism, RandomProjection(2, 6.0, seed=1)):
        with pytest.raises(UsageError, match="seed 1 was already used"):
            vault.release_once(other, purpose="p", secret=b"k" * 32)
        with pytest.raises(UsageError, match="seed 1 was already used"):
            vault.release(other, purpose="p")


def test_kept_noise_is_noise() -> None:
    noise = KeptNoise(os.urandom(32), b"about")
    assert noise.standing is Standing.PROVEN
    draws = noise.normal(20_000, 3.0)
    assert kstest(draws / 3.0, "norm").pvalue > 1e-6
    assert kstest(draws / 2.0, "norm").pvalue < 1e-6
    # a second draw goes on, it does not begin again
    assert not np.intersect1d(draws, noise.normal(20_000, 3.0)).size


def test_labels_that_belong_to_other_rows_are_other_records(tmp_path: Path) -> None:
    # the rows in another order under labels in the same order: the same rows, the same labels, other records
    mechanism = PrivateSketch(DESIGN.labelled(2), 20.0)
    vault = open_vault(tmp_path / "l", y=Y, epsilon=50.0)
    other = open_vault(tmp_path / "l", X[::-1], y=Y, epsilon=50.0)
    assert np.abs(blocks(vault, mechanism) - blocks(other, mechanism)).min() > 1e-6
    # rows and labels in another order together are the same records, and get the same answer
    turned = open_vault(tmp_path / "l", X[::-1], y=Y[::-1], epsilon=50.0)
    np.testing.assert_array_equal(blocks(turned, mechanism), blocks(vault, mechanism))
    with Ledger.open(tmp_path / "l") as ledger:
        assert len(ledger.entries()) == 2


def test_two_values_never_share_noise_not_even_when_a_library_rounds_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = PrivateSketch(DESIGN, 20.0)
    vault = open_vault(tmp_path / "l")
    first = blocks(vault, mechanism)
    original = SketchDesign.coordinates

    def otherwise(self, rows, labels=None):  # type: ignore[no-untyped-def]
        out = original(self, rows, labels)
        return {**out, "features": out["features"] * (1 - 1e-9)}

    monkeypatch.setattr(SketchDesign, "coordinates", otherwise)
    assert np.abs(blocks(vault, mechanism) - first).min() > 1e-6
    monkeypatch.undo()
    np.testing.assert_array_equal(blocks(vault, mechanism), first)


def test_one_value_twice_in_one_release_has_two_noises() -> None:
    secret, value = os.urandom(32), np.zeros(1000)
    noise = KeptNoise(secret, b"about")
    one, two = (add_noise(value, noise, 1.0) for _ in range(2))
    assert not np.intersect1d(one, two).size
    again = KeptNoise(secret, b"about")
    np.testing.assert_array_equal(add_noise(value, again, 1.0), one)
    assert kstest(np.r_[one, two], "norm").pvalue > 1e-6


def test_mechanisms_of_two_kinds_with_one_identity_have_their_own_noise(tmp_path: Path) -> None:
    class Other(PrivateSketch):
        stable_name = "another sketch"

    vault = open_vault(tmp_path / "l", epsilon=50.0)
    assert np.abs(blocks(vault, PrivateSketch(DESIGN, 20.0)) - blocks(vault, Other(DESIGN, 20.0))).min() > 1e-6
    nameless: Any = type("Nameless", (), {"steps": 1, "seed": None})()
    with pytest.raises(UsageError, match="must be a mechanism"):
        vault.release_once(nameless, purpose="p", secret=SECRET)

    class Silent(PrivateSketch):
        stable_name = "a sketch that does not say what it is"

        def __getattribute__(self, name: str) -> Any:
            if name == "identity":
                raise AttributeError(name)
            return super().__getattribute__(name)

    with pytest.raises(UsageError, match="identity"):
        vault.release_once(Silent(DESIGN, 20.0), purpose="p", secret=SECRET)


def test_kept_noise_is_no_vaults_noise() -> None:
    """Two vaults with one secret would show what differs between their records."""
    with pytest.raises(UsageError, match="release_once"):
        Vault(
            np.ones((3, 2)), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5), noise=KeptNoise(b"k" * 32, b"about")
        )
