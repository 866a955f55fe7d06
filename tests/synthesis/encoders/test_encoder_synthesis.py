"""Synthesis with a public encoder: one release that names it, a folder that needs no encoder, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from encoder_networks import Counting, honest, saved, scripted
from synthesis_samples import BARS, bars

from privot import Ledger, Vault
from privot.cli import run
from privot.errors import UnprovenError, UsageError
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.embedding import FeatureSums
from privot.mechanisms.exact_sums import float_sums, rounding_per_record
from privot.synthesis import PublicEncoder, Synthesizer
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.encoders import public_encoder
from privot.synthesis.neural.features.fourier import Fourier, Stack
from privot.synthesis.output.output_folder import write_folder
from synthesis_asked import flat


def short(steps: int = 3) -> Any:
    return replace(choose_rules(Problem(64, 3, 2.0, 200, BARS)), steps=steps, batch=8)


def vault_of(seed: int = 0, rows: int = 200, **changes: Any) -> Vault:
    x, y = bars(rows, seed)
    return Vault(x, y, **{"classes": 3, "clip": 100.0, "adjacency": "add-remove", "budget": (5.0, 1e-5), **changes})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PublicEncoder:
    return PublicEncoder(saved(honest(), tmp_path_factory.mktemp("encoder")))


def synthesizer(encoder: PublicEncoder | None, **changes: Any) -> Synthesizer:
    return Synthesizer(
        **flat(
            **{
                "epsilon": 5.0,
                "shape": BARS,
                "encoder": encoder,
                "rules": short(),
                "device": "cpu",
                "seed": 3,
                **changes,
            }
        )
    )


def test_a_guarantee_says_that_the_encoder_did_not_see_the_records(encoder: PublicEncoder) -> None:
    fitted, without = synthesizer(encoder).fit(vault_of()), synthesizer(None).fit(vault_of())
    said = f"the encoder with SHA-256 {encoder.digest} was not trained on these records"
    assert said in fitted.guarantee_.assumptions
    assert said in fitted.guarantee_.to_dict()["assumptions"]
    assert fitted.guarantee_.standing == without.guarantee_.standing == "proven"
    maps = fitted.release_.public["features"]["maps"]
    assert [m["kind"] for m in maps] == ["fourier", "encoder"]
    assert maps[1]["encoder"]["digest"] == encoder.digest
    # half of the weight is the encoder's, and one release pays for both
    assert isinstance(fitted.features_, Stack)
    assert fitted.features_.shares[-1] ** 2 == pytest.approx(0.5)
    assert len(fitted.guarantee_.events) == 1
    assert said not in without.guarantee_.assumptions
    assert without.guarantee_.epsilon() == pytest.approx(fitted.guarantee_.epsilon())


def test_a_record_moves_the_sums_by_its_own_bounded_part(encoder: PublicEncoder) -> None:
    features = synthesizer(encoder).design(vault_of().facts).mechanism.features
    (x, _), hostile = bars(40, 5), np.full((1, 64), 1e30)
    adding = FeatureSums(features, 1, False, "cpu")

    def sums(rows: np.ndarray) -> np.ndarray:
        totals = adding.zeros()
        adding.add(totals, np.ascontiguousarray(rows), None)
        return float_sums(totals[0], totals[1])[0]

    for record in (x[:1], hostile, np.zeros((1, 64))):
        own = sums(record)
        moved = sums(np.concatenate([x[1:20], record, x[20:]])) - sums(x[1:])
        assert np.linalg.norm(own) <= 1.0
        # a sum of 40 is rounded to 2⁻⁴⁷, both times
        assert np.linalg.norm(moved - own) <= 40 * rounding_per_record(features)


@pytest.mark.slow
def test_two_data_sets_with_the_same_noisy_sums_leave_the_same_folder(
    encoder: PublicEncoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def made_up(joint: np.ndarray, noise: Any, sigma: float) -> np.ndarray:
        return np.random.default_rng(7).uniform(20.0, 60.0, joint.shape)

    monkeypatch.setattr("privot.mechanisms.embedding.add_noise", made_up)
    folders = []
    for place, rows in enumerate((200, 90)):
        fitted = synthesizer(encoder).fit(vault_of(place, rows), folder=tmp_path / f"job{place}")
        folder = tmp_path / str(place)
        folder.mkdir()
        write_folder(fitted, folder, 50, seed=1)
        files = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        for name in ("synthetic.npz",):
            with ZipFile(folder / name) as archive:
                files[name] = b"".join(archive.read(member) for member in archive.namelist())
        with ZipFile(tmp_path / f"job{place}" / "release.npz") as release:
            # member by member: an archive holds the time of its writing
            folders.append({**files, **{name: release.read(name) for name in release.namelist()}})
    assert {"synthetic.npz", "generator.safetensors", "guarantee.json"} <= folders[0].keys() == folders[1].keys()
    for name in folders[0]:
        assert folders[0][name] == folders[1][name], name


def test_a_synthesis_is_sampled_without_its_encoder(
    encoder: PublicEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = synthesizer(encoder).fit(vault_of())
    fitted.save(tmp_path / "model")
    expected, _ = fitted.sample(5, seed=1)
    monkeypatch.setattr(public_encoder, "_LOADED", {})
    again = Synthesizer.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.sample(5, seed=1)[0], expected)
    assert again.features_ is None
    assert any(encoder.digest in said for said in again.guarantee_.assumptions)
    # what sampling does not need, a copy of the folder says nevertheless
    again.save(tmp_path / "copy")
    for name in ("config.json", "generator.safetensors", "guarantee.json"):
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "model" / name).read_bytes(), name
    assert encoder.digest in (tmp_path / "copy" / "config.json").read_text()


@pytest.mark.slow
def test_a_job_goes_on_with_its_own_encoder_only(encoder: PublicEncoder, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    opened = vault_of(ledger=ledger)
    synthesizer(encoder).fit(opened, folder=tmp_path / "job")
    for other in (None, PublicEncoder(saved(honest(), tmp_path), value_range=(-1.0, 1.0))):
        with pytest.raises(UsageError, match="another encoder"):
            synthesizer(other).fit(opened, folder=tmp_path / "job")
    again = synthesizer(encoder).fit(opened, folder=tmp_path / "job")
    assert again.guarantee_.assumptions
    assert len(ledger.entries()) == 1


@pytest.mark.slow
def test_a_release_with_an_encoder_has_to_be_allowed_on_a_device_without_a_proof(
    encoder: PublicEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever way the map takes into a mechanism, and before anything is paid."""
    # what PyTorch calls "cuda" is proven where NVIDIA made it
    for maker, standing in ((None, "proven"), ("6.2", "unproven")):
        monkeypatch.setattr(torch.version, "hip", maker)
        for features in (_codes(encoder), Stack([_codes(encoder)]), Stack([Stack([_codes(encoder)])])):
            assert MeanEmbedding(features, sigma=2.0).standing == "proven"
            assert MeanEmbedding(features, sigma=2.0, device="cuda").standing == standing
            plain = Fourier(features.dim, 4, [1.0], 0)
            both = MeanEmbedding(plain, sigma=2.0, device="cuda", common=features, common_share=0.5)
            assert both.standing == standing
            assert both.assumptions
    monkeypatch.setattr("privot.synthesis.neural.features.encoder_features.PROVEN_ON", ())
    opened = vault_of(ledger=(ledger := Ledger.create(tmp_path / "ledger")))
    with pytest.raises(UnprovenError):
        synthesizer(encoder).fit(opened)
    with pytest.raises(UnprovenError):
        synthesizer(encoder).fit(opened, folder=tmp_path / "job")
    for features in (_codes(encoder), Stack([_codes(encoder)]), Stack([Stack([_codes(encoder)])])):
        mechanism = MeanEmbedding(features, sigma=2.0)
        assert mechanism.standing == "unproven"
        with pytest.raises(UnprovenError):
            opened.release(mechanism, purpose="codes")
    assert not ledger.entries()


