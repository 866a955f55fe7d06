"""Features of public encoders: what the network says, bounded, and the same to the last bit in any company."""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_networks import (
    DIM,
    FORMATS,
    SHAPE,
    Forgetting,
    Grouped,
    Hidden,
    NotFinite,
    Rewriting,
    ZeroSigns,
    honest,
    named,
    saved,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from privot.errors import DataError, PrivotError
from privot.mechanisms.exact_sums import clip_features, try_map
from privot.synthesis import PublicEncoder
from privot.synthesis.neural.encoders import public_encoder
from privot.synthesis.neural.encoders.tape import RefusedEncoderError, Tape
from privot.synthesis.neural.features.encoder_features import EncoderFeatures
from privot.synthesis.neural.features.fourier import Fourier, Stack, feature_map


def mapped(path: Path, **changes: Any) -> EncoderFeatures:
    facts: dict[str, Any] = {"frequencies": 10, "bandwidths": [0.5], "seed": 3, "low": 0.0, "high": 255.0}
    encoder = {name: changes.pop(name) for name in ("size", "value_range") if name in changes}
    return EncoderFeatures(PublicEncoder(path, **encoder), SHAPE, **(facts | changes))


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> EncoderFeatures:
    return mapped(saved(honest(), tmp_path_factory.mktemp("encoder")), size=12, value_range=(-1.0, 1.0))


def records(rows: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.0, 255.0, (rows, DIM)))


def expected_codes(layers: Any) -> Tensor:
    """Positions averaged, each layer divided by its norm, by formulas of the test's own."""
    flat = [layer.mean(dim=(2, 3)) if layer.dim() == 4 else layer for layer in layers]
    return torch.cat([v / (v * v).sum(dim=1, keepdim=True).sqrt() for v in flat], dim=1) / math.sqrt(len(flat))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_codes_are_what_the_network_says_in_float64(kind: str, tmp_path: Path) -> None:
    made, x = mapped(saved(honest(), tmp_path, kind), value_range=(-1.0, 1.0)), records(6)
    with torch.no_grad():
        wanted = expected_codes(honest().double()((2.0 * x / 255.0 - 1.0).view(-1, *SHAPE)))
        found = made.codes(x)
        assert found.shape == wanted.shape == (6, 8 + 10 + 26)
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0.0)
        # training sees batches in single precision: the same but for rounding
        torch.testing.assert_close(made.codes(x.float()).double(), wanted, atol=1e-4, rtol=0.0)
        whole = made.features(x)
    torch.testing.assert_close(whole[:, :44], wanted * math.sqrt(0.5), atol=2e-6, rtol=0.0)
    # the kernel's width is in the unit of the codes: Fourier scales [−1, 1] to [0, 1]
    other = Fourier(44, 10, [0.25], 3, -1.0, 1.0, "independent").features(found) * math.sqrt(0.5)
    torch.testing.assert_close(whole[:, 44:], other, atol=2e-6, rtol=0.0)


@pytest.mark.parametrize("module", [Grouped().eval(), Rewriting()], ids=named)
def test_normalisation_and_writing_in_place_are_of_one_image(module: nn.Module, tmp_path: Path) -> None:
    made, x = mapped(saved(module, tmp_path)), records(5)
    with torch.no_grad():
        wanted = expected_codes([module.double()((x / 255.0).view(-1, *SHAPE))])
        torch.testing.assert_close(made.codes(x), wanted, atol=1e-6, rtol=0.0)
        assert torch.equal(made.codes(x), torch.cat([made.codes(row[None]) for row in x]))


def test_images_are_resized_bilinearly_before_the_network_sees_them(tmp_path: Path) -> None:
    made, x = mapped(saved(honest(), tmp_path), size=12), records(4)
    with torch.no_grad():
        grown = nn.functional.interpolate((x / 255.0).view(-1, *SHAPE), size=[12, 12], mode="bilinear")
        torch.testing.assert_close(made.codes(x), expected_codes(honest().double()(grown)), atol=1e-6, rtol=0.0)


