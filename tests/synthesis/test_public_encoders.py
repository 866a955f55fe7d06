"""Public encoders as feature maps: bounded, a row at a time, and nothing that looks at neighbours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from privot.errors import DataError, UsageError
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.exact_sums import clip_features, try_map
from privot.synthesis import Problem, Synthesizer, choose_rules
from privot.synthesis.features.fourier import Fourier, Stack, feature_map
from privot.synthesis.features.public_encoder import EncoderFeatures, PublicEncoder
from privot.vault import Vault

SHAPE = (3, 8, 8)
DIM = 192


def network(*more: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), *more, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = torch.relu(self.first(x))
        return a, torch.relu(self.second(a)).mean(dim=(2, 3))


class Neighbours(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(dim=0, keepdim=True)).flatten(1)


class Chance(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + torch.rand_like(x.flatten(1))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1.0
        return x.flatten(1) * self.seen + self.seen


class Dropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=True).flatten(1)


class Batches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(x, None, None, training=True).flatten(1)


def saved(module: nn.Module, folder: Path, kind: str = "script") -> Path:
    path = folder / f"{type(module).__name__}.{'pt2' if kind == 'export' else 'pt'}"
    if kind == "export":
        batch = {0: torch.export.Dim.DYNAMIC}
        torch.export.save(torch.export.export(module, (torch.rand(2, 3, 8, 8),), dynamic_shapes=(batch,)), path)
    else:
        torch.jit.save(torch.jit.script(module), str(path))
    return path


def mapped(path: Path, **changes: Any) -> EncoderFeatures:
    facts: dict[str, Any] = {"frequencies": 10, "bandwidths": [0.5], "seed": 3, "low": 0.0, "high": 255.0}
    size = changes.pop("size", None)
    return EncoderFeatures(
        PublicEncoder(path, size, changes.pop("value_range", (-1.0, 1.0))), SHAPE, **(facts | changes)
    )


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> EncoderFeatures:
    return mapped(saved(network(nn.BatchNorm2d(6)), tmp_path_factory.mktemp("encoder")), size=12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.0, 1.0, 300.0, 1e30, -1e300]), rows=st.integers(1, 5))
def test_features_are_bounded_and_each_row_is_by_itself(
    features: EncoderFeatures, seed: int, scale: float, rows: int
) -> None:
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, DIM)) * scale)
    with torch.no_grad():
        together = features.features(x)
        alone = torch.cat([features.features(row[None]) for row in x])
    phi, share = clip_features(together)
    assert float(torch.linalg.vector_norm(phi * share[:, None], dim=1).max()) <= 1.0
    assert float(torch.linalg.vector_norm(together, dim=1).max()) <= 1.0 + 1e-12
    # the codes to the last bit, the Fourier features to their stated rounding
    assert torch.equal(together[:, : features.width], alone[:, : features.width])
    assert float(torch.linalg.vector_norm(together - alone, dim=1).max()) <= features.rounding


@pytest.mark.parametrize("kind", ["script", "export"])
def test_codes_are_what_the_network_says(kind: str, tmp_path: Path) -> None:
    module = network()
    made = mapped(saved(module, tmp_path, kind))
    x = torch.rand(3, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 255.0
    with torch.no_grad():
        said = module((2.0 * x / 255.0 - 1.0).float().view(-1, *SHAPE)).double()
        z = said / said.norm(dim=1, keepdim=True)
        found = made.features(x)
    torch.testing.assert_close(found[:, :6], 0.5**0.5 * z, atol=1e-5, rtol=1e-5)
    expected = 0.5**0.5 * Fourier(6, 10, [0.5], 3, -1.0, 1.0).features(z)
    torch.testing.assert_close(found[:, 6:], expected, atol=1e-3, rtol=1e-3)
    # training sees batches in single precision: the same but for rounding
    torch.testing.assert_close(made.features(x.float()), found.float(), atol=1e-3, rtol=1e-3)


def test_several_layers_weigh_the_same_and_positions_are_averaged(tmp_path: Path) -> None:
    made = mapped(saved(TwoLayers(), tmp_path))
    assert made.width == 9
    with torch.no_grad():
        z = made._codes(torch.rand(2, DIM, dtype=torch.float64) * 255.0)
    parts = [torch.linalg.vector_norm(part, dim=1) for part in (z[:, :4], z[:, 4:])]
    torch.testing.assert_close(torch.stack(parts), torch.full((2, 2), 0.5**0.5, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["script", "export"])
@pytest.mark.parametrize("module", [Neighbours(), Chance(), Counting(), Dropping(), Batches()])
def test_encoders_that_look_beside_one_image_are_refused(module: nn.Module, kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="encoder"):
        mapped(saved(module, tmp_path, kind))


class Seldom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 1e-9, training=True).flatten(1)


@pytest.mark.parametrize("kind", ["script", "export"])
def test_chance_that_a_trial_would_not_see_is_read_in_the_code(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="draws random numbers"):
        mapped(saved(Seldom(), tmp_path, kind))


def test_a_network_left_in_training_mode_is_put_into_evaluation_mode(tmp_path: Path) -> None:
    # TorchScript can be put back; what it learned is kept
    module = network(nn.BatchNorm2d(6), nn.Dropout(0.5)).train()
    try_map(mapped(saved(module, tmp_path)), "cpu")


def test_a_release_with_an_encoder_names_it_and_needs_its_file(
    features: EncoderFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack([features, Fourier(DIM, 8, [4.0], 1, 0.0, 255.0)])
    x = np.random.default_rng(0).uniform(0, 255, (30, DIM))
    vault = Vault(x, clip=1e4, adjacency="add-remove", budget=(5.0, 1e-5))
    release = vault.release(MeanEmbedding(stack, sigma=2.0), purpose="colour")
    said = release.public["features"]["maps"][0]
    assert said["encoder"]["digest"] == features.encoder.digest
    again = feature_map(release.public["features"])
    rows = torch.from_numpy(x[:2])
    with torch.no_grad():
        assert torch.equal(again.features(rows), stack.features(rows))
    monkeypatch.setattr("privot.synthesis.features.public_encoder._LOADED", {})
    with pytest.raises(DataError, match="state its file"):
        feature_map(release.public["features"])


def test_a_synthesis_with_an_encoder_is_sampled_without_it(
    features: EncoderFeatures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).uniform(0, 255, (40, DIM))
    vault = Vault(x, clip=1e4, adjacency="add-remove", budget=(5.0, 1e-5))
    rules = replace(choose_rules(Problem(DIM, 1, 2.0, 40, SHAPE)), steps=3, batch=8)
    made = Synthesizer(5.0, 1e-5, shape=SHAPE, high=255.0, features=features, rules=rules, device="cpu", seed=0)
    made.fit(vault).save(tmp_path / "model")
    expected, _ = made.sample(5, seed=1)
    monkeypatch.setattr("privot.synthesis.features.public_encoder._LOADED", {})
    again = Synthesizer.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.sample(5, seed=1)[0], expected)
    assert again.features_ is None


@pytest.mark.parametrize("content", [b"", b"no network", b"PK\x03\x04 broken"])
@pytest.mark.parametrize("name", ["e.pt", "e.pt2"])
def test_files_that_are_no_network_are_bad_data(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="encoder"):
        PublicEncoder(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read"):
        PublicEncoder(tmp_path / "absent.pt")


def test_sizes_ranges_and_shares_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = saved(network(), tmp_path)
    for wrong in ({"size": 0}, {"value_range": (1.0, 1.0)}, {"share": 1.0}, {"value_range": (0.0, float("nan"))}):
        with pytest.raises(UsageError):
            mapped(path, **wrong)