def test_encoders_are_refused_where_they_have_no_meaning(encoder: PublicEncoder) -> None:
    for wrong in ({"method": "sliced", "rules": None}, {"shape": None}, {"features": Stack([_codes(encoder)])}):
        with pytest.raises(UsageError, match="encoder"):
            synthesizer(encoder, **wrong).fit(vault_of())


def _codes(encoder: PublicEncoder) -> Any:
    return synthesizer(encoder).design(vault_of().facts).mechanism.features.maps[1]


def test_an_encoder_given_as_features_is_named_too(encoder: PublicEncoder) -> None:
    release = vault_of().release(MeanEmbedding(_codes(encoder), sigma=2.0), purpose="codes")
    assert any(encoder.digest in said for said in release.guarantee.assumptions)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x, y = bars(120)
    np.savez(tmp_path / "data.npz", x=x.reshape(-1, *BARS), y=y)
    return tmp_path / "data.npz"


def words(data: Path, out: Path, *more: str) -> list[str]:
    terms = "--epsilon 5 --delta 1e-5 --adjacency add-remove --device cpu --seed 1 --set steps=2 --samples 10".split()
    return [
        "synth", str(data), *terms, "--shape", "8,8", "--range", "0,1", "--classes", "3", "--out", str(out),
        *more,
    ]  # fmt: skip


