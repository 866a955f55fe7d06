"""A training under way: public steps on the source, and what is done with each release; it sees no private record.

Every method minimises L_c(h(g(x_s)), y_s) plus a term of its own that depends on the releases. A release is a constant
here: no gradient can flow back through it. `Learner` learns the source alone; a method adds what a release is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from privot.adaptation.adaptation_config import TrainedConfig
from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.alignment.smoothed_sliced import Loss
from privot.adaptation.alignment.transformation_fit import Source
from privot.adaptation.alignment.transformations import Transformation, transformation
from privot.adaptation.networks import BUILT_IN, build
from privot.common.cuda_graphs import adam, called, cosine, recorded, set_rate
from privot.common.interruption import Stop, finishing
from privot.errors import ConvergenceError, DataError, UsageError
from privot.mechanisms import Mechanism
from privot.release import Release
from privot.vault.stream import Stream

Progress = Callable[[int, int, float], None]
"""Step, steps in all, loss."""
Keep = Callable[[bool], None]
"""Writes a checkpoint when it is time; with True at once."""


class TargetLearner(Protocol):
    """What a training that is paid block by block asks of the learner of any method."""

    design: AdaptationDesign
    networks: Any
    change: Transformation
    generator: Any
    """The stand-in's, where there is one, …"""
    checks: Any
    """… and what was found before it was used."""
    keeps_release: bool
    """Whether the release of a block stays in the folder when the block is over."""
    losses: list[float]
    fitted: bool
    done: int
    """Blocks that are finished, lost ones included."""

    @property
    def total(self) -> int:
        """Gradient steps in all."""

    def mechanism(self) -> Mechanism:
        """The mechanism of one block, from the design alone."""

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is paid, what could not be trained."""

    def before(self, progress: Progress | None, keep: Keep | None) -> None:
        """Everything that comes before the first release."""

    def run_block(
        self, stream: Stream | None, kept: Release | None, save: Callable[[Release], None], tell: Progress | None
    ) -> None:
        """Use all releases of one charge, or the one `kept` on disk; `save` is called with each new release."""

    def after(self, progress: Progress | None, keep: Keep | None) -> None:
        """Everything that follows the last release."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything, as tensors and plain JSON types."""

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from what `state` returned."""


class Learner:
    """Networks, optimiser and counters; `state` and `restore` carry all of it over a kill."""

    settings: TrainedConfig
    generator: Any = None
    checks: Any = None
    keeps_release = False
    parts: tuple[str, ...] = ("networks", "change")
    """Modules whose weights a checkpoint holds."""

    def __init__(
        self,
        design: AdaptationDesign,
        x: np.ndarray[Any, Any],
        y: np.ndarray[Any, Any],
        device: str,
        folder: Path | None = None,
    ) -> None:
        self.design, self.device = design, torch.device(device)
        # the method's own, whose class a subclass states
        self.settings = cast("Any", design.settings)
        s, config = self.settings, design.networks
        self.source = Source.of(x, y, (float(config["low"]), float(config["high"])), self.device)
        self.networks = build(config, design.seed).to(self.device)
        shape, columns = config["shape"], int(config["columns"])
        self.change = transformation(shape, columns, int(config["classes"])).to(self.device)
        self.change.standardise(self.source.unit(self.source.x[:10_000]))
        self.random = torch.Generator(device=self.device)
        self.random.manual_seed((design.seed + 1) % 2**63)
        self.trained = nn.ModuleList([self.networks, *self.beside()])
        """All parameters that the optimiser changes."""
        self.optimizer = adam(self.trained, s.learning_rate)
        self.augmented = s.augment and shape is not None
        """Whether what was not transformed is augmented."""
        # filled anew before every step, which may be a recorded one
        self._chosen = torch.zeros(s.batch, dtype=torch.int64, device=self.device)
        self._drawn = torch.zeros(s.batch, self.change.draws(self.bend), device=self.device)
        self.aligning, self._loss = (torch.zeros((), device=self.device) for _ in range(2))
        self._shares: Tensor | None = None
        self.step = 0
        self.done = 0
        self.fitted = False
        self.losses: list[float] = []

    def beside(self) -> list[nn.Module]:
        """Modules that are trained with the networks."""
        return []

    @property
    def bend(self) -> bool:
        """Whether records are also distorted at random."""
        return self.augmented

    @property
    def total(self) -> int:
        """Gradient steps in all."""
        return self.settings.warmup + self.aligned + self.settings.finish

    @property
    def strength(self) -> float:
        """λ, the weight of alignment at the end of its rise."""
        return 0.0

    @property
    def wide(self) -> float:
        """The factor on fitted spreads."""
        return 1.0

    @property
    def aligned(self) -> int:
        """How many of them use a release."""
        return 0

    def mechanism(self) -> Mechanism:
        """The mechanism of one block, from the design alone."""
        raise UsageError("A training on the source alone releases nothing.")

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is paid, networks that the mechanism could not use; on public rows."""

    def weight(self) -> float:
        """λ at this moment: λ·(2/(1 + e^(−10p)) − 1), p the share of alignment that is done (Ganin et al. 2016)."""
        share = min(1.0, max(0.0, (self.step - self.settings.warmup) / max(1, self.aligned)))
        return self.strength * (2.0 / (1.0 + math.exp(-10.0 * share)) - 1.0)

    def before(self, progress: Progress | None, keep: Keep | None) -> None:
        """Everything that comes before the first release."""
        self.public_steps(self.settings.warmup, progress, keep)

    def after(self, progress: Progress | None, keep: Keep | None) -> None:
        """Everything that follows the last release."""
        self.public_steps(self.total, progress, keep)

    def public_steps(self, until: int, progress: Progress | None, keep: Keep | None) -> None:
        """Steps on the source alone, up to step number `until`; `keep`(now) writes a checkpoint when it is time."""
        self.steps(until, lambda rows, labels: nn.functional.cross_entropy(self.networks(rows), labels), progress, keep)

    def steps(
        self,
        until: int,
        loss: Loss,
        progress: Progress | None = None,
        keep: Keep | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        """Steps down `loss`, up to step number `until`; recorded on a GPU, so `before` draws what a step draws.

        The learning rate falls as a cosine to 0 at the end of training.
        """

        def work() -> None:
            found = loss(*self.made())
            found.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self._loss.copy_(found.detach())

        run = None
        self.networks.train()
        with nullcontext(Stop()) if keep is None else finishing() as stop:
            while self.step < until:
                self.aligning.fill_(self.weight())
                set_rate(self.optimizer, self._rate())
                self.draw()
                if before is not None:
                    before()
                # a network of the user's own may do what cannot be recorded
                record = recorded if self.design.networks["kind"] in BUILT_IN else called
                run = run or record(self.trained, self.optimizer, work)
                run()
                self._count(self._loss, progress)
                if keep is not None and (stop.asked or self.step % 50 == 0):
                    keep(stop.asked)
                if stop.asked:
                    break

    def run_block(
        self, stream: Stream | None, kept: Release | None, save: Callable[[Release], None], tell: Progress | None
    ) -> None:
        """Train on all releases of one charge, or on the one `kept` on disk; `save` is called with each new release."""
        for _ in range(self.settings.releases_per_block):
            release = kept
            if release is None:
                if stream is None:
                    raise DataError("There is neither a stream nor a release to learn from.")
                release = self.take(stream)
                save(release)
            self.learn(release, tell)
        self.done += 1

    def take(self, stream: Stream) -> Release:
        """The next release of a stream; a method that asks with a query answers with its own."""
        return next(stream)

    def learn(self, release: Release, tell: Progress | None = None) -> None:
        """The training steps that follow one release."""
        raise UsageError("A training on the source alone learns from no release.")

    def draw(self) -> None:
        """Choose the records of the next step, each class as often as was fitted, and draw their ξ."""
        if self.fitted and self._shares is None:
            with torch.no_grad():
                weights = self.change.weights(self.source.y).double()
                self._shares = weights.cumsum(dim=0) / weights.sum()
        if self._shares is None:
            self._chosen.copy_(self.source.pick(len(self._chosen), self.random))
        else:
            at = torch.rand(len(self._chosen), generator=self.random, device=self.device, dtype=torch.float64)
            torch.searchsorted(self._shares, at, out=self._chosen)
            self._chosen.clamp_(max=len(self._shares) - 1)
        self._drawn.normal_(generator=self.random)

    def made(self) -> tuple[Tensor, Tensor]:
        """The chosen source rows, transformed if something was fitted, else augmented if images; and their labels."""
        source = self.source
        rows = source.x[self._chosen]
        if self.fitted or self.augmented:
            with torch.no_grad():
                wide = self.wide if self.fitted else 1.0
                rows = source.low + source.span * self.change(source.unit(rows), self._drawn, wide, self.bend)
        return rows, source.y[self._chosen]

    def batch(self) -> tuple[Tensor, Tensor]:
        """Source rows and labels for a step that is not recorded."""
        self.draw()
        return self.made()

    def _rate(self) -> float:
        return cosine(self.settings.learning_rate, self.step, max(1, self.total))

    def apply(self, loss: Tensor, tell: Progress | None) -> None:
        """One step of the optimiser with the current gradients."""
        set_rate(self.optimizer, self._rate())
        self.optimizer.step()
        self._count(loss, tell)

    def _count(self, loss: Tensor, tell: Progress | None) -> None:
        """Count one step; the loss is read only from time to time, because reading it makes the device wait."""
        self.step += 1
        if self.step % 20 == 0 or self.step == self.total:
            value = float(loss.detach())
            if not math.isfinite(value):
                raise ConvergenceError(f"The loss became non-finite (step {self.step}): lower the learning rate.")
            self.losses.append(value)
            if tell is not None:
                tell(self.step, self.total, value)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything, as tensors and plain JSON types."""
        tensors: dict[str, Tensor] = {}
        for part in self.parts:
            tensors |= {f"{part}.{n}": t for n, t in getattr(self, part).state_dict().items()}
        for number, held in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{n}": torch.as_tensor(t) for n, t in held.items()}
        tensors["random"] = self.random.get_state()
        facts = {"step": self.step, "done": self.done, "fitted": self.fitted, "losses": self.losses}
        return tensors, facts

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        try:
            for part in self.parts:
                found = {n.removeprefix(part + "."): t for n, t in tensors.items() if n.startswith(part + ".")}
                getattr(self, part).load_state_dict(found)
            held: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith("optimizer."):
                    _, number, what = name.split(".")
                    held.setdefault(int(number), {})[what] = tensor
            groups = self.optimizer.state_dict()["param_groups"]
            # earlier versions trained a discriminator with every method, whose weights came last
            own = {number: moments for number, moments in held.items() if number in groups[0]["params"]}
            self.optimizer.load_state_dict({"state": own, "param_groups": groups})
            if tensors["random"].shape == self.random.get_state().shape:
                self.random.set_state(tensors["random"])
            self.step, self.done, self.fitted = int(facts["step"]), int(facts["done"]), bool(facts["fitted"])
            self.losses = [float(v) for v in facts["losses"]]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"This checkpoint does not hold this training ({type(error).__name__}).") from None
