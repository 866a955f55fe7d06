"""Memory, time and failures of public encoders: bounded before anything is paid, and no record is lost to them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_networks import DIM, SHAPE, saved
from torch import Tensor, nn
from torch.nn import functional

from privot.errors import PrivotError
from privot.mechanisms.embedding import FeatureSums
from privot.synthesis import PublicEncoder
from privot.synthesis.neural.encoders.operators import apply
from privot.synthesis.neural.encoders.tape import RefusedEncoderError, Tape
from privot.synthesis.neural.features.encoder_features import EncoderFeatures


def test_a_piece_of_a_tensor_does_not_hold_the_memory_of_all_of_it() -> None:
    """Else a thousand pieces hold a thousand tensors that `finish` counts as given back."""
    for name, given in (
        ("select", {"dim": 3, "index": 0}),
        ("slice", {"dim": 2, "start": 3, "end": 4}),
        ("chunk", {"dim": 1, "chunks": 3}),
    ):
        tape = Tape(SHAPE)
        made = apply(tape, "aten::mul", {"self": tape.input, "other": 2.0}, True)
        piece = apply(tape, f"aten::{name}", {"self": made, **given}, True)
        tape.finish([piece[1] if name == "chunk" else piece])
        ((found,), _) = tape.run_checked(torch.rand(5, *SHAPE, dtype=torch.float64))
        assert found.untyped_storage().nbytes() == found.numel() * 8


def test_windows_are_bounded_axis_by_axis() -> None:
    """2³⁶ terms, and a stride along the axis that has one place only."""
    tape = Tape((1, 2**20, 1))
    given = {"self": tape.input, "kernel_size": [65535, 1], "stride": [1, 65535]}
    for name in ("avg_pool2d", "max_pool2d"):
        with pytest.raises(RefusedEncoderError, match="windows that are too large"):
            apply(tape, f"aten::{name}", given, True)


def test_images_that_are_resized_are_bounded_before_the_weights_for_it_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's author names the shape: of 12,000 pixels a side the weights took 11 s and 1 GB."""
    encoder = PublicEncoder(saved(nn.Conv2d(3, 4, 3), tmp_path), size=8)
    monkeypatch.setattr("privot.synthesis.neural.encoders.public_encoder._resizing", None)
    for sides in ((12_000, 8), (8, 4097)):
        with pytest.raises(RefusedEncoderError, match="up to 4096 pixels"):
            encoder.tape(3, *sides)


