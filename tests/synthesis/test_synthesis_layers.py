"""Layers that are fast on a GPU mean what torch's own mean, there and elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from privot.synthesis.filters import Filtered
from privot.synthesis.layers import FewMaps, NormedReLU, ToMaps


class Laid(nn.Linear):
    """A product, seen as maps of 3 × 2."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).view(-1, 8, 3, 2)


PAIRS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module], tuple[int, ...]]] = {
    "to maps": (lambda: ToMaps(18, 8, (3, 2)), lambda: Laid(18, 48), (30, 18)),
    "few maps": (lambda: FewMaps(16, 4, 5), lambda: nn.Conv2d(16, 4, 5, padding=2), (6, 16, 7, 9)),
    "colour": (lambda: FewMaps(8, 12, 3), lambda: nn.Conv2d(8, 12, 3, padding=1), (3, 8, 4, 4)),
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
    return [t.detach().float().cpu() for t in (out, x.grad, *slopes, *layer.buffers())]


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
    once = (x @ features.matrix()).abs().view(5, 4, -1).mean(1) * (4.0 / 6.0**0.5)
    assert torch.allclose(once, features.seen(x), atol=1e-5)
