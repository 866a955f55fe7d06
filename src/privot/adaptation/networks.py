"""Representation g and classifier h, built from a plain dictionary; nothing here sees a private record.

The built-in ones "digits" and "features" are those of Rakotomamonjy & Ralaivola 2021, appendix 8.5.2. Your own come by
import path, as "package.module:function"; the function takes (columns, shape, classes) and returns the pair (g, h).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from privot.common.image_axes import image_axes
from privot.errors import DataError, PrivotError, UsageError, brief


class Shaped(nn.Module):
    """Rows of records, scaled from their public range to [0, 1], in the shape (channels, height, width) if images."""

    def __init__(self, shape: Sequence[int] | None, low: float, high: float) -> None:
        super().__init__()
        self.axes = None if shape is None else image_axes(shape)
        self.low, self.span = float(low), float(high) - float(low)

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, columns) → (rows, columns) or (rows, channels, height, width)."""
        unit = ((rows - self.low) / self.span).clamp(0.0, 1.0)
        return unit if self.axes is None else self.axes.pictures(unit)


class Networks(nn.Module):
    """g and h together; `config` is all it takes to build them again."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = dict(config)
        shape = config["shape"]
        columns, classes = int(config["columns"]), int(config["classes"])
        maker = _MAKERS.get(config["kind"]) or _imported(str(config["kind"]))
        g, h = maker(columns, None if shape is None else tuple(shape), classes)
        self.g = nn.Sequential(Shaped(shape, config["low"], config["high"]), g)
        self.h = h
        self.columns, self.classes = columns, classes
        self.eval()
        with torch.no_grad():
            latent = self.g(torch.zeros(2, columns))
            if latent.dim() != 2 or self.h(latent).shape != (2, classes):
                raise UsageError(
                    "The networks must take rows to a latent vector each, and that to one score per class."
                )
        self.size = int(latent.shape[1])

    def forward(self, rows: Tensor) -> Tensor:
        """Scores of every class."""
        out: Tensor = self.h(self.g(rows))
        return out


class Committee(nn.Module):
    """Several networks that vote: the scores are the logarithms of their mean probabilities."""

    def __init__(self, members: Sequence[Networks]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        first = members[0]
        self.config, self.columns, self.classes, self.size = first.config, first.columns, first.classes, first.size

    def forward(self, rows: Tensor) -> Tensor:
        """Scores of every class."""
        logs = torch.stack([torch.log_softmax(member(rows), dim=1) for member in self.members])
        return torch.logsumexp(logs, dim=0) - math.log(len(self.members))


def build_committee(config: Mapping[str, Any], seed: int, members: int) -> Committee:
    """`members` networks that `config` describes, each with weights of its own."""
    return Committee([build(config, (seed + 1000 * number) % 2**63) for number in range(members)])


def build(config: Mapping[str, Any], seed: int) -> Networks:
    """The networks that `config` describes, with weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        try:
            return Networks(config)
        except PrivotError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"These networks cannot be built ({type(error).__name__}): check their settings.") from None


class FrozenRepresentation:
    """g as a mechanism takes it: a copy of the module in evaluation mode, evaluated at the weights of a query."""

    def __init__(self, networks: Networks, device: str) -> None:
        # a copy, so that no hook put on the module later runs beside the records
        self._module = copy.deepcopy(networks.g).to(device).eval()
        self.columns, self.size, self.device = networks.columns, networks.size, device

    def evaluate(self, weights: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """Evaluate g on every row using `weights`."""
        # batch normalisation in evaluation mode uses the public running statistics among the weights
        out: Tensor = functional_call(self._module, dict(weights), (rows,))
        return out


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, detached: what a query may carry."""
    return {name: t.detach() for name, t in module.state_dict().items()}


def _digits(columns: int, shape: tuple[int, ...] | None, classes: int) -> tuple[nn.Module, nn.Module]:
    if shape is None:
        raise UsageError("The network for digits takes images: state their shape, or use the one for features.")
    height, width, channels, _ = image_axes(shape)
    left = [(side - 4) // 2 - 4 for side in (height, width)]
    if min(left) < 1:
        raise UsageError("The network for digits needs images of at least 14 × 14: use the one for features.")
    g = nn.Sequential(
        nn.Conv2d(channels, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 20, 5),
        nn.Sigmoid(),
        nn.Flatten(),
    )
    return g, nn.Sequential(nn.Linear(20 * left[0] * left[1], 100), nn.ReLU(), nn.Linear(100, classes))


def _features(columns: int, shape: tuple[int, ...] | None, classes: int) -> tuple[nn.Module, nn.Module]:
    g = nn.Sequential(nn.Flatten(), nn.Linear(columns, 100), nn.ReLU(), nn.Linear(100, 50), nn.ReLU())
    return g, nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, classes))


def _linear(columns: int, shape: tuple[int, ...] | None, classes: int) -> tuple[nn.Module, nn.Module]:
    return nn.Flatten(), nn.Linear(columns, classes)


def _images(columns: int, shape: tuple[int, ...] | None, classes: int) -> tuple[nn.Module, nn.Module]:
    """Five convolutions with group normalisation, which a record passes alone; about 240,000 weights."""
    if shape is None:
        raise UsageError("The network for images takes images: state their shape, or use the one for features.")
    height, width, channels, _ = image_axes(shape)
    if min(height, width) < 8:
        raise UsageError("The network for images needs images of at least 8 × 8: use the one for features.")

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        return [convolution, nn.GroupNorm(8, outputs), nn.ReLU()]

    g = nn.Sequential(
        *block(channels, 32, 1),
        *block(32, 64, 2),
        *block(64, 64, 1),
        *block(64, 128, 2),
        *block(128, 128, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )
    return g, nn.Linear(512, classes)


_MAKERS: dict[str, Callable[..., tuple[nn.Module, nn.Module]]] = {
    "digits": _digits,
    "images": _images,
    "features": _features,
    "linear": _linear,
}
BUILT_IN = tuple(_MAKERS)


def check_known(kind: object, allowed: str | None) -> None:
    """Refuse to import code that only a file names: `kind` is built in, or what the caller `allowed` by name."""
    if kind not in BUILT_IN and kind != allowed:
        raise DataError(
            f"The folder names the network {brief(kind)}, which is not built in, and privot runs no code that a file "
            "names: if you trust it, state the same network yourself."
        )


def _imported(path: str) -> Callable[..., tuple[nn.Module, nn.Module]]:
    """The function at "package.module:function"."""
    module, _, name = path.partition(":")
    if not name:
        raise UsageError(f"Unknown network {path!r}: say {', '.join(_MAKERS)}, or package.module:function.")
    try:
        found: Callable[..., tuple[nn.Module, nn.Module]] = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise UsageError(
            f"There is no {name!r} in a module {module!r}: check the import path of the network."
        ) from None
    return found
