"""Trains one network on labelled source records and on unlabelled stand-in records; all it sees is public or released.

The loss of a step is the cross entropy of augmented source records, plus λ times that of strongly augmented stand-in
records with the labels that the averaged network gives to weakly augmented ones, where it is sure (FixMatch, Sohn et
al. 2020). The labels' distribution is pulled half way to the source's. The averaged network, an exponential moving
average of the trained one, is the result.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from privot.adaptation.alignment.transformation_fit import Source
from privot.adaptation.alignment.transformations import Transformation
from privot.adaptation.networks import Networks
from privot.common.cuda_graphs import adam, cosine, recorded, set_rate
from privot.errors import ConvergenceError

Progress = Callable[[int, float], None]
"""Steps done, loss."""

WEAK = 0.2
"""By how much the spreads of a weak augmentation are smaller than those of a strong one."""
_DECAY, _EARLY_DECAY, _EARLY = 0.995, 0.9, 200
"""Of the averaged weights; early ones are forgotten faster."""
_SHOWN = 20
"""Steps between two readings of the loss, since a device waits for each."""


@dataclass(frozen=True)
class Views:
    """How records are shown: `augment` at random, within the public family; `change` also to the target's style."""

    source: Source
    augment: Transformation
    bend: bool
    change: Transformation | None = None
    """The fitted transformation; half of every batch is shown through it where there is one."""
    wide: float = 1.0

    def draws(self) -> int:
        """How many standard normal numbers a record takes."""
        return self.augment.draws(self.bend)

    def shown(self, unit: Tensor, drawn: Tensor) -> Tensor:
        """Records in [0, 1], augmented; the second half through the fitted transformation."""
        if self.change is None:
            return self.strong(unit, drawn)
        half = len(unit) // 2
        first = self.strong(unit[:half], drawn[:half])
        return torch.cat([first, self.change(unit[half:], drawn[half:], self.wide, self.bend)])

    def strong(self, unit: Tensor, drawn: Tensor) -> Tensor:
        """Stand-in records in [0, 1], augmented; they have the target's style already."""
        made: Tensor = self.augment(unit, drawn, 1.0, self.bend)
        return made

    def weak(self, unit: Tensor, drawn: Tensor) -> Tensor:
        """The same, hardly changed."""
        made: Tensor = self.augment(unit, drawn, WEAK, False)
        return made

    def records(self, unit: Tensor) -> Tensor:
        """From [0, 1] back to the records' own unit."""
        return self.source.low + self.source.span * unit


@dataclass(frozen=True)
class Schedule:
    """How long and how fast one network is trained."""

    steps: int
    batch: int
    rate: float
    weight: float = 0.0
    """λ, what the stand-in weighs at the end of its rise."""
    threshold: float = 0.9
    """The least probability of a label that is learned from."""