def test_grey_images_reach_a_colour_network_as_three_equal_channels(tmp_path: Path) -> None:
    made = EncoderFeatures(PublicEncoder(saved(honest(), tmp_path)), (8, 8), 10, [0.5], 3)
    x = torch.rand(4, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = expected_codes(honest().double()(x.view(-1, 1, 8, 8).repeat(1, 3, 1, 1)))
        torch.testing.assert_close(made.codes(x), wanted, atol=1e-6, rtol=0.0)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 300.0, 1e30, -1e300, math.inf]),
    rows=st.integers(1, 9),
)
def test_features_are_bounded_and_each_row_is_by_itself(
    features: EncoderFeatures, seed: int, scale: float, rows: int
) -> None:
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.normal(size=(rows, DIM)))
    x[0] = torch.nan_to_num(x[0] * scale, nan=0.0, posinf=math.inf, neginf=-math.inf)
    order = torch.from_numpy(random.permutation(rows))
    with torch.no_grad():
        together = features.features(x)
        alone = torch.cat([features.features(row[None]) for row in x])
        turned = features.features(x[order])
    assert bool(torch.isfinite(together).all())
    assert float(torch.linalg.vector_norm(together, dim=1).max()) <= 1.0
    phi, share = clip_features(together)
    assert float(torch.linalg.vector_norm(phi * share[:, None], dim=1).max()) <= 1.0
    # the codes to the last bit, the Fourier features to their stated rounding
    assert torch.equal(together[:, : features.width], alone[:, : features.width])
    assert torch.equal(together[order][:, : features.width], turned[:, : features.width])
    assert float(torch.linalg.vector_norm(together - alone, dim=1).max()) <= features.rounding


