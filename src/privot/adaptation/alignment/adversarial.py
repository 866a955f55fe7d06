"""The adversary of DANN (Ganin et al. 2016): a discriminator, its loss and a reversed gradient; on open rows.

A discriminator D tells domains apart, L_d = −E log D(g(x_s)) − E log(1 − D(g(x_t))); D descends on it, g ascends by λ.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def discriminator(size: int, kind: str, seed: int) -> nn.Module:
    """Two layers, to one score: which domain a representation comes from (appendix 8.5.2)."""
    hidden = 100 if kind == "digits" else 50
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed((seed + 7) % 2**63)
        return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, 1))


def domain_loss(scores: Tensor, source: bool) -> Tensor:
    """The mean of −log D for source rows, of −log(1 − D) for target rows."""
    return nn.functional.softplus(-scores if source else scores).mean()


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
