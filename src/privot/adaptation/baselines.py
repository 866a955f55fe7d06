"""Adaptation without any privacy, on arrays: what private methods are compared with, on data that is public anyway.

Same networks, optimiser, augmentation and number of steps as the private methods. Nothing here may be given records
that somebody's privacy depends on: the gradient sees them as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.adaptation.adversarial import domain_loss, reverse
from privot.adaptation.learning import Learner
from privot.errors import UsageError
from privot.transport.directions import draw_directions

OPEN = ("swd", "dann")


def train_openly(learner: Learner, target: np.ndarray[Any, Any], method: str) -> Learner:
    """All steps of `learner` (of the method "source") with an alignment term that looks at `target` openly.

    swd: L_c + λ·SW₂²(g(x_s), g(x_t)), the gradient through both sides (Lee et al. 2019). dann: Ganin et al. 2016.
    """
    if method not in OPEN:
        raise UsageError(f"Unknown open baseline {method!r}: say {' or '.join(OPEN)}.")
    rows = torch.as_tensor(np.asarray(target, dtype=np.float32), device=learner.device)
    s = learner.design.settings
    while learner.step < learner.total:
        # λ rises over the whole of it: `weight` knows no alignment in a training on the source alone
        share = learner.step / learner.total
        weight = s.weight * (2.0 / (1.0 + float(np.exp(-10.0 * share))) - 1.0)
        public, labels = learner.batch()
        chosen = torch.randint(len(rows), (s.batch,), generator=learner.random, device=learner.device)
        here, there = learner.networks.g(public), learner.networks.g(rows[chosen])
        loss = nn.functional.cross_entropy(learner.networks.h(here), labels)
        if method == "swd":
            loss = loss + weight * _sliced(here, there, s.slices, learner.design.seed, learner.step)
        else:
            told = domain_loss(learner.judge(reverse(here, weight)), source=True)
            loss = loss + told + domain_loss(learner.judge(reverse(there, weight)), source=False)
        learner.descend(loss)
    learner.networks.eval()
    return learner


def _sliced(here: Tensor, there: Tensor, slices: int, seed: int, step: int) -> Tensor:
    directions = draw_directions(here.shape[1], min(slices, here.shape[1]), "independent", seed, step)
    u = torch.as_tensor(directions, dtype=here.dtype, device=here.device)
    gap = (here @ u).sort(dim=0).values - (there @ u).sort(dim=0).values
    return gap.square().mean()
