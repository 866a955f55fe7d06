"""Adaptation without privacy, on arrays: the baselines of private methods, for open data only.

Same networks, optimiser, augmentation and number of steps as the private methods. Never pass private records
here: the gradient sees them without noise. No vault, no ledger and no guarantee takes part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.adaptation.adaptation_methods.source_alone import Source
from privot.adaptation.adapter import DomainAdapter
from privot.adaptation.alignment.adversarial import discriminator, domain_loss, reverse
from privot.adaptation.learner import Learner
from privot.common.devices import usable_device
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.kinds import Images, Vectors
from privot.mechanisms import Facts

SLICES = 200
"""Most directions of the sliced distance in a step; λ rises to 1."""


def adapt_openly(
    source: tuple[Any, Any],
    target: Any,
    method: str,
    *,
    shape: tuple[int, ...] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    network: str | None = None,
    settings: Source | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> DomainAdapter:
    """A classifier trained on the labelled `source` and the unlabelled, open `target`, without any privacy.

    Parameters
    ----------
    source
        Records (n, d) and labels.
    target
        Open records (m, d).
    method
        "source" (no adaptation), "swd" (Lee et al. 2019) or "dann" (Ganin et al. 2016).
    shape, low, high
        The public shape of an image, None for vectors, and the public range of values.
    network
        As of `DomainAdapter`.
    settings
        Of the training on the source; chosen by the sizes unless given.
    device, seed
        Where it is trained, and the seed of everything that is drawn.

    Returns
    -------
    DomainAdapter
        Fitted, with `predict` and `score`; its `guarantee_` is None, because nothing is protected.

    Examples
    --------
    >>> dice = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> x = dice.normal(size=(60, 4)) * 0.1 + y[:, None]
    >>> adapter = adapt_openly((x, y), x + 0.2, "swd", low=-1.0, high=2.0, settings=Source(warmup=5, finish=20))
    >>> adapter.guarantee_ is None, adapter.predict(x).shape
    (True, (60,))
    """
    aligned = _term(method)
    where = usable_device(device, auto=True)
    rows = np.asarray(target)
    if rows.ndim != 2 or len(rows) < 2:
        raise UsageError(f"The target must have at least two records of shape (records, columns), got {rows.shape}.")
    kind = Vectors(low=low, high=high) if shape is None else Images(shape, low=low, high=high)
    # what the adapter states of ε and δ is of no use here: its method releases nothing
    adapter = DomainAdapter(1.0, 1e-5, method=settings or Source(), network=network, kind=kind, device=where, seed=seed)
    facts = Facts(dim=rows.shape[1], records=len(rows), clip=1.0, adjacency=Adjacency.REPLACE_ONE)
    if aligned is None:
        return adapter.baseline(facts, source)
    x, y = (np.asarray(part) for part in source)
    design = adapter.design(facts, (x, y))
    learner = train_openly(OpenLearner(design, x, y.astype(np.int64), where), rows, method)
    adapter.networks_, adapter.guarantee_, adapter.design_ = learner.networks, None, design
    return adapter


class OpenLearner(Learner):
    """Networks and a discriminator, which are trained together."""

    def beside(self) -> list[nn.Module]:
        """The discriminator."""
        self.judge = discriminator(self.networks.size, self.design.networks["kind"], self.design.seed).to(self.device)
        return [self.judge]


def train_openly(learner: OpenLearner, target: np.ndarray[Any, Any], method: str) -> OpenLearner:
    """All steps of `learner` with an alignment term that uses `target` without privacy.

    swd: L_c + λ·SW₂²(g(x_s), g(x_t)), the gradient through both sides (Lee et al. 2019). dann: Ganin et al. 2016.
    """
    aligned = _term(method)
    rows = torch.as_tensor(np.asarray(target, dtype=np.float32), device=learner.device)
    size, device = learner.networks.size, learner.device
    chosen = torch.zeros(learner.settings.batch, dtype=torch.int64, device=device)
    directions = torch.zeros(size, min(SLICES, size), device=device)
    weight = torch.zeros((), device=device)

    def before() -> None:
        # λ rises over the whole of it: the learner knows no alignment in a training on the source alone
        weight.fill_(2.0 / (1.0 + math.exp(-10.0 * learner.step / learner.total)) - 1.0)
        chosen.random_(0, len(rows), generator=learner.random)
        directions.normal_(generator=learner.random)

    def loss(public: Tensor, labels: Tensor) -> Tensor:
        here, there = learner.networks.g(public), learner.networks.g(rows[chosen])
        told = nn.functional.cross_entropy(learner.networks.h(here), labels)
        return told if aligned is None else told + aligned(learner, here, there, weight, directions)

    learner.steps(learner.total, loss, before=before)
    learner.networks.eval()
    return learner


Term = Callable[[OpenLearner, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Of the loss, from the latents of both domains, λ and directions."""


def _sliced(learner: OpenLearner, here: Tensor, there: Tensor, weight: Tensor, directions: Tensor) -> Tensor:
    """λ·SW₂²."""
    u = directions / torch.linalg.vector_norm(directions, dim=0)
    gap = (here @ u).sort(dim=0).values - (there @ u).sort(dim=0).values
    out: Tensor = weight * gap.square().mean()
    return out


def _adversarial(learner: OpenLearner, here: Tensor, there: Tensor, weight: Tensor, directions: Tensor) -> Tensor:
    """The discriminator's loss, which g climbs by λ."""
    judged = domain_loss(learner.judge(reverse(here, weight)), source=True)
    return judged + domain_loss(learner.judge(reverse(there, weight)), source=False)


OPEN: dict[str, Term | None] = {"source": None, "swd": _sliced, "dann": _adversarial}
"""By method; the first looks at no target at all."""
OPEN_METHODS = tuple(OPEN)


def _term(method: str) -> Term | None:
    """The term of a baseline."""
    try:
        return OPEN[method]
    except KeyError:
        raise UsageError(f"Unknown open baseline {method!r}: use {', '.join(OPEN_METHODS)}.") from None
