"""Layers that are fast on a GPU mean what torch's own mean, there and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privot.common.cuda_graphs import lay_out
from privot.common.image_axes import Axes
from privot.synthesis.neural.features.filter_banks import Bank, pooled
from privot.synthesis.neural.features.filters import Filtered
from privot.synthesis.neural.generators.fused_layers import (
    DoubledReLU,
    FewMaps,
    FewMapsTwice,
    FromPoint,
    NormedReLU,
    ToMaps,
)


class Laid(nn.Linear):
    """A product, seen as maps of 3 × 2."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).view(-1, 8, 3, 2)


TWICE = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReLU())
PAIRS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module], tuple[int, ...]]] = {
    "to maps": (lambda: ToMaps(18, 8, (3, 2)), lambda: Laid(18, 48), (30, 18)),
    "few maps": (lambda: FewMaps(16, 4, 5), lambda: nn.Conv2d(16, 4, 5, padding=2), (6, 16, 7, 9)),
    "colour": (lambda: FewMaps(8, 12, 3), lambda: nn.Conv2d(8, 12, 3, padding=1), (3, 8, 4, 4)),
    "point": (lambda: FromPoint(18, 8, (3, 2)), lambda: nn.ConvTranspose2d(18, 8, (3, 2), bias=False), (30, 18, 1, 1)),
    "few maps twice": (lambda: FewMapsTwice(16, 1), lambda: nn.ConvTranspose2d(16, 1, 4, 2, 1), (6, 16, 7, 9)),
    "colour twice": (lambda: FewMapsTwice(8, 3), lambda: nn.ConvTranspose2d(8, 3, 4, 2, 1), (3, 8, 4, 4)),
    "doubled": (DoubledReLU, lambda: TWICE, (4, 6, 5, 3)),
    "doubled line": (DoubledReLU, lambda: TWICE, (4, 6, 1, 3)),
    "doubled maps": (DoubledReLU, lambda: TWICE, (40, 16, 14, 14)),
    "normed": (lambda: NormedReLU(24), lambda: nn.Sequential(nn.BatchNorm2d(24), nn.ReLU()), (40, 24, 5, 3)),
}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]


def worked(layer: nn.Module, x: torch.Tensor, slope: torch.Tensor, half: bool) -> list[torch.Tensor]:
    """The output, all slopes, and what the layer remembers."""
    x = x.clone().requires_grad_()
    held = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        out = layer(held.bfloat16() if half else held)
    out.float().backward(slope)
    assert x.grad is not None
    slopes = [p.grad for p in layer.parameters() if p.grad is not None]
    kept = [t for name, t in layer.state_dict().items() if name in dict(layer.named_buffers())]
    return [t.detach().float().cpu() for t in (out, x.grad, *slopes, *kept)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PAIRS)
def test_a_layer_is_what_torch_says(name: str, device: str) -> None:
    mine, torchs, shape = PAIRS[name]
    torch.manual_seed(1)
    one, two = mine(), torchs()
    for p in one.parameters():
        nn.init.normal_(p, std=0.5)
    state = {(f"0.{k}" if name == "normed" else k): v.clone() for k, v in one.state_dict().items()}
    two.load_state_dict(state)
    # what half precision holds, so that only the arithmetic differs
    x = (2.0 * torch.randn(shape) + 1.0).bfloat16().float()
    slope = torch.randn_like(two(x)).bfloat16().float()
    two.load_state_dict(state)
    want = worked(two, x, slope, False)
    got = worked(one.to(device), x.to(device), slope.to(device), device == "cuda")
    assert len(got) == len(want)
    for a, b in zip(want, got, strict=True):
        assert (a - b).norm() <= (1e-5 if device == "cpu" else 1.5e-2) * a.norm() + 1e-6, name


@pytest.mark.parametrize("shape", [(28, 28), (9, 11, 3), (3, 8, 8)])
def test_filters_at_once_are_the_convolution(shape: tuple[int, ...]) -> None:
    features = Filtered(shape, 6, 8, [1.0, 1.75], 2)
    x = torch.rand(5, features.dim, generator=torch.Generator().manual_seed(3))
    once = (x @ features.banks[0].matrix()).abs().view(5, 4, -1).mean(1) * (4.0 / 6.0**0.5)
    assert torch.allclose(once, features.seen(x), atol=1e-5)


