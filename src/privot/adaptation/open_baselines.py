"""Adaptation without privacy, on arrays: the baselines of private methods, for public data only.

Same networks, optimiser, augmentation and number of steps as the private methods. Never pass private records
here: the gradient sees them without noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.adaptation.alignment.adversarial import domain_loss, reverse
from privot.adaptation.learner import Learner
from privot.errors import UsageError

OPEN = ("swd", "dann")


def train_openly(learner: Learner, target: np.ndarray[Any, Any], method: str) -> Learner:
    """All steps of `learner` (of the method "source") with an alignment term that uses `target` without privacy.

    swd: L_c + λ·SW₂²(g(x_s), g(x_t)), the gradient through both sides (Lee et al. 2019). dann: Ganin et al. 2016.
    """
    if method not in OPEN:
        raise UsageError(f"Unknown open baseline {method!r}: say {' or '.join(OPEN)}.")
    rows = torch.as_tensor(np.asarray(target, dtype=np.float32), device=learner.device)
    s, size, device = learner.design.settings, learner.networks.size, learner.device
    chosen = torch.zeros(s.batch, dtype=torch.int64, device=device)
    directions = torch.zeros(size, min(s.slices, size), device=device)
    weight = torch.zeros((), device=device)

    def before() -> None:
        # λ rises over the whole of it: the learner knows no alignment in a training on the source alone
        weight.fill_(s.weight * (2.0 / (1.0 + math.exp(-10.0 * learner.step / learner.total)) - 1.0))
        chosen.random_(0, len(rows), generator=learner.random)
        directions.normal_(generator=learner.random)

    def loss(public: Tensor, labels: Tensor) -> Tensor:
        here, there = learner.networks.g(public), learner.networks.g(rows[chosen])
        told = nn.functional.cross_entropy(learner.networks.h(here), labels)
        if method == "swd":
            return told + weight * _sliced(here, there, directions)
        told = told + domain_loss(learner.judge(reverse(here, weight)), source=True)
        return told + domain_loss(learner.judge(reverse(there, weight)), source=False)

    learner.steps(learner.total, loss, before=before)
    learner.networks.eval()
    return learner


def _sliced(here: Tensor, there: Tensor, directions: Tensor) -> Tensor:
    u = directions / torch.linalg.vector_norm(directions, dim=0)
    gap = (here @ u).sort(dim=0).values - (there @ u).sort(dim=0).values
    out: Tensor = gap.square().mean()
    return out
