"""The adversary of DANN: per-record gradients of its loss on the private side, and its loss on the public side.

Ganin et al. 2016: a discriminator D tells domains apart, L_d = −E log D(g(x_s)) − E log(1 − D(g(x_t))); D descends on
it, g ascends by λ. With privacy, the private term's gradient comes as DP-SGD's noisy sum of clipped ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from privot.errors import UsageError

Array = NDArray[np.float64]


def mixing_layers(module: nn.Module) -> list[str]:
    """Names of layers that share statistics between the records of a batch."""
    return [n for n, layer in module.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


def domain_loss(scores: Tensor, source: bool) -> Tensor:
    """The mean of −log D for source rows, of −log(1 − D) for target rows."""
    return nn.functional.softplus(-scores if source else scores).mean()


class Judged(nn.Module):
    """g followed by the discriminator."""

    def __init__(self, g: nn.Module, judge: nn.Module) -> None:
        super().__init__()
        self.g, self.judge = g, judge

    def forward(self, rows: Tensor) -> Tensor:
        """One score per row."""
        out: Tensor = self.judge(self.g(rows))
        return out


class DomainGradients:
    """∇ −log(1 − D(g(x))) at public weights, per record, of g's parameters and then the discriminator's; float64."""

    def __init__(self, judged: Judged) -> None:
        mixing = mixing_layers(judged)
        if mixing:
            raise UsageError(
                f"The layer {mixing[0]!r} shares statistics between records, so clipping one gradient does not bound "
                "one record: use group normalisation."
            )
        self._judged = judged
        self._names = [name for name, _ in judged.named_parameters()]
        self._shapes = [tuple(p.shape) for p in judged.parameters()]
        self._sizes = [p.numel() for p in judged.parameters()]
        self.size = sum(self._sizes)
        self.device = next(judged.parameters()).device
        self._buffers = {n: b.double() if b.is_floating_point() else b for n, b in judged.named_buffers()}

        def loss(params: dict[str, Tensor], x: Tensor) -> Tensor:
            return domain_loss(functional_call(judged, {**params, **self._buffers}, (x.unsqueeze(0),)), source=False)

        self._each = vmap(grad(loss), in_dims=(None, 0))

    def weights(self) -> Array:
        """The current parameters as one vector."""
        parts = [p.detach().cpu().double().reshape(-1) for p in self._judged.parameters()]
        return np.asarray(torch.cat(parts).numpy())

    def split(self, flat: Any, kind: torch.dtype = torch.float64) -> dict[str, Tensor]:
        """One vector as tensors by name."""
        parts = torch.split(torch.as_tensor(np.asarray(flat), dtype=kind, device=self.device), self._sizes)
        named = zip(self._names, parts, self._shapes, strict=True)
        return {name: part.reshape(shape).clone() for name, part, shape in named}

    def each(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array | Tensor:
        """One gradient per record, of shape (records, size); labels are not looked at."""
        x = torch.as_tensor(np.asarray(rows), dtype=torch.float64, device=self.device)
        found = self._each(self.split(weights), x)
        flat = torch.cat([found[name].reshape(len(rows), -1) for name in self._names], dim=1)
        return flat if flat.device.type == "cuda" else np.asarray(flat.numpy())

    def rehearse(self, weights: Array, columns: int) -> None:
        """Refuse networks whose gradients cannot be taken record by record, on public rows."""
        try:
            self.each(weights, np.zeros((2, columns)), np.zeros(2, dtype=np.int64))
        except Exception as error:
            raise UsageError(
                f"The networks' gradients cannot be taken one record at a time ({type(error).__name__}): use layers "
                "that keep nothing and draw nothing."
            ) from None

    def mean(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array:
        """The mean gradient."""
        each = self.each(weights, rows, labels)
        return np.asarray(torch.as_tensor(each).mean(dim=0).cpu().numpy())


class _Reverse(torch.autograd.Function):
    """The identity with a reversed gradient (Ganin et al. 2016)."""

    @staticmethod
    def forward(ctx: Any, latent: Tensor, weight: float | Tensor) -> Tensor:
        ctx.weight = weight
        return latent.view_as(latent)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return -ctx.weight * slopes[0], None


def reverse(latent: Tensor, weight: float | Tensor) -> Tensor:
    """`latent`, with its gradient multiplied by −`weight`."""
    out: Tensor = _Reverse.apply(latent, weight)  # type: ignore[no-untyped-call]
    return out
