"""Networks for tests of public encoders: honest ones, and such that an image's features would depend on more."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SHAPE = (3, 8, 8)
DIM = 192
FORMATS = ("export", "decomposed")


def stripes(shape: tuple[int, int, int], count: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Colour images (side, side, 3) of two classes, stripes across and stripes down, as rows; and their labels."""
    dice = np.random.default_rng(seed)
    y, x = np.arange(count) % 2, 0.2 * dice.uniform(size=(count, *shape))
    wave = 0.7 * (np.arange(shape[0]) // 2 % 2)
    x[y == 0] += wave[:, None, None]
    x[y == 1] += wave[None, :, None]
    return x.reshape(count, -1), y


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, 1, 1, bias=False) for _ in range(2))
        self.norm, self.other = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels, affine=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.norm(self.first(x)))
        out = self.other(self.second(out))
        out += x
        return self.relu(out)


class Honest(nn.Module):
    """Two layers: what most public image networks are made of."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1))
        self.first = nn.Conv2d(3, 8, 5, 1, 2)
        self.norm = nn.BatchNorm2d(8)
        self.apart = nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=4)
        self.block, self.pool, self.small = Residual(8), nn.MaxPool2d(2), nn.AvgPool2d(3, 2, 1)
        self.mean_pool, self.drop, self.last = nn.AdaptiveAvgPool2d((2, 1)), nn.Dropout(0.5), nn.Linear(16, 10)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -0.2, 0.2)
                nn.init.uniform_(module.running_var, 0.5, 1.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = (x - self.mean) / 0.25
        x = functional.silu(self.norm(self.first(x)))
        middle = self.pool(self.block(torch.tanh(self.apart(x))))
        flat = torch.flatten(self.mean_pool(self.small(middle)), 1)
        code = self.last(self.drop(flat))
        return middle, functional.normalize(code, dim=1), torch.cat([flat.view(flat.size(0), -1), code], dim=1)


class Grouped(nn.Module):
    """Normalisation of one image by groups of channels, and by positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.norm, self.last = nn.Conv2d(3, 6, 3), nn.GroupNorm(3, 6), nn.LayerNorm([6, 6])

    def forward(self, x: Tensor) -> Tensor:
        return functional.hardswish(self.last(self.norm(self.first(x)))).amax(dim=[2, 3])


def honest() -> nn.Module:
    return Honest().eval()


_EXPORTED: dict[tuple[Any, ...], bytes] = {}
"""Files of the honest network, which many tests ask for: exporting it takes longer than most of them."""


def saved(module: nn.Module, folder: Path, kind: str = "export", shape: tuple[int, ...] = SHAPE) -> Path:
    """The file of a network, in one of `FORMATS`."""
    path = folder / f"{type(module).__name__}-{kind}.pt2"
    weights = b"".join(tensor.numpy().tobytes() for tensor in module.state_dict().values())
    known = (kind, shape, module.training, weights) if type(module) is Honest else None
    if known is not None and known in _EXPORTED:
        path.write_bytes(_EXPORTED[known])
        return path
    example = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
        torch.export.save(program if kind == "export" else program.run_decompositions(), path)
    if known is not None:
        _EXPORTED[known] = path.read_bytes()
    return path


def scripted(module: nn.Module, folder: Path) -> Path:
    """The file of a network as TorchScript, which is refused."""
    path = folder / f"{type(module).__name__}.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(module), str(path))
    return path


class Neighbours(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(dim=0, keepdim=True)).flatten(1)


class Rolled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + torch.roll(x, 1, 0).flatten(1)


class Similar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return torch.matmul(flat, flat.t())


class Mixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1).reshape(x.size(0), -1)


class Counted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * x.size(0)


class First(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + x[0].flatten()


class Whole(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) / x.sum()


class Chance(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + torch.rand_like(x.flatten(1))


class Seldom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 1e-9, training=True).flatten(1)


class Batches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, training=True).flatten(1)


