"""Centred codes of an encoder: by formulas of the test's own, in any company, and what a lost record counts for."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_networks import DIM, SHAPE, Grouped, NotFinite, honest, saved
from torch import Tensor, nn

from privot import Ledger, Vault
from privot.errors import DataError, UnprovenError, UsageError
from privot.mechanisms.exact_sums import try_map
from privot.mechanisms.gradients.linear_head import MAX_FEATURE, TunedHead, bounded
from privot.synthesis import PublicEncoder
from privot.synthesis.neural.encoders import public_encoder
from privot.synthesis.neural.features.encoder_codes import OFFSET, SHORTEST, EncoderClassifier, EncoderCodes

SPAN = (0.0, 255.0)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PublicEncoder:
    return PublicEncoder(saved(honest(), tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def held(encoder: PublicEncoder) -> EncoderCodes:
    return EncoderCodes(encoder, SHAPE).centred(records(40, 1).float() / 255.0, *SPAN)


def records(rows: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(*SPAN, (rows, DIM)))


def head(features: EncoderCodes, **given: Any) -> TunedHead:
    return TunedHead(features, np.zeros((features.size, 2)), **{"sigma": 2.0, "rounds": 2, "rate": 0.1, **given})


def test_samples_give_the_centre_and_the_usual_distance(encoder: PublicEncoder, held: EncoderCodes) -> None:
    x = records(5)
    z = EncoderCodes(encoder, SHAPE, None, 1.0, *SPAN).codes(x).numpy()
    samples = EncoderCodes(encoder, SHAPE, None, 1.0, *SPAN).codes(records(40, 1)).numpy()
    mean = samples.mean(axis=0)
    usual = max(SHORTEST, np.sort(np.linalg.norm(samples - mean, axis=1))[19])
    np.testing.assert_allclose(held.center, mean, atol=1e-6)
    assert held.length == pytest.approx(usual, rel=1e-5)
    assert not (held.center * 2.0**30 % 1.0).any()
    wanted = np.concatenate([(z - mean) / usual, np.full((5, 1), OFFSET)], axis=1)
    np.testing.assert_allclose(held.features(x).numpy(), wanted, atol=1e-5)
    # samples in float32, some at a time
    np.testing.assert_allclose(torch.cat(list(held.blocks(x.float()))).numpy(), wanted, atol=1e-4)


def test_codes_are_the_same_to_the_last_bit_in_any_company(held: EncoderCodes) -> None:
    try_map(held, "cpu")
    x = records(9)
    alone = torch.cat([held.features(row[None]) for row in x])
    values = [math.nan, 1e300, -1e300, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324]
    hostile = torch.tensor(values, dtype=torch.float64)[:, None].expand(-1, DIM)
    among = held.features(torch.cat([hostile, x.flip(0), hostile]))
    lost = torch.cat([held.features(row[None]) for row in hostile])
    assert torch.equal(among[:9], lost)
    assert torch.equal(among[-9:], lost)
    among = among[9:-9].flip(0)
    assert torch.equal(held.features(x), alone)
    assert torch.equal(among, alone)
    assert held.rounding == 0.0
    # the largest distance there is stays within what the mechanism takes, and its bound holds
    assert float(held.features(x).abs().max()) <= MAX_FEATURE
    extreme = EncoderCodes(held.encoder, SHAPE, -np.ones(held.width), SHORTEST, *SPAN)
    assert float(extreme.features(x).abs().max()) <= MAX_FEATURE
    assert float(bounded(extreme.features(x)).norm(dim=1).max()) <= 1.0


def test_a_lost_record_counts_for_nothing(tmp_path: Path) -> None:
    """One with a NaN, and one that the network divides by zero for: its offset and the centre, too, are left out."""
    features = EncoderCodes(PublicEncoder(saved(NotFinite(), tmp_path)), SHAPE, np.full(DIM, 0.5), 1.0)
    x = torch.rand(4, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[1, 5], x[2] = float("nan"), 0.0
    found = features.features(x)
    assert not found[1:3].any()
    assert bool((found[[0, 3]] != 0.0).any(dim=1).all())
    slope = head(features)
    weights, labels = np.ones((features.size, 2)), torch.tensor([0, 1, 1, 0])
    g = bounded(found).float()
    with_lost = slope._slope([(g, labels)], weights)
    without = slope._slope([(g[[0, 3]], labels[[0, 3]])], weights)
    assert np.array_equal(with_lost, without)
    # nor do samples without a code count for the centre
    assert np.allclose(features.centred(x.float(), 0.0, 1.0).center, features.codes(x)[[0, 3]].mean(dim=0), atol=1e-6)
    assert not features.centred(x[1:3].float(), 0.0, 1.0).center.any()


def test_labels_of_an_encoder_stand_and_assume_as_the_encoder_does(
    held: EncoderCodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"the encoder with SHA-256 {held.encoder.digest} was not trained on these records"
    assert head(held).standing == "proven"
    for maker, standing in ((None, "proven"), ("6.2", "unproven")):
        monkeypatch.setattr(torch.version, "hip", maker)
        assert head(held, device="cuda").standing == standing
    terms = {"classes": 2, "clip": 1.0, "adjacency": "add-remove", "budget": (9.0, 1e-5)}
    ledger = Ledger.create(tmp_path / "ledger")
    vault = Vault(records(6).numpy(), [0, 1] * 3, ledger=ledger, **terms)
    release = vault.release(head(held), purpose="labels")
    assert release.guarantee.standing == "proven"
    assert said in release.guarantee.assumptions
    monkeypatch.setattr("privot.synthesis.neural.features.encoder_features.PROVEN_ON", ())
    with pytest.raises(UnprovenError):
        vault.release(head(held), purpose="labels")
    assert len(ledger.entries()) == 1
    release = vault.release(head(held), purpose="labels", allow_unproven=True)
    assert release.guarantee.standing == "unproven"
    assert said in release.guarantee.assumptions


def test_codes_and_classifiers_come_back_from_a_file(held: EncoderCodes, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(0).standard_normal((held.size, 3))
    made = EncoderClassifier(held, weights).with_offsets(np.array([0.0, 1.0, -1.0]))
    fields = json.loads(json.dumps(made.to_dict()))
    again = EncoderClassifier.from_tensors(fields, made.tensors())
    x = records(30)
    assert torch.equal(again.map.features(x), held.features(x))
    np.testing.assert_allclose(
        again.scores(x.float()).numpy(), held.features(x).numpy() @ weights + made.offsets, atol=1e-3
    )
    copied = pickle.loads(pickle.dumps(held))
    assert copied.exact_bytes() == held.exact_bytes()
    other = EncoderCodes(held.encoder, SHAPE, held.center, held.length + 0.25, *SPAN)
    assert other.exact_bytes() != held.exact_bytes()
    with pytest.raises(DataError, match="not the ones"):
        EncoderClassifier.from_tensors(fields, {**made.tensors(), **other.tensors()})
    with pytest.raises(DataError, match="not codes"):
        EncoderClassifier.from_tensors(fields, {"weights": made.tensors()["weights"]})
    monkeypatch.setattr(public_encoder, "_LOADED", {})
    with pytest.raises(DataError, match="give its file again"):
        EncoderClassifier.from_tensors(fields, made.tensors())


def test_constants_that_cannot_be_are_refused(encoder: PublicEncoder) -> None:
    width = EncoderCodes(encoder, SHAPE).width
    wrong = ((np.zeros(3), 1.0), (np.full(width, 1.5), 1.0), (np.full(width, np.nan), 1.0), (None, 0.1), (None, 3.0))
    for center, length in wrong:
        with pytest.raises(UsageError):
            EncoderCodes(encoder, SHAPE, center, length)


@pytest.mark.parametrize("module", [honest(), Grouped().eval(), nn.Sequential(nn.Conv2d(3, 4, 3), nn.SiLU())])
def test_training_in_half_precision_is_close_and_changes_nothing_else(module: nn.Module, tmp_path: Path) -> None:
    """On a GPU alone; the same function is tried here on the processor, with gradients."""
    features = EncoderCodes(PublicEncoder(saved(module, tmp_path)), SHAPE, None, 1.0, *SPAN)
    tape, x = features._tape, torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    exact, plain = features.codes(records(6)), tape.run(x.detach())
    half = tape.run_half(x)
    for one, other in zip(half, plain, strict=True):
        assert one.dtype == other.dtype == torch.float32
        assert float((one.detach() - other).norm() / other.norm()) < 0.05
    sum(layer.square().sum() for layer in half).backward()
    assert bool(torch.isfinite(x.grad).all())
    assert float(x.grad.abs().max()) > 0.0
    # neither the usual numbers nor those of records are other than they were; on a processor training is as it was
    assert all(torch.equal(one, other) for one, other in zip(tape.run(x.detach()), plain, strict=True))
    assert torch.equal(features.codes(records(6)), exact)
    sample = records(6).float()
    assert torch.equal(features.codes(sample.clone().requires_grad_()).detach(), features.codes(sample))
