"""Smoothing of slopes: a projection on slow cosines, the same for every layout of a picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from privot.errors import UsageError
from privot.synthesis import Synthesizer
from privot.synthesis.points import Points
from privot.synthesis.smoothing import cosines, smoothing
from privot.vault import Vault

CPU = torch.device("cpu")


def test_cosines_are_projected_on_and_waves_are_kept_or_left_out_whole() -> None:
    held = cosines(28, 14)
    torch.testing.assert_close(held @ held, held)
    torch.testing.assert_close(held, held.T)
    assert float(torch.trace(held)) == pytest.approx(14.0)
    torch.testing.assert_close(cosines(7, 9), torch.eye(7, dtype=torch.float64))
    at = torch.arange(28, dtype=torch.float64) + 0.5
    for f in range(28):
        wave = torch.cos(math.pi * f * at / 28)
        torch.testing.assert_close(held @ wave, wave if f < 14 else torch.zeros_like(wave), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("shape", [(28, 28), (16, 20), (32, 32, 3), (3, 32, 32)])
def test_white_noise_keeps_the_share_of_cosines_and_a_flat_picture_all(shape: tuple[int, ...]) -> None:
    smooth = smoothing(shape, 8, CPU)
    dim = math.prod(shape)
    noise = torch.randn(400, dim, generator=torch.Generator().manual_seed(1))
    sides = [s for s in shape if s > 3]
    # 400·dim·share squares of normals: one in 10⁶ lies further off than five deviations
    share, numbers = 64 / math.prod(sides), 400 * dim * 64 / math.prod(sides)
    kept = float(smooth(noise).square().mean())
    assert abs(kept / share - 1.0) < 5.0 * math.sqrt(2.0 / numbers)
    torch.testing.assert_close(smooth(smooth(noise)), smooth(noise), rtol=0.0, atol=1e-5)
    flat = torch.full((2, dim), 0.7)
    torch.testing.assert_close(smooth(flat), flat)


def test_channels_first_and_last_are_the_same_pictures() -> None:
    x = torch.randn(5, 3, 20, 16, generator=torch.Generator().manual_seed(2))
    first = smoothing((3, 20, 16), 8, CPU)(x.flatten(1)).view(5, 3, 20, 16)
    last = smoothing((20, 16, 3), 8, CPU)(x.permute(0, 2, 3, 1).reshape(5, -1)).view(5, 20, 16, 3)
    torch.testing.assert_close(first, last.permute(0, 3, 1, 2))


def images(method: str, **options: Any) -> tuple[Synthesizer, Vault]:
    random = np.random.default_rng(3)
    x, y = random.uniform(size=(60, 256)), np.arange(60) % 2
    usual = {"steps": 2, "blocks": 1, "batch": 10, "points": 10, "generator": "dcgan", "channels": 8, **options}
    made = Synthesizer(5.0, method=method, shape=(16, 16), records=60, options=usual, device="cpu", seed=1)
    return made, Vault(x, y, classes=2, clip=16.0, adjacency="add-remove", budget=(5.0, 1e-5))


@pytest.mark.parametrize(("given", "kept"), [({}, 8), ({"smooth": 5}, 5), ({"smooth": 0}, 0)])
def test_what_a_generator_learns_from_is_smooth(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, int], kept: int
) -> None:
    slopes: list[torch.Tensor] = []
    monkeypatch.setattr(Points, "learn", lambda self, slope: slopes.append(slope.clone()))
    made, vault = images("sinkhorn", **given)
    made.fit(vault)
    assert len(slopes) == 2
    for slope in slopes:
        assert float(slope.abs().max()) > 0.0
        same = torch.allclose(smoothing((16, 16), kept or 8, CPU)(slope), slope, atol=1e-5)
        assert same is bool(kept)


def test_smoothing_that_cannot_be_is_refused_before_anything_is_paid() -> None:
    for method, smooth in (("sinkhorn", -1), ("parameters", 4)):
        made, vault = images(method, smooth=smooth)
        with pytest.raises(UsageError, match="smooth"):
            made.fit(vault)
        # nothing was paid: all of the budget is there
        images(method)[0].fit(vault)
    rows = Synthesizer(5.0, method="sinkhorn", records=60, options={"smooth": 4}, device="cpu", seed=1)
    with pytest.raises(UsageError, match="smooth"):
        rows.fit(images("sinkhorn")[1])