class Running(nn.Module):
    """Uses the statistics of the batch and keeps them, whatever mode the module is in."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, self.mean, self.var, training=True).flatten(1)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1.0
        return x.flatten(1) * self.seen


class Copying(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 3, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        out = x + self.last
        self.last.copy_(x[:1])
        return out.flatten(1)


class Empty(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + torch.empty_like(x.flatten(1))


class NewEmpty(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) + x.new_empty([1])


class Writing(nn.Module):
    """Writes into the image itself, which is read again."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu_(x)
        return (y + x).flatten(1)


class Rewriting(nn.Module):
    """Writes into a tensor of its own that is read again: an exported program reads what was written."""

    def forward(self, x: Tensor) -> Tensor:
        out = x * 2.0 - 1.0
        positive = torch.relu_(out)
        return (out + positive).flatten(1)


class ThroughView(nn.Module):
    """Writes into a view of a tensor that is read again."""

    def forward(self, x: Tensor) -> Tensor:
        out = x * 2.0
        flat = out.flatten(1)
        torch.relu_(flat)
        return out.mean(dim=(2, 3))


class Branching(nn.Module):
    """Subgraphs of `torch.cond`, one of which counts."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        def one(x: Tensor) -> Tensor:
            return x.flatten(1) + self.seen

        def other(x: Tensor) -> Tensor:
            return x.flatten(1) - self.seen

        self.seen.add_(1.0)
        return torch.cond(x.sum() > 0, one, other, (x,))


class Branching2(nn.Module):
    """Subgraphs of `torch.cond` without state: still a decision by the numbers of all images."""

    def forward(self, x: Tensor) -> Tensor:
        def one(x: Tensor) -> Tensor:
            return x.flatten(1) * 1.0

        def other(x: Tensor) -> Tensor:
            return x.flatten(1) * 2.0

        return torch.cond(x.sum() > 0, one, other, (x,))


class Constantly(nn.Module):
    """Returns something that no image has an influence on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * 2.0


class Sorting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sort(x.flatten(1), dim=0)[0]


class NotFinite(nn.Module):
    """Divides by the brightness of an image, which is 0 for a black one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) / x.sum(dim=(1, 2, 3)).view(x.size(0), 1)


class Restoring(nn.Module):
    """Runs code of its own when it is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.ones(1)

    @torch.jit.export
    def __getstate__(self) -> tuple[Tensor, bool]:
        return self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[Tensor, bool]) -> None:
        torch.save(state[0], "stolen.pt")
        self.weight = state[0]
        self.training = state[1]

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) * self.weight


class Forgetting(nn.Module):
    """Divides by 0 for a black image, and cuts the result to a range."""

    def forward(self, x: Tensor) -> Tensor:
        share = 1.0 / x.sum(dim=(1, 2, 3)).view(x.size(0), 1)
        return torch.clamp(x.flatten(1) + share, 0.0, 1.0)


class ZeroSigns(nn.Module):
    """Tells the zeros apart, behind something large, so that few rows are evaluated together."""

    def forward(self, x: Tensor) -> Tensor:
        large = functional.pad(x, [0, 1300, 0, 300])
        some = x[:, :, 0, 0] + 0.0 * large.amax(dim=[1, 2, 3]).unsqueeze(1)
        return torch.tanh(torch.reciprocal(torch.relu(-some)))[:, 2:3]


class Hidden(nn.Module):
    """Its second layer is 0 for images in their range: its weight does not show in any example."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([weight]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(dim=(2, 3)), torch.relu(x - 2.0).flatten(1) * self.weight


REFUSED: list[nn.Module] = [
    Neighbours(), Rolled(), Similar(), Mixed(), Counted(), First(), Whole(), Chance(), Seldom(), Batches(), Running(),
    Counting(), Copying(), Empty(), NewEmpty(), Sorting(), Writing(), ThroughView(), Constantly(),
    Branching(), Branching2(),
]  # fmt: skip


def named(module: Any) -> str:
    return type(module).__name__