def test_slopes_of_filters_at_once_are_those_of_their_formula() -> None:
    random = torch.Generator().manual_seed(4)
    matrix, slope = torch.randn(6, 4 * 5, generator=random), 1e-7 * torch.randn(3, 5, generator=random)
    x = torch.randn(3, 6, generator=random)

    def at_once(m: torch.Tensor) -> Any:
        there, back = (lambda t: (t.to(m.dtype) @ m).view(3, 1, 4, 1, 1, 5)), lambda s: s.flatten(1) @ m.t()
        return lambda t: pooled(t, there, back).reshape(3, 5)

    found = []
    for work in (at_once(matrix), lambda t: (t @ matrix).abs().view(3, 4, 5).mean(1), at_once(matrix.half())):
        held = x.clone().requires_grad_()
        out = work(held)
        out.backward(slope)
        assert held.grad is not None
        found.append((out.detach(), held.grad))
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-5, atol=1e-12)
    # slopes of 1e-7 would be nothing in half precision
    assert (found[2][1] - found[1][1]).norm() < 1e-2 * found[1][1].norm()


@pytest.mark.parametrize(
    ("axes", "width", "cell", "stride"),
    [
        (Axes(14, 14, 8, True), 3, 2, 1),
        (Axes(14, 14, 8, True), 3, 7, 1),
        (Axes(14, 14, 8, True), 3, 2, 2),
        (Axes(14, 14, 8, True), 3, 8, 2),
        (Axes(9, 10, 3, False), 4, 4, 2),
        (Axes(5, 7, 2, True), 5, 3, 1),
    ],
)
@pytest.mark.parametrize("kind", ["_convolution", "_product"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_bank_has_the_same_slopes_on_every_way(
    axes: Axes, width: int, cell: int, stride: int, kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ways of a GPU, in float32, against the plain one of a processor and autograd."""
    if device == "cuda":
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr("privot.synthesis.neural.features.filter_banks.HALF", torch.float32)
    bank, random = Bank(axes, 6, width, cell, stride, np.random.SeedSequence(5)), torch.Generator().manual_seed(6)
    x = torch.rand(4, axes.height * axes.width * axes.channels, generator=random)
    slope, found = 1e-9 * torch.randn(4, bank.size, generator=random), []
    other_way = lambda t: pooled(t, *getattr(bank, kind)(t)).reshape(4, -1) * bank.gain  # noqa: E731
    for work, where in ((bank.seen, "cpu"), (other_way, device)):
        held = x.to(where).clone().requires_grad_()
        out = work(held)
        out.backward(slope.to(where))
        assert held.grad is not None
        found.append((out.detach().cpu(), held.grad.cpu()))
    (value, back), (other, other_back) = found
    assert (other - value).norm() < 1e-5 * value.norm()
    assert (other_back - back).norm() < 1e-4 * back.norm()
    # slopes that are 0 stay so
    held = x.to(device).clone().requires_grad_()
    (0.0 * pooled(held, *getattr(bank, kind)(held))).sum().backward()
    assert held.grad is not None
    assert (held.grad == 0.0).all()


def test_moments_from_a_file_are_laid_out_as_their_parameters() -> None:
    layer = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.randn(2, 3, 5, 5)).sum().backward()
    optimizer.step()
    kept = {n: {k: v.contiguous() for k, v in s.items()} for n, s in optimizer.state_dict()["state"].items()}
    again = torch.optim.Adam(layer.parameters())
    again.load_state_dict({"state": kept, "param_groups": optimizer.state_dict()["param_groups"]})
    assert again.state[layer.weight]["exp_avg"].stride() != layer.weight.stride()
    lay_out(again)
    for p in layer.parameters():
        for name in ("exp_avg", "exp_avg_sq"):
            assert again.state[p][name].stride() == p.stride()
            assert torch.equal(again.state[p][name], optimizer.state[p][name])
        assert again.state[p]["step"] == 1.0