def test_averages_of_windows_are_those_of_the_library_and_take_no_time_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(2, 3, 8, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    usual, read = functional.avg_pool2d, []

    def watched(x: Tensor, *sizes: object, **more: object) -> Tensor:
        read.append(x.device.type)
        return usual(x, *sizes, **more)  # type: ignore[arg-type]

    tried = 0
    for kernel, stride, padding, ceil, include, divisor in itertools.product(
        ([1, 1], [3, 2], [5, 4]), ([1, 1], [2, 3], [7, 7]), ([0, 0], [1, 1]), (False, True), (False, True), (None, -7)
    ):
        if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
            continue
        tape = Tape((3, 8, 9))
        given = {"self": tape.input, "kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil}
        with monkeypatch.context() as patch:
            patch.setattr(functional, "avg_pool2d", watched)
            found = apply(
                tape, "aten::avg_pool2d", {**given, "count_include_pad": include, "divisor_override": divisor}, True
            )
        tape.finish([found])
        wanted = usual(x, kernel, stride, padding, ceil, include, divisor)
        torch.testing.assert_close(tape.run(x)[0], wanted, atol=1e-12, rtol=0.0)
        tried += 1
    assert tried > 80
    # the shapes alone: no numbers are averaged until an image is
    assert set(read) == {"meta"}


def mapped(folder: Path) -> EncoderFeatures:
    return EncoderFeatures(PublicEncoder(saved(nn.Flatten(), folder)), SHAPE, 4, [0.5], 1)


@pytest.mark.parametrize("said", ["std::bad_alloc", "[enforce fail a", "can't start new thread"])
def test_a_failure_of_the_machine_stops_a_release_whatever_it_is_called(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch 2.13 says just these where memory is short; a record that counted as zero would be wrong."""
    features, x = mapped(tmp_path), torch.rand(4, DIM, dtype=torch.float64)

    def failing(images: Tensor) -> tuple[list[Tensor], Tensor]:
        raise RuntimeError(said)

    monkeypatch.setattr(features._tape, "run_checked", failing)
    with pytest.raises(PrivotError, match="too little memory"):
        features.codes(x)


def test_a_failure_that_passes_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features, x = mapped(tmp_path), torch.rand(4, DIM, dtype=torch.float64)
    usual, run, calls = features.codes(x), features._tape.run_checked, itertools.count()

    def failing(images: Tensor) -> tuple[list[Tensor], Tensor]:
        if next(calls) < 2:
            raise RuntimeError("std::bad_alloc")
        return run(images)

    monkeypatch.setattr(features._tape, "run_checked", failing)
    assert torch.equal(features.codes(x), usual)


def test_a_record_that_fails_again_and_again_between_public_images_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory may be short just when the record's turn comes, twice in a row: a zero would be the machine's."""
    features, x = mapped(tmp_path), torch.rand(1, DIM, dtype=torch.float64)
    usual, run, calls = features.codes(x), features._tape.run_checked, itertools.count()

    def failing(images: Tensor) -> tuple[list[Tensor], Tensor]:
        if bool(images.any()) and next(calls) < 5:
            raise RuntimeError("std::bad_alloc")
        return run(images)

    monkeypatch.setattr(features._tape, "run_checked", failing)
    assert torch.equal(features.codes(x), usual)


def test_a_mode_that_changes_on_the_way_stops_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is loaded late may change it."""
    features, x = mapped(tmp_path), torch.rand(2, DIM, dtype=torch.float64)
    run = features._tape.run_checked
    if not torch.set_flush_denormal(False):
        pytest.skip("This processor has no such mode.")

    def changing(images: Tensor) -> tuple[list[Tensor], Tensor]:
        torch.set_flush_denormal(True)
        return run(images)

    monkeypatch.setattr(features._tape, "run_checked", changing)
    try:
        with pytest.raises(PrivotError, match="smallest numbers"):
            features.codes(x)
    finally:
        torch.set_flush_denormal(False)


def test_lengths_that_are_not_known_stay_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a library makes of the larger of a NaN and a number."""
    features, cut = mapped(tmp_path), torch.Tensor.clamp

    def losing(x: Tensor, *ends: object, **more: object) -> Tensor:
        return cut(x.nan_to_num(0.0) if x.is_floating_point() else x, *ends, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.Tensor, "clamp", losing)
    layer = torch.ones(3, 2, dtype=torch.float64)
    layer[1, 0] = 2.0**401
    assert features._scaled([layer]).abs().amax(dim=1).tolist() == pytest.approx([0.5**0.5, 0.0, 0.5**0.5], abs=1e-9)


def test_sums_of_features_are_of_numbers_in_double_precision(tmp_path: Path) -> None:
    """In single precision an encoder is evaluated as in training, where rows depend on those beside them."""
    rows = np.random.default_rng(0).uniform(size=(5, DIM)).astype(np.float32)
    adding, found = FeatureSums(mapped(tmp_path), 1, False, "cpu"), []
    for given in (rows, rows.astype(np.float64)):
        adding.add(totals := adding.zeros(), given, None)
        found.append(totals)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_public_tensors_are_sliced_along_the_axis_that_is_named() -> None:
    tape, value = Tape(SHAPE), torch.arange(24.0).reshape(2, 3, 4)
    for dim in range(-3, 3):
        found = apply(tape, "aten::slice", {"self": tape.constant(value), "dim": dim, "start": 1, "end": 2}, True)
        assert torch.equal(found.value, value.narrow(dim, 1, 1).double())
