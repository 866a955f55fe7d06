"""`--epsilon inf --open`: baselines without privacy run on open data only, pay nobody and make no guarantee."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from privot.adaptation.open_adaptation import adapt_openly
from privot.cli import run
from privot.errors import DataError, UsageError
from privot.synthesis.open_generators import OPEN_METHODS, train_generator_openly

pytestmark = pytest.mark.slow


@pytest.fixture
def blobs(tmp_path: Path) -> list[str]:
    """Two classes apart in eight columns, and the same moved a little."""
    dice = np.random.default_rng(0)
    for name, shift in (("source", 0.0), ("target", 0.1)):
        y = np.arange(120) % 2
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((120, 8)), 0.0, 1.0)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    return [str(tmp_path / "source.npz"), str(tmp_path / "target.npz")]


@pytest.fixture
def no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """No vault, ledger or guarantee can be made."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a run without privacy touched the barrier")

    for name in ("privot.vault.Vault.__init__", "privot.ledger.Ledger.__init__", "privot.guarantee.Guarantee.__init__"):
        monkeypatch.setattr(name, refuse)


def words_of(blobs: list[str], out: Path, *more: str) -> list[str]:
    return [
        "adapt",
        *blobs,
        "--epsilon",
        "inf",
        "--open",
        "--range",
        "0,1",
        "--out",
        str(out),
        "--device",
        "cpu",
        *more,
    ]


@pytest.mark.parametrize("method", ["source", "swd", "dann"])
def test_adaptation_without_privacy(
    capsys: Any, tmp_path: Path, blobs: list[str], method: str, no_budget: None
) -> None:
    out = tmp_path / "open"
    assert run([*words_of(blobs, out, "--method", method, "--test", blobs[1]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "nothing is protected" in found["privacy"]
    assert found["accuracy"] > 0.9
    assert not {"guarantee", "epsilon", "ledger"} & set(found)
    assert sorted(p.name for p in out.iterdir()) == ["open.json", "predicted.npy"]
    assert json.loads((out / "open.json").read_text()) == found
    assert not list(tmp_path.glob("*.ledger*"))
    assert np.load(out / "predicted.npy").shape == (120,)


@pytest.mark.gate(1)
@pytest.mark.parametrize("method", OPEN_METHODS)
def test_synthesis_without_privacy(capsys: Any, tmp_path: Path, blobs: list[str], method: str, no_budget: None) -> None:
    out = tmp_path / "open"
    words = ["synth", blobs[0], "--epsilon", "inf", "--open", "--method", method, "--range", "0,1", "--device", "cpu"]
    steps = "200" if method == "sinkhorn" else "400"
    assert run([*words, "--set", f"steps={steps}", "--samples", "200", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "nothing is protected" in told.splitlines()[0]
    assert "ε" not in told
    assert sorted(p.name for p in out.iterdir()) == ["open-synthetic.npz", "open.json"]
    assert not list(tmp_path.glob("*.ledger*"))
    with np.load(out / "open-synthetic.npz") as file:
        x, y = file["x"], file["y"]
    assert np.bincount(y).tolist() == [100, 100]
    # the means of both classes are learned, each by its label
    for label, mean in ((0, 0.25), (1, 0.65)):
        assert np.abs(x[y == label].mean(0) - mean).max() < 0.08, method


def test_one_half_without_the_other_and_options_of_payers_are_refused(
    capsys: Any, tmp_path: Path, blobs: list[str]
) -> None:
    out = ["--out", str(tmp_path / "no")]
    adapt, synth = ["adapt", *blobs, "--range", "0,1", *out], ["synth", blobs[0], "--range", "0,1", *out]
    paid = ["--delta", "1e-5"]
    for words, why in (
        ([*adapt, "--epsilon", "inf", *paid], "add --open"),
        ([*adapt, "--epsilon", "1", *paid, "--open"], "works with --epsilon inf only"),
        ([*adapt, "--epsilon", "inf", "--open"], "Name the baseline"),
        ([*adapt, "--epsilon", "inf", "--open", "--method", "stand-in"], "Unknown open baseline"),
        ([*adapt, "--epsilon", "inf", "--open", "--method", "swd", *paid], "--delta has no meaning"),
        ([*adapt, "--epsilon", "inf", "--open", "--method", "swd", "--resume"], "--resume has no meaning"),
        ([*adapt, "--epsilon", "nan", *paid], "finite"),
        ([*adapt, "--epsilon=-inf", *paid, "--open"], "finite"),
        ([*synth, "--epsilon", "inf", *paid, "--adjacency", "replace-one"], "add --open"),
        ([*synth, "--epsilon", "inf", "--open", "--adjacency", "replace-one"], "--adjacency has no meaning"),
        ([*synth, "--epsilon", "inf", "--open", "--ledger", "x.ledger"], "--ledger has no meaning"),
        ([*synth, "--epsilon", "inf", "--open", "--method", "sinkhorn-parameters"], "Unknown open baseline"),
        ([*synth, "--epsilon", "inf", "--open", "--samples", "0"], "--samples"),
        ([*synth, "--epsilon", "2"], "Missing option '--delta'"),
        ([*synth, "--epsilon", "2", *paid], "Missing option '--adjacency'"),
        (["release", "count", blobs[0], "--epsilon", "inf", "--adjacency", "add-remove"], "--epsilon must be a finite"),
        (["adapt", blobs[0], "--epsilon", "inf", "--open", "--method", "swd", *out], "needs TARGET"),
    ):
        assert run(words) == 2, words
        assert why in capsys.readouterr().err, words
    assert not (tmp_path / "no").exists()
    assert not list(tmp_path.glob("*.ledger*"))


def test_an_open_result_is_not_put_beside_a_private_one(capsys: Any, tmp_path: Path, blobs: list[str]) -> None:
    out = tmp_path / "private"
    out.mkdir()
    (out / "guarantee.json").write_text("{}")
    assert run(words_of(blobs, out, "--method", "source")) == 2
    assert "not empty" in capsys.readouterr().err


def test_what_a_ledger_guards_is_not_open(capsys: Any, tmp_path: Path, blobs: list[str]) -> None:
    place = Path(blobs[0] + ".ledger")
    words = ["ledger", "init", str(place), "--data", blobs[0], "--epsilon", "1", "--delta", "1e-5"]
    assert run([*words, "--adjacency", "replace-one"]) == 0, capsys.readouterr().err
    before = place.read_bytes()
    capsys.readouterr()
    for tried in (
        words_of(blobs, tmp_path / "open", "--method", "source"),
        ["synth", blobs[0], "--epsilon", "inf", "--open", "--range", "0,1", "--out", str(tmp_path / "open")],
        ["audit", "protocol", blobs[1], blobs[0], "--open"],
    ):
        assert run(tried) == 2
        assert "not open data" in capsys.readouterr().err
    assert place.read_bytes() == before
    assert not (tmp_path / "open").exists()


def test_what_does_not_fit_is_refused_in_python_too() -> None:
    x = np.random.default_rng(0).uniform(size=(20, 3))
    with pytest.raises(UsageError, match="Unknown open baseline"):
        train_generator_openly(x, method="magic")
    with pytest.raises(DataError, match="finite numbers"):
        train_generator_openly(x * np.nan)
    with pytest.raises(UsageError, match="weight of the L1 cost"):
        train_generator_openly(x, method="sinkhorn", mixture=-1.0)
    with pytest.raises(DataError, match="Labels"):
        train_generator_openly(x, np.arange(20), classes=3)
    with pytest.raises(UsageError, match="Unknown open baseline"):
        adapt_openly((x, np.arange(20) % 2), x, "embedding")
