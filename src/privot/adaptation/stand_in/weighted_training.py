"""A committee for rows of a table, trained on a labelled source that is weighted like unlabelled rows of the target.

A logistic regression tells the two domains apart and so gives every source row a weight (`importance_weights`).
Networks trained with the powers 0, ½ and 1 of the weights are compared on held-out source rows, weighted like the
target (importance-weighted validation, Sugiyama, Krauledat & Müller 2007); the committee learns with the best power.
Power 0 is the plain source: weights that do not pay are not used. All that is seen here is public or was released, and
no label of the target exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.alignment.transformation_fit import Source
from privot.adaptation.alignment.transformations import transformation
from privot.adaptation.networks import Committee, Networks, build, build_committee
from privot.adaptation.stand_in.importance_weights import (
    drawn_by,
    effective_share,
    importance_weights,
    weighted_gain,
)
from privot.adaptation.stand_in.self_training import Schedule, SelfTraining, Views
from privot.errors import DataError

Told = Callable[[int, float], None]
"""Steps done, loss."""
MIN_OVERLAP, MIN_EFFECTIVE = 0.5, 0.02
"""Weights are not used where the source covers less of the target, or where fewer of its records would count."""
_POWERS = (0.0, 0.5, 1.0)
_ROWS = 4096


@dataclass(frozen=True)
class TableChecks:
    """What was found before the weights were used; no target label takes part.

    `overlap` is about 1 where the source covers the target, and smaller where it does not. `effective` is the share of
    the source that the weighted source is worth. `half` and `full` say by how much the weights' square roots and the
    weights themselves lower the weighted loss of held-out source rows, less one standard error.
    """

    overlap: float
    effective: float
    half: float
    full: float

    @property
    def power(self) -> float:
        """The power of the weights that is used; 0 for none."""
        if self.overlap < MIN_OVERLAP or self.effective < MIN_EFFECTIVE or max(self.half, self.full) <= 0.0:
            return 0.0
        return 0.5 if self.half >= self.full else 1.0

    def to_dict(self) -> dict[str, float]:
        """As plain JSON types."""
        return dict(vars(self))


class WeightedTraining:
    """The training of a committee that `config` describes, from public rows in [0, 1] and their labels."""

    def __init__(
        self,
        config: dict[str, Any],
        settings: AdaptationConfig,
        seed: int,
        x: NDArray[Any],
        y: NDArray[np.int64],
        device: str,
    ) -> None:
        self.config, self.settings, self.seed, self.device = config, settings, seed, torch.device(device)
        self.source = Source.of(x, y, (0.0, 1.0), self.device)
        self.networks: Committee = build_committee(config, seed, settings.members).to(self.device)
        self.change = transformation(None, int(config["columns"]), int(config["classes"])).to(self.device)
        order = np.random.default_rng(seed).permutation(len(x))
        tenth = max(1, len(order) // 10)
        self._held_out, self._rows = order[:tenth], order[tenth:]
        if not len(self._rows):
            raise DataError("The source has one record: adaptation needs at least two.")
        self.losses: list[float] = []
        self._steps = 0

    @property
    def total(self) -> int:
        """Steps in all: of the networks that are compared, and of the members."""
        s = self.settings
        return len(_POWERS) * s.check + s.members * s.finish

    def run(self, target: NDArray[np.float64] | None, tell: Told | None = None) -> TableChecks | None:
        """Train the committee for unlabelled rows like `target`, of shape (rows, columns); None for the plain source.

        Returns what the checks found, None without a target.
        """
        s = self.settings
        self.losses, self._steps = [], 0
        weights, checks, stand_in = np.ones(len(self.source.x)), None, None
        if target is not None:
            rows = self.source.x.cpu().numpy().astype(np.float64)
            weights, overlap = importance_weights(rows, target, self.seed)
            checks = self._checked(weights, overlap, tell)
            if s.weight:
                stand_in = torch.as_tensor(target, dtype=torch.float32, device=self.device)
        chosen = self._drawn(weights, 0.0 if checks is None else checks.power)
        schedule = Schedule(s.finish, s.batch, s.learning_rate, 0.0 if stand_in is None else s.weight, s.threshold)
        for number, member in enumerate(self.networks.members):
            member.load_state_dict(self._trained(number, schedule, chosen, tell, stand_in).state_dict())
        self.networks.eval()
        return checks

    def _drawn(self, weights: NDArray[np.float64], power: float) -> Tensor:
        """Source rows to learn from, each as often as its weight to the `power` says."""
        places = drawn_by(weights[self._rows] ** power, 4 * len(self._rows), self.seed)
        return torch.as_tensor(self._rows[places], device=self.device)

    def _checked(self, weights: NDArray[np.float64], overlap: float, tell: Told | None) -> TableChecks:
        s, held = self.settings, weights[self._held_out]
        schedule = Schedule(s.check, s.batch, s.learning_rate)
        losses = [
            self._held_out_losses(self._trained(0, schedule, self._drawn(weights, power), tell)) for power in _POWERS
        ]
        gains = [weighted_gain(losses[0], other, held) for other in losses[1:]]
        return TableChecks(overlap, effective_share(weights), *gains)

    def _trained(
        self, number: int, schedule: Schedule, rows: Tensor, tell: Told | None, stand_in: Tensor | None = None
    ) -> Networks:
        networks = build(self.config, (self.seed + 1000 * number) % 2**63).to(self.device)
        random = torch.Generator(device=self.device)
        random.manual_seed((self.seed + 1 + 1000 * number) % 2**63)
        views, before = Views(self.source, self.change, False), self._steps
        training = SelfTraining(networks, views, rows, schedule, random, stand_in=stand_in)

        def told(step: int, loss: float) -> None:
            self.losses.append(loss)
            if tell is not None:
                tell(min(before + step, self.total), loss)

        made = training.run(told)
        self._steps += schedule.steps
        return made

    @torch.no_grad()
    def _held_out_losses(self, network: Networks) -> NDArray[np.float64]:
        parts = []
        for some in torch.split(torch.as_tensor(self._held_out, device=self.device), _ROWS):
            found = functional.cross_entropy(network(self.source.x[some]), self.source.y[some], reduction="none")
            parts.append(found.double().cpu().numpy())
        return np.concatenate(parts)
