"""DP-DANN, the baseline of Rakotomamonjy & Ralaivola 2021: DANN whose private gradient comes as DP-SGD's.

Ganin et al. 2016: a discriminator D tells domains apart, L_d = −E log D(g(x_s)) − E log(1 − D(g(x_t))); D descends on
it, g ascends by λ. With privacy, the private term's gradient is a noisy sum of clipped per-record gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from privot.accounting import gradient
from privot.adaptation.adaptation_config import CHOSEN, Sizes, TrainedConfig
from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod
from privot.adaptation.adaptation_methods.sliced_alignment import check_sample
from privot.adaptation.alignment.adversarial import discriminator, domain_loss, reverse
from privot.adaptation.learner import Learner, Progress
from privot.adaptation.networks import build
from privot.errors import UsageError
from privot.mechanisms import ClippedGradients, Facts, Mechanism
from privot.mechanisms.gradients.dp_sgd import default_sampling
from privot.mechanisms.gradients.gradient_function import Query
from privot.release import Release
from privot.vault.stream import Stream

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SampledConfig(TrainedConfig):
    """Of a method that pays for a release of a sample before every step."""

    weight: float = CHOSEN
    """λ, the weight of alignment at the end of its rise."""
    blocks: int = CHOSEN  # type: ignore[misc]
    releases_per_block: int = CHOSEN  # type: ignore[misc]
    sample: int = CHOSEN

    @classmethod
    def usual(cls, sizes: Sizes, **more: Any) -> SampledConfig:
        """Few steps, after the source was learned: DP-SGD pays for each step, and gradients per record are slow."""
        batch = min(128 if sizes.image else 32, max(2, sizes.records // 4))
        blocks, each = (10, 50) if sizes.image else (4, 20)
        return cls(
            learning_rate=sizes.trained()["learning_rate"], augment=sizes.image, warmup=sizes.steps // 2, finish=0,
            batch=batch, sample=batch, weight=1.0, blocks=blocks, releases_per_block=each, **more,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DpDann(SampledConfig):
    """Noisy gradients of DANN's adversary."""

    name: ClassVar[str] = "dp-dann"

    clip: float = CHOSEN
    """The largest norm of one record's gradient."""


class SampledLearner(Learner):
    """Takes one step after every release."""

    settings: SampledConfig

    @property
    def strength(self) -> float:
        """λ at the end of its rise."""
        return self.settings.weight

    @property
    def aligned(self) -> int:
        """Steps that use a release."""
        return self.settings.releases


class DannLearner(SampledLearner):
    """g, h and a discriminator, trained together: L_c − λ·L_d for g, L_d for the discriminator."""

    settings: DpDann
    parts = ("networks", "judge", "change")

    def __init__(
        self, design: AdaptationDesign, x: NDArray[Any], y: NDArray[np.int64], device: str, folder: Path | None = None
    ) -> None:
        super().__init__(design, x, y, device, folder)
        # a copy in float64, whose weights come from the query alone
        twin = build(design.networks, design.seed).to(self.device).double()
        self.domain = DomainGradients(Judged(twin.g, self._discriminator().double()))
        self.query = Query(self.domain.weights())

    def beside(self) -> list[nn.Module]:
        """The discriminator."""
        self.judge = self._discriminator()
        return [self.judge]

    def _discriminator(self) -> nn.Module:
        return discriminator(self.networks.size, self.design.networks["kind"], self.design.seed).to(self.device)

    def mechanism(self) -> Mechanism:
        """Clipped gradients of the discriminator's loss, at the weights of the query."""
        s, facts, sigma = self.settings, self.design.facts, self.design.sigma
        assert sigma is not None
        sampling = default_sampling(facts.adjacency, s.sample / (facts.records or 1), facts.records)
        return ClippedGradients(self.domain, self.query, sigma, s.clip, sampling, s.releases_per_block, labels=False)

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse networks whose gradients cannot be taken record by record."""
        self.domain.rehearse(self.query.weights, int(self.design.networks["columns"]))

    def take(self, stream: Stream) -> Release:
        """The gradient at the present weights."""
        judged = Judged(self.networks.g, self.judge)
        flat = torch.cat([p.detach().double().reshape(-1) for p in judged.parameters()])
        self.query.set(flat.cpu().numpy())
        return next(stream)

    def learn(self, release: Release, tell: Progress | None = None) -> None:
        """One step; the target's part of L_d comes as the released gradient."""
        rows, labels = self.batch()
        self.optimizer.zero_grad(set_to_none=True)
        latent = self.networks.g(rows)
        loss = nn.functional.cross_entropy(self.networks.h(latent), labels)
        judged = domain_loss(self.judge(reverse(latent, self.weight())), source=True)
        (loss + judged).backward()  # type: ignore[no-untyped-call]
        private = self.domain.split(np.asarray(release.value) / self.settings.sample)
        for name, p in Judged(self.networks.g, self.judge).named_parameters():
            share = -self.weight() if name.startswith("g.") else 1.0
            found = share * private[name].to(p)
            p.grad = found if p.grad is None else p.grad + found
        self.apply(loss, tell)


def mixing_layers(module: nn.Module) -> list[str]:
    """Names of layers that share statistics between the records of a batch."""
    return [n for n, layer in module.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


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


class DpDannMethod(AdaptationMethod):
    """Sums of clipped gradients of a discriminator, proven as `ClippedGradients` is."""

    config = DpDann
    learner = DannLearner

    def defaults(self, sizes: Sizes) -> SampledConfig:
        """Gradients of norm 1."""
        return DpDann.usual(sizes, clip=1.0)

    def sigma(self, settings: DpDann, size: int, facts: Facts, epsilon: float, delta: float) -> float:
        """σ of every step."""
        records = self.shown_records(facts)
        check_sample(settings.sample, records)
        return gradient(
            adjacency=facts.adjacency, delta=delta, epsilon=epsilon, records=records, batch=settings.sample,
            steps=settings.releases, clip=settings.clip, clipping="per-example",
        ).sigma  # fmt: skip
