"""A training under way: public steps on the source, and what is done with each release; it sees no private record.

Every method minimises L_c(h(g(x_s)), y_s) plus a term of its own that depends on the releases. A release is a constant
here: no gradient can flow back through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.alignment.adversarial import DomainGradients, Judged, domain_loss, reverse
from privot.adaptation.alignment.smoothed_sliced import Loss, smoothed
from privot.adaptation.alignment.transformation_fit import Source, fit
from privot.adaptation.alignment.transformations import transformation
from privot.adaptation.networks import BUILT_IN, build, discriminator, weights_of
from privot.common.cuda_graphs import adam, called, cosine, recorded, set_rate
from privot.common.interruption import Stop, finishing
from privot.errors import ConvergenceError, DataError
from privot.mechanisms import Mechanism
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.representation import ProjectedRepresentation, RepresentationQuery
from privot.mechanisms.unproven.published_alignment import AlignmentQuery
from privot.release import Release
from privot.vault.stream import Stream

Progress = Callable[[int, int, float], None]
"""Step, steps in all, loss."""


class Learner:
    """Networks, optimiser and counters; `state` and `restore` carry all of it over a kill."""

    def __init__(self, design: AdaptationDesign, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], device: str) -> None:
        self.design, self.device = design, torch.device(device)
        s, config = design.settings, design.networks
        self.source = Source.of(x, y, (float(config["low"]), float(config["high"])), self.device)
        self.networks = build(config, design.seed).to(self.device)
        self.judge = discriminator(self.networks.size, s.network, design.seed).to(self.device)
        shape, columns = config["shape"], int(config["columns"])
        self.change = transformation(shape, columns, int(config["classes"])).to(self.device)
        self.change.standardise(self.source.unit(self.source.x[:10_000]))
        self.random = torch.Generator(device=self.device)
        self.random.manual_seed((design.seed + 1) % 2**63)
        self.trained = nn.ModuleList([self.networks, self.judge])
        """All parameters that the optimiser changes."""
        self.optimizer = adam(self.trained, s.learning_rate)
        self.bend = s.augment and (shape is not None or s.method == "embedding")
        # filled anew before every step, which may be a recorded one
        self._chosen = torch.zeros(s.batch, dtype=torch.int64, device=self.device)
        self._drawn = torch.zeros(s.batch, self.change.draws(self.bend), device=self.device)
        self.aligning, self._loss = (torch.zeros((), device=self.device) for _ in range(2))
        self._shares: Tensor | None = None
        self.step = 0
        self.done = 0
        """Blocks that are finished, lost ones included."""
        self.fitted = False
        self.losses: list[float] = []
        self._asked: tuple[Tensor, Tensor] | None = None
        self.query: Query | None = None
        self.domain: DomainGradients | None = None
        if s.method == "dp-dann":
            # a copy in float64, whose weights come from the query alone
            twin = build(config, design.seed).to(self.device).double()
            judge = discriminator(self.networks.size, s.network, design.seed).to(self.device).double()
            self.domain = DomainGradients(Judged(twin.g, judge))
            self.query = Query(self.domain.weights())

    @property
    def total(self) -> int:
        """Gradient steps in all."""
        s = self.design.settings
        aligned = 0 if s.method == "embedding" else s.releases * s.steps
        return s.warmup + aligned + s.finish

    def mechanism(self) -> Mechanism:
        """The mechanism of one block, from the design alone."""
        return self.design.mechanism(self.networks, self.query, self.domain)

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is paid, networks that the mechanism could not use; on public rows."""
        if isinstance(mechanism, ProjectedRepresentation):
            mechanism.check(RepresentationQuery(weights_of(self.networks.g)))
        if self.domain is not None and self.query is not None:
            self.domain.rehearse(self.query.weights, int(self.design.networks["columns"]))

    def weight(self) -> float:
        """λ at this moment: λ·(2/(1 + e^(−10p)) − 1), p the share of alignment that is done (Ganin et al. 2016)."""
        s = self.design.settings
        share = min(1.0, max(0.0, (self.step - s.warmup) / max(1, self.total - s.warmup - s.finish)))
        return s.weight * (2.0 / (1.0 + math.exp(-10.0 * share)) - 1.0)

    @property
    def keeps_release(self) -> bool:
        """Whether the release of a block stays in the folder when the block is over."""
        return self.design.settings.method == "embedding"

    def before(self, progress: Progress | None, keep: Callable[[bool], None] | None) -> None:
        """Everything that comes before the first release."""
        self.public_steps(self.design.settings.warmup, progress, keep)

    def after(self, progress: Progress | None, keep: Callable[[bool], None] | None) -> None:
        """Everything that follows the last release."""
        self.public_steps(self.total, progress, keep)

    def public_steps(self, until: int, progress: Progress | None, keep: Callable[[bool], None] | None) -> None:
        """Steps on the source alone, up to step number `until`; `keep`(now) writes a checkpoint when it is time."""
        self.steps(until, lambda rows, labels: nn.functional.cross_entropy(self.networks(rows), labels), progress, keep)

    def steps(
        self,
        until: int,
        loss: Loss,
        progress: Progress | None = None,
        keep: Callable[[bool], None] | None = None,
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
                record = recorded if self.design.settings.network in BUILT_IN else called
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
        s = self.design.settings
        for _ in range(s.releases_per_block):
            release = kept
            if release is None:
                release = self._take(stream)
                save(release)
            self.learn(release, tell)
        self.done += 1

    def _take(self, stream: Stream | None) -> Release:
        if stream is None:
            raise DataError("There is neither a stream nor a release to learn from.")
        method = self.design.settings.method
        if method == "sliced":
            return stream.answer(RepresentationQuery(weights_of(self.networks.g)))
        if method == "published":
            self._asked = self.batch()
            return stream.answer(AlignmentQuery(weights_of(self.networks.g), self._asked[0]))
        if self.query is not None:
            judged = Judged(self.networks.g, self.judge)
            flat = torch.cat([p.detach().double().reshape(-1) for p in judged.parameters()])
            self.query.set(flat.cpu().numpy())
        return next(stream)

    def learn(self, release: Release, tell: Progress | None = None) -> None:
        """The training steps that follow one release."""
        method, steps = self.design.settings.method, self.design.settings.steps
        if method == "embedding":
            fit(self.change, self.source, release, self.design.settings, self.random)
            self.fitted, self._shares = True, None
        elif method == "sliced":
            batch = self.design.settings.batch
            loss, before = smoothed(
                self.networks, release, batch, self.aligning, self.random, self.design.settings.power
            )
            self.steps(self.step + steps, loss, tell, before=before)
        elif method == "published":
            self._published(release, tell)
        else:
            self._adversarial(release, tell)

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
        s, source = self.design.settings, self.source
        rows = source.x[self._chosen]
        if self.fitted or (s.augment and self.design.networks["shape"] is not None):
            with torch.no_grad():
                wide = s.wide if self.fitted else 1.0
                rows = source.low + source.span * self.change(source.unit(rows), self._drawn, wide, self.bend)
        return rows, source.y[self._chosen]

    def batch(self) -> tuple[Tensor, Tensor]:
        """Source rows and labels for a step that is not recorded."""
        self.draw()
        return self.made()

    def _rate(self) -> float:
        return cosine(self.design.settings.learning_rate, self.step, max(1, self.total))

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

    def _published(self, release: Release, tell: Progress | None) -> None:
        value: Any = release.value
        self.optimizer.zero_grad(set_to_none=True)
        # after a kill the source rows of the query are lost: other rows are used for the source's own loss
        rows, labels = self._asked or self.batch()
        loss = nn.functional.cross_entropy(self.networks(rows), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        for name, p in self.networks.g.named_parameters():
            if p.grad is not None:
                # from a file it comes as an array that may not be written to
                found = np.array(value[name]) if isinstance(value[name], np.ndarray) else value[name]
                p.grad += self.weight() * torch.as_tensor(found).to(p)
        self.apply(loss, tell)

    def _adversarial(self, release: Release, tell: Progress | None) -> None:
        """L_c − λ·L_d for g, L_d for the discriminator; the target's part of L_d comes as a released gradient."""
        domain, lot = self.domain, self.design.settings.sample
        if domain is None or lot is None:
            raise DataError("This training has no discriminator.")
        rows, labels = self.batch()
        self.optimizer.zero_grad(set_to_none=True)
        latent = self.networks.g(rows)
        loss = nn.functional.cross_entropy(self.networks.h(latent), labels)
        judged = domain_loss(self.judge(reverse(latent, self.weight())), source=True)
        (loss + judged).backward()  # type: ignore[no-untyped-call]
        private = domain.split(np.asarray(release.value) / lot)
        for name, p in Judged(self.networks.g, self.judge).named_parameters():
            share = -self.weight() if name.startswith("g.") else 1.0
            gradient = share * private[name].to(p)
            p.grad = gradient if p.grad is None else p.grad + gradient
        self.apply(loss, tell)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything, as tensors and plain JSON types."""
        tensors: dict[str, Tensor] = {}
        for part in ("networks", "judge", "change"):
            tensors |= {f"{part}.{n}": t for n, t in getattr(self, part).state_dict().items()}
        for number, held in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{n}": torch.as_tensor(t) for n, t in held.items()}
        tensors["random"] = self.random.get_state()
        facts = {"step": self.step, "done": self.done, "fitted": self.fitted, "losses": self.losses}
        return tensors, facts

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        try:
            for part in ("networks", "judge", "change"):
                own = {n.removeprefix(part + "."): t for n, t in tensors.items() if n.startswith(part + ".")}
                getattr(self, part).load_state_dict(own)
            held: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith("optimizer."):
                    _, number, what = name.split(".")
                    held.setdefault(int(number), {})[what] = tensor
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": held, "param_groups": groups})
            if tensors["random"].shape == self.random.get_state().shape:
                self.random.set_state(tensors["random"])
            self.step, self.done, self.fitted = int(facts["step"]), int(facts["done"]), bool(facts["fitted"])
            self.losses = [float(v) for v in facts["losses"]]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"This checkpoint does not hold this training ({type(error).__name__}).") from None
