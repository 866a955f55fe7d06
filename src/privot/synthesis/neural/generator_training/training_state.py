"""A training under way: weights, optimiser, random numbers; it sees releases, never a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch

from privot.common.cuda_graphs import adam, cosine, set_rate
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generators.generator import Generator, build

Progress = Callable[[int, int, float], None]
"""Step, steps in all, loss."""


@dataclass
class TrainingState:
    """A training under way: everything that `checkpoint` keeps, so that it continues exactly where it was."""

    generator: Generator
    optimizer: torch.optim.Optimizer
    random: torch.Generator
    rules: Rules
    step: int = 0
    losses: list[float] = field(default_factory=list)
    average: Generator | None = None
    """The mean of past weights, if the rules require one: it averages out noise that stays in the last weights."""

    @classmethod
    def start(cls, rules: Rules, seed: int, device: str) -> TrainingState:
        """Fresh weights from `seed`, which is public."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            generator = build(rules.generator)
            average = build(rules.generator) if rules.options.get("average") else None
        generator.to(device)
        if device == "cuda":
            # half-precision convolutions run on tensor cores only in this layout
            generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if average is not None:
            average.to(device).load_state_dict(generator.state_dict())
        random = torch.Generator(device=device)
        random.manual_seed((seed + 1) % 2**63)
        optimizer: torch.optim.Optimizer
        if rules.options.get("optimizer", "adam") == "sgd":
            optimizer = torch.optim.SGD(generator.parameters(), lr=rules.learning_rate, momentum=0.9)
        else:
            optimizer = adam(generator, rules.learning_rate, betas=(0.5, 0.99))
        return cls(generator, optimizer, random, rules, average=average)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.random.device

    @property
    def best(self) -> Generator:
        """The generator that samples are drawn from: the average, if there is one."""
        return self.generator if self.average is None else self.average

    @torch.no_grad()
    def average_in(self, decay: float) -> None:
        """ā ← ā + (1 − decay_t)(a − ā), decay_t = min(decay, t/(t + 10)): short at first; statistics are taken over."""
        if self.average is None:
            return
        weight = 1.0 - min(decay, self.step / (self.step + 10.0))
        means, news, kept, given = self._averaged
        torch._foreach_lerp_(means, news, weight)
        if kept:
            torch._foreach_copy_(kept, given)

    @cached_property
    def _averaged(self) -> tuple[list[torch.Tensor], ...]:
        """Weights of the average and of the generator, buffers of both; gathered once, since a step is short."""
        assert self.average is not None
        mean, now = self.average, self.generator
        return [*mean.parameters()], [*now.parameters()], [*mean.buffers()], [*now.buffers()]

    def decay_rate(self) -> None:
        """The learning rate on a cosine from the rules' to zero, also for a recorded step."""
        self.generator.ease(self.step / self.rules.steps)
        set_rate(self.optimizer, cosine(self.rules.learning_rate, self.step, self.rules.steps))

    def draw(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """z of shape (rows, latent), and labels that cycle through all classes."""
        z = torch.randn(rows, self.generator.latent, generator=self.random, device=self.device)
        return z, self.labels(rows)

    def labels(self, rows: int) -> torch.Tensor:
        """Labels that cycle through all classes."""
        return torch.arange(rows, device=self.device) % self.generator.classes


def generated(generator: torch.nn.Module, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """G(z, labels), on a GPU computed in half precision but for the head."""
    with torch.autocast("cuda", torch.bfloat16, enabled=z.is_cuda):
        out: torch.Tensor = generator(z, labels)
    return out