def test_codes_do_not_depend_on_blocks_memory_or_threads(
    features: EncoderFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = records(33, seed=4)
    with torch.no_grad():
        once = features.codes(x)
        # columns first in memory, and starting off any boundary
        askew = torch.cat([torch.zeros(1, DIM, dtype=torch.float64), x]).T.contiguous().T[1:]
        assert torch.equal(features.codes(askew), once)
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(3)
            assert torch.equal(features.codes(x), once)
        finally:
            torch.set_num_threads(threads)
        assert features._tape.block > 33
        monkeypatch.setattr("privot.synthesis.neural.encoders.tape.HELD", 5 * features._tape.numbers_per_row)
        assert features._tape.block == 5
        assert torch.equal(features.codes(x), once)
        monkeypatch.setattr("privot.synthesis.neural.encoders.tape.HELD", 1)
        assert torch.equal(features.codes(x), once)


def test_memory_is_bounded_by_what_is_alive_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty tensors are kept and added one by one: each sum holds all of them beside its own work (16 · 3)."""
    tape = Tape((DIM,))
    kept = [tape.add(torch.relu, tape.input) for _ in range(40)]
    total = kept[0]
    for one in kept[1:]:
        total = tape.add(torch.add, total, one)
    tape.finish([total])
    assert tape.numbers_per_row == (40 + 48 + 16) * DIM
    monkeypatch.setattr("privot.synthesis.neural.encoders.tape.MAX_NUMBERS", 100 * DIM)
    with pytest.raises(RefusedEncoderError, match="too much memory"):
        tape.finish([total])


@pytest.mark.slow
def test_the_sign_of_a_zero_does_not_show(tmp_path: Path) -> None:
    """1/0 and 1/−0 differ, and which zero a maximum gives depends on the place in memory: such rows are lost."""
    made = EncoderFeatures(PublicEncoder(saved(ZeroSigns(), tmp_path)), SHAPE, 4, [0.5], 1)
    assert made._tape.block <= 3
    rows = np.random.default_rng(0).uniform(size=(21, DIM))
    rows[2::3] = 0.0
    new = np.random.default_rng(1).uniform(size=(1, DIM))
    with torch.no_grad():
        alone = torch.cat([made.codes(torch.from_numpy(row[None])) for row in (*new, *rows)])
        assert torch.equal(made.codes(torch.from_numpy(np.concatenate([new, rows]))), alone)
        assert torch.equal(made.codes(torch.from_numpy(rows)), alone[1:])
    assert not alone.any()


def test_a_map_is_tried_on_public_rows_and_comes_back_from_its_dictionary(features: EncoderFeatures) -> None:
    try_map(features, "cpu")
    again = feature_map(Stack([features, Fourier(DIM, 4, [4.0], 1, 0.0, 255.0)]).to_dict())
    x = records(3)
    with torch.no_grad():
        assert torch.equal(again.maps[0].features(x), features.features(x))
    assert again.assumptions == features.assumptions
    assert again.maps[0].exact_bytes() == features.exact_bytes()
    for other in (pickle.loads(pickle.dumps(features)), copy.deepcopy(features)):
        with torch.no_grad():
            assert torch.equal(other.features(x), features.features(x))


def test_a_process_that_makes_other_numbers_of_a_file_refuses(
    features: EncoderFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = pickle.dumps(features)
    pickle.loads(held)
    monkeypatch.setattr("privot.synthesis.neural.encoders.exact_arithmetic._WEIGHTS", 34)
    public_encoder._tape.cache_clear()
    with pytest.raises(PrivotError, match="other numbers of the encoder"):
        pickle.loads(held)
    public_encoder._tape.cache_clear()


def test_maps_say_exactly_which_file_and_which_numbers_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    paths = [saved(Hidden(1.0), tmp_path), saved(Hidden(2.0), tmp_path / "other")]
    one, other = (mapped(path, value_range=(0.0, 1.0)) for path in paths)
    with torch.no_grad():
        assert torch.equal(one.features(records(20)), other.features(records(20)))
    assert one.exact_bytes() != other.exact_bytes()
    # the numbers by themselves, under the same name, and the name by itself, with the same numbers
    said = one.exact_bytes()
    monkeypatch.setattr(one, "_sealed", other._sealed)
    assert one.exact_bytes() != said
    monkeypatch.undo()
    monkeypatch.setattr(one.encoder, "digest", other.encoder.digest)
    assert one.exact_bytes() != said


def test_a_map_needs_the_file_of_its_encoder(features: EncoderFeatures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_encoder, "_LOADED", {})
    public_encoder._tape.cache_clear()
    with pytest.raises(DataError, match="give its file again"):
        feature_map(features.to_dict())


def test_the_bytes_that_are_named_are_the_bytes_that_run(tmp_path: Path) -> None:
    path, x = saved(honest(), tmp_path), records(3)
    encoder = PublicEncoder(path)
    assert encoder.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    wanted = EncoderFeatures(encoder, SHAPE, 4, [0.5], 1, 0.0, 255.0).codes(x)
    # another file in its place changes nothing: the bytes were read once
    path.write_bytes(saved(nn.Flatten(), tmp_path).read_bytes())
    public_encoder._tape.cache_clear()
    assert torch.equal(EncoderFeatures(encoder, SHAPE, 4, [0.5], 1, 0.0, 255.0).codes(x), wanted)


def test_a_record_without_finite_features_counts_as_zero_and_raises_nothing(tmp_path: Path) -> None:
    made, x = mapped(saved(NotFinite(), tmp_path)), records(5)
    with torch.no_grad():
        usual = made.codes(x)
        x[2] = 0.0
        found = made.codes(x)
    assert not found[2].any()
    kept = [0, 1, 3, 4]
    assert torch.equal(found[kept], usual[kept])


def test_a_number_that_is_not_finite_is_not_forgotten_on_the_way(tmp_path: Path) -> None:
    made, x = mapped(saved(Forgetting(), tmp_path)), records(5)
    x[2] = 0.0
    x[3, 7] = math.nan
    with torch.no_grad():
        found = made.codes(x)
    assert not found[2:4].any()
    assert bool(found[[0, 1, 4]].any(dim=1).all())


def test_a_record_whose_evaluation_fails_counts_as_zero_whatever_stands_beside_it(
    features: EncoderFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, run = records(6, seed=8), features._tape.run_checked
    usual = features.codes(x)
    hostile = features.axes.pictures(x / 255.0)[4]

    def failing(images: Tensor) -> tuple[list[Tensor], Tensor]:
        if any(torch.equal(image, hostile) for image in images):
            raise RuntimeError("a record that quotes itself")
        return run(images)

    monkeypatch.setattr(features._tape, "run_checked", failing)
    found = features.codes(x)
    assert not found[4].any()
    kept = [0, 1, 2, 3, 5]
    assert torch.equal(found[kept], usual[kept])


def test_weights_that_change_while_they_are_used_are_noticed(
    features: EncoderFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = features._tape._constants[-1].tensors(torch.device("cpu"))[0]
    before = held.clone()
    try:
        held += 1.0
        with pytest.raises(Exception, match="changed while it ran"):
            features.codes(records(2))
    finally:
        held.copy_(before)
    features.codes(records(2))


def test_training_sees_gradients(features: EncoderFeatures) -> None:
    x = records(4).float().requires_grad_()
    features.features(x).square().sum(dim=0)[:44].sum().backward()
    assert bool(torch.isfinite(x.grad).all())
    assert float(x.grad.abs().max()) > 0.0