@pytest.mark.slow
def test_the_command_takes_an_encoder_and_asks_for_it_again(data: Path, tmp_path: Path, capsys: Any) -> None:
    path, out = saved(honest(), tmp_path, "export"), tmp_path / "out"
    given = ["--encoder", str(path), "--set", "encoder_range=-1,1", "--set", "encoder_size=12"]
    assert run(words(data, out, *given, "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["guarantee"]["standing"] == "proven"
    digest = PublicEncoder(path).digest
    assert f"the encoder with SHA-256 {digest} was not trained on these records" in answer["guarantee"]["assumptions"]
    assert json.loads((out / "config.json").read_text())["params"]["encoder"] == {
        "digest": digest,
        "size": 12,
        "range": [-1.0, 1.0],
    }
    assert digest in (out / "report.html").read_text()
    # a network that only job.json names is not read
    assert run(["synth", "--resume", "--out", str(out)]) == 2
    assert "type --encoder FILE again" in capsys.readouterr().err
    assert run(["synth", "--resume", "--out", str(out), *given[:2]]) == 2
    assert "another encoder" in capsys.readouterr().err
    assert run(["synth", "--resume", "--out", str(out), *given]) == 0
    with Ledger.open(data.with_name("data.npz.ledger")) as book:
        assert len(book.entries()) == 1


def test_the_command_refuses_encoders_before_a_ledger_is_made(data: Path, tmp_path: Path, capsys: Any) -> None:
    torch.save([1.0], tmp_path / "list.pt")
    bad = saved(Counting(), tmp_path)
    for given, code, said in (
        (["--encoder", str(bad)], 2, "aten::add_"),
        (["--encoder", str(scripted(honest(), tmp_path))], 3, "TorchScript"),
        (["--encoder", str(tmp_path / "list.pt")], 3, "torch.save"),
        (["--encoder", str(tmp_path / "absent.pt")], 3, "cannot be read"),
        (["--set", "encoder_range=0,1"], 2, "--encoder"),
        (["--encoder", str(saved(honest(), tmp_path)), "--set", "encoder_range=1"], 2, "--set encoder_range"),
        (["--encoder", str(saved(honest(), tmp_path)), "--set", "encoder_size=0"], 2, "1 to 1024"),
    ):
        assert run(words(data, tmp_path / "out", *given)) == code
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob("*.ledger"))


def test_the_command_has_to_allow_an_encoder_on_a_device_without_a_proof(
    data: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privot.synthesis.neural.features.encoder_features.PROVEN_ON", ())
    given = words(data, tmp_path / "out", "--encoder", str(saved(honest(), tmp_path)))
    assert run(given) == 5
    assert "allow_unproven" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("*.ledger"))


@pytest.mark.slow
def test_a_folder_made_with_an_encoder_is_audited(data: Path, tmp_path: Path, capsys: Any) -> None:
    path, out = saved(honest(), tmp_path, "export"), tmp_path / "out"
    assert run(words(data, out, "--encoder", str(path))) == 0
    capsys.readouterr()
    public_encoder._LOADED.clear()
    public_encoder._tape.cache_clear()
    effort = ["--trials", "2000", "--runs", "40", "--json"]
    # without the file the events of the guarantee are attacked, with it the release by its own map
    assert run(["audit", str(out), *effort]) == 0
    assert not json.loads(capsys.readouterr().out)["membership"]
    assert run(["audit", str(out), "--encoder", str(path), *effort]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["membership"]
    assert answer["refuted"] == []
