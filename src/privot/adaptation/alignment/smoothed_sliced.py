"""The loss that aligns a public source with released projections: a Gaussian-smoothed sliced distance, one-sided.

L_c + λ·(√d/C)^q·mean over directions u of W_q^q(clip(g(x_s))·u + N(0, σ²), released), between as many rows of each.
The source side is smoothed by the noise of the release, so that equal distributions are at distance 0. The released
rows are a constant: no gradient can flow back through them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from privot.adaptation.networks import Networks
from privot.mechanisms.directions import directions_of
from privot.release import Release

Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of source rows and their labels."""


def smoothed(
    networks: Networks, release: Release, batch: int, weight: Tensor, random: torch.Generator, power: float = 2.0
) -> tuple[Loss, Callable[[], None]]:
    """(loss, draw): `draw` is called before each step and draws noise and released rows. λ is read from `weight`.

    `power` is q.
    """
    device = weight.device
    released = torch.as_tensor(np.array(release.value), dtype=torch.float32, device=device)
    directions = torch.tensor(directions_of(release.public), dtype=torch.float32, device=device)
    sigma, clip = float(release.public["sigma"]), float(release.public["clip"])
    fuzz = torch.zeros(batch, directions.shape[1], device=device)
    shown = torch.zeros_like(fuzz)

    def before() -> None:
        fuzz.normal_(generator=random)
        shown.copy_(released[torch.randint(len(released), (batch,), generator=random, device=device)])

    def loss(rows: Tensor, labels: Tensor) -> Tensor:
        latent = networks.g(rows)
        norms = torch.linalg.vector_norm(latent, dim=1, keepdim=True).clamp(min=1e-12)
        moved = (latent * (clip / norms).clamp(max=1.0)) @ directions + sigma * fuzz
        gap = moved.sort(dim=0).values - shown.sort(dim=0).values
        moved_mass = gap.square().mean() if power == 2.0 else gap.abs().pow(power).mean()
        aligned = moved_mass * (directions.shape[0] / clip**2) ** (power / 2.0)
        out: Tensor = nn.functional.cross_entropy(networks.h(latent), labels) + weight * aligned
        return out

    return loss, before