class SelfTraining:
    """One training: the network, its average, the optimiser, and buffers that a recorded step reads."""

    def __init__(
        self,
        networks: Networks,
        views: Views,
        rows: Tensor,
        schedule: Schedule,
        random: torch.Generator,
        labels: Tensor | None = None,
        stand_in: Tensor | None = None,
    ) -> None:
        """`rows` are the numbers of the source records to learn from, or, with `labels`, records themselves."""
        self.networks, self.views, self.schedule, self.random = networks, views, schedule, random
        self.average = copy.deepcopy(networks).eval()
        self.optimizer = adam(networks, schedule.rate)
        self._rows, self._labels, self._stand_in = rows, labels, stand_in
        device, batch, draws = next(networks.parameters()).device, schedule.batch, views.draws()
        # group normalisation and convolutions wait for memory on a GPU; networks of others may not bear half precision
        self._half = device.type == "cuda" and networks.config["kind"] == "images"
        self._chosen = torch.zeros(batch, dtype=torch.int64, device=device)
        self._drawn = torch.zeros(batch, draws, device=device)
        self._weight, self._loss, self._rate = (torch.zeros((), device=device) for _ in range(3))
        self._share = torch.full((networks.classes,), 1.0 / networks.classes, device=device)
        self._wanted = self._class_shares()
        unlabelled = 2 * batch if stand_in is not None else 0
        self._other = torch.zeros(unlabelled, dtype=torch.int64, device=device)
        self._weakly, self._strongly = (torch.zeros(unlabelled, draws, device=device) for _ in range(2))

    def run(self, progress: Progress | None = None) -> Networks:
        """Train to the end; the averaged network. The learning rate falls as a cosine to 0."""
        schedule, run = self.schedule, None
        self.networks.train()
        for step in range(schedule.steps):
            set_rate(self.optimizer, cosine(schedule.rate, step, schedule.steps))
            self._weight.fill_(schedule.weight * min(1.0, 3.0 * step / schedule.steps))
            self._rate.fill_(1.0 - (_DECAY if step >= _EARLY else _EARLY_DECAY))
            self._draw()
            # recording warms up, and puts back the weights of both networks after it
            run = run or recorded(nn.ModuleList([self.networks, self.average]), self.optimizer, self._step)
            run()
            if progress is not None and (step % _SHOWN == _SHOWN - 1 or step + 1 == schedule.steps):
                loss = float(self._loss)
                if not math.isfinite(loss):
                    raise ConvergenceError(f"The loss became non-finite (step {step + 1}): lower the learning rate.")
                progress(step + 1, loss)
        return self.average.eval()

    def _class_shares(self) -> Tensor:
        labels = self.views.source.y if self._labels is None else self._labels
        counts = torch.bincount(labels, minlength=self.networks.classes).to(self._share)
        return counts / counts.sum()

    def _draw(self) -> None:
        device, random = self._chosen.device, self.random
        self._chosen.copy_(torch.randint(len(self._rows), self._chosen.shape, generator=random, device=device))
        self._drawn.normal_(generator=random)
        if self._stand_in is not None:
            self._other.copy_(torch.randint(len(self._stand_in), self._other.shape, generator=random, device=device))
            self._weakly.normal_(generator=random)
            self._strongly.normal_(generator=random)

    def _labelled(self) -> tuple[Tensor, Tensor]:
        """Records in [0, 1] and their labels, as chosen."""
        chosen = self._rows[self._chosen]
        if self._labels is not None:
            return chosen, self._labels[self._chosen]
        return self.views.source.unit(self.views.source.x[chosen]), self.views.source.y[chosen]

    def _scores(self, networks: Networks, unit: Tensor) -> Tensor:
        """Scores of records in [0, 1]; the weights are kept, and learn, in single precision either way."""
        rows = self.views.records(unit)
        if self._half:
            weights = {name: p.to(torch.bfloat16) for name, p in networks.named_parameters()}
            scores: Tensor = torch.func.functional_call(networks, weights, (rows.to(torch.bfloat16),)).float()
        else:
            scores = networks(rows)
        return scores

    def _step(self) -> None:
        views = self.views
        with torch.no_grad():
            unit, labels = self._labelled()
            shown = views.shown(unit, self._drawn)
        if self._stand_in is None:
            loss = functional.cross_entropy(self._scores(self.networks, shown), labels)
        else:
            with torch.no_grad():
                other = self._stand_in[self._other]
                told = torch.softmax(self._scores(self.average, views.weak(other, self._weakly)), dim=1)
                self._share.mul_(0.98).add_(told.mean(dim=0), alpha=0.02)
                told = told * (self._wanted.clamp(min=1e-6) / self._share.clamp(min=1e-6)).sqrt()
                sure, guessed = (told / told.sum(dim=1, keepdim=True)).max(dim=1)
                kept = (sure >= self.schedule.threshold).to(sure)
                strong = views.strong(other, self._strongly)
            scores = self._scores(self.networks, torch.cat([shown, strong]))
            batch = len(labels)
            learned = (functional.cross_entropy(scores[batch:], guessed, reduction="none") * kept).mean()
            loss = functional.cross_entropy(scores[:batch], labels) + self._weight * learned
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self._loss.copy_(loss.detach())
        with torch.no_grad():
            for averaged, new in zip(self.average.parameters(), self.networks.parameters(), strict=True):
                averaged.lerp_(new, self._rate)
            for held, fresh in zip(self.average.buffers(), self.networks.buffers(), strict=True):
                held.copy_(fresh)
