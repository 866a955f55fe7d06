"""Trains a generator on noisy projections (DP-SWD); it sees releases, never a record.

A release is (U, XU + V) of a batch X of records with their labels, rows clipped to C: one-hot ⊗ x ("outer"), so that
class means are means of columns, which survive much noise; or [x; w·one-hot] ("append"). The
loss is the Gaussian-smoothed sliced distance: generated rows are clipped, projected on the same U, noised by the same
law, and

    mean over slices j of  1/B·Σ_i |sort(XU_j + V_j)_i − sort(GU_j + V′_j)_i|^q          (W_q^q of sorted columns)

with q the option `power`, 2 unless given, and each row of X repeated `over` times, where that many times as many rows
are generated

(Rakotomamonjy & Ralaivola 2021). With `pool` p, both are images made coarser by squares of p × p pixels; the generator
makes whole ones. A release is paid for once and may be used again: each is trained on `repeats`
times, and every time together with `replay` − 1 of the `KEPT` before it, so that a step follows many more slices than
one release has. Both are post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar

import torch

from privot.accounting import projection
from privot.common.cuda_graphs import called, recordable, recorded
from privot.common.image_axes import image_axes
from privot.errors import NoTheoremError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import RandomProjection
from privot.mechanisms.directions import directions_of
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.release import Release
from privot.synthesis.method_configs import MethodConfig, Sliced
from privot.synthesis.methods.streaming_method import Step, StreamingMethod, described
from privot.synthesis.neural.defaults.problem_and_rules import Problem, Rules
from privot.synthesis.neural.defaults.streaming_defaults import generator_config, sliced_options
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.synthesis.neural.generators.generator import one_hot
from privot.vault.stream import Stream

KEPT = 64
"""Releases kept for further use; after a kill there are none, and they are gathered again."""
MAX_KEPT = 2**28
"""Most numbers in their directions: a gigabyte."""


class SlicedMethod(StreamingMethod):
    """`sliced`: noise at the projection."""

    config: ClassVar[type[MethodConfig]] = Sliced
    name = "sliced"
    watched = "squared sliced distance, both sides noisy"

    def design(
        self,
        problem: Problem,
        facts: Facts,
        terms: tuple[float, float],
        span: tuple[Any, Any],
        given: Mapping[str, Any],
    ) -> tuple[Mechanism, Rules]:
        """σ from (ε, δ), the steps, the batch and the bound; labels are projected with the records."""
        if facts.adjacency is not Adjacency.REPLACE_ONE or facts.records is None:
            raise NoTheoremError("The method sliced shows how many records took part: use replace-one neighbours.")
        options = sliced_options(problem, given)
        batch = options["batch"] = min(options["batch"], facts.records)
        labelled, outer = facts.classes is not None, options["labels"] == "outer"
        if options["labels"] not in ("outer", "append"):
            raise UsageError(f"Unknown labels {options['labels']!r}: say outer or append.")
        mechanism = RandomProjection(
            slices=options["slices"],
            sigma=1.0,
            frame=options["frame"],
            batch=batch,
            steps=options["steps"] // options["blocks"],
            label_weight=options["label_share"] * facts.clip if labelled and not outer else None,
            outer=labelled and outer,
            shape=problem.shape if options["pool"] > 1 else None,
            pool=options["pool"],
            bound=options["bound"],
            failure=None if options["bound"] == "exact" else terms[1] / (2.0 * options["steps"]),
        )
        plan = projection(
            mechanism.projected(facts),
            options["slices"],
            adjacency=facts.adjacency,
            delta=terms[1],
            epsilon=terms[0],
            records=facts.records,
            batch=batch,
            steps=options["steps"],
            clip=facts.clip,
            frame=options["frame"],
            bound=options["bound"],
        )
        mechanism = replace(mechanism, sigma=plan.sigma)
        low, high = span
        # the training needs these too, and they are public
        options.update(clip=facts.clip, low=low, high=high)
        config = generator_config(problem, options)
        return mechanism, Rules(config, options["steps"], batch, options["learning_rate"], options)

    def write(self, mechanism: RandomProjection) -> dict[str, Any]:
        """As plain JSON types."""
        return asdict(mechanism)

    def read(self, fields: Mapping[str, Any], device: str) -> RandomProjection:
        """What `write` wrote."""
        return described(RandomProjection, fields)

    def trainer(self, training: TrainingState, mechanism: Any, options: Mapping[str, Any]) -> Step:
        """One release per step, trained on `repeats` times; what is watched is the loss of the last time."""
        # each of the B rows stands against `over` generated ones, whose noise then weighs less
        over, replay = int(options["over"]), int(options.get("replay", 1))
        take = _SlicedStep(training, mechanism, options, mechanism.batch * over)
        past = _Past(len(take.directions), mechanism, replay, training)

        def step(stream: Stream) -> torch.Tensor:
            past.keep(next(stream))
            for _ in range(int(options["repeats"])):
                directions, target = past.drawn()
                take.directions.copy_(directions)
                take.target.copy_(target.repeat_interleave(over, 0))
                take.once()
            return take.loss.clone()

        return step


class _Past:
    """The latest releases, as directions (dim, slices) and sorted columns (rows, slices) each."""

    def __init__(self, dim: int, mechanism: Any, replay: int, training: TrainingState) -> None:
        self._replay, self._training, self._seen = replay, training, 0
        fit = max(replay, MAX_KEPT // (dim * mechanism.slices))
        room, where = (min(KEPT, fit) if replay > 1 else 1), training.device
        self._directions = torch.zeros(room, dim, mechanism.slices, device=where)
        self._columns = torch.zeros(room, mechanism.batch, mechanism.slices, device=where)

    def keep(self, release: Release) -> None:
        """Add a release; replaces the oldest if there are too many."""
        at = self._seen % len(self._columns)
        self._directions[at].copy_(torch.tensor(directions_of(release.public), dtype=torch.float32))
        self._columns[at].copy_(
            torch.tensor(release.value, dtype=torch.float32).to(self._columns.device).sort(0).values
        )
        self._seen += 1

    def drawn(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(directions, columns) of the newest and of `replay` − 1 others, drawn at random."""
        newest, random = (self._seen - 1) % len(self._columns), self._training.random
        if self._replay == 1:
            return self._directions[newest], self._columns[newest]
        there = min(self._seen, len(self._columns))
        chosen = torch.randint(there, (self._replay,), generator=random, device=self._columns.device)
        chosen[0] = newest
        directions, columns = (held[chosen].transpose(0, 1).flatten(1) for held in (self._directions, self._columns))
        return directions, columns


class _SlicedStep:
    """One step against `target` along `directions`, both filled by the caller; on a GPU recorded and replayed."""

    def __init__(self, training: TrainingState, mechanism: Any, options: Mapping[str, Any], rows: int) -> None:
        where, generator = training.device, training.generator
        self._training, self._mechanism, self._clip = training, mechanism, float(options["clip"])
        # a design of an earlier version has no power
        self._power = float(options.get("power", 2.0))
        self._low, high = (torch.tensor(options[name], dtype=torch.float32, device=where) for name in ("low", "high"))
        self._span = high - self._low
        self._z = torch.zeros(rows, generator.latent, device=where)
        self._labels = torch.arange(rows, device=where) % generator.classes
        hot = one_hot(self._labels, generator.classes, self._z)
        self._hot = hot if mechanism.outer or mechanism.label_weight is not None else None
        outer, appended, dim = mechanism.outer, mechanism.label_weight is not None, generator.dim // mechanism.pool**2
        dim = dim * generator.classes if outer else dim + (generator.classes if appended else 0)
        slices = mechanism.slices * int(options.get("replay", 1))
        self.directions = torch.zeros(dim, slices, device=where)
        self.target = torch.zeros(rows, slices, device=where)
        self._noise = torch.zeros_like(self.target)
        self.loss = torch.zeros((), device=where)
        self._run: Callable[[], None] | None = None

    def once(self) -> None:
        """Take one training step on fresh latents and noise."""
        training = self._training
        if self._run is None:
            take = recorded if recordable(training.optimizer) else called
            self._run = take(training.generator, training.optimizer, self._work)
        self._z.normal_(generator=training.random)
        self._noise.normal_(generator=training.random)
        self._run()

    def _work(self) -> None:
        mechanism = self._mechanism
        rows = self._low + self._span * self._training.generator(self._z, self._labels)
        if mechanism.pool > 1:
            # as `Axes.pooled` does for records, in one kernel
            axes, by = image_axes(mechanism.shape), mechanism.pool
            rows = axes.coarser(by).rows(by * torch.nn.functional.avg_pool2d(axes.pictures(rows), by))
        if mechanism.label_weight is not None:
            rows = torch.cat([rows, mechanism.label_weight * self._hot], dim=1)
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        rows = rows * (self._clip / norms.clamp(min=self._clip))
        if mechanism.outer:
            assert self._hot is not None
            rows = (self._hot[:, :, None] * rows[:, None, :]).flatten(1)
        ours = (rows @ self.directions + mechanism.sigma * self._noise).sort(0).values
        gap = ours - self.target
        loss = gap.square().mean() if self._power == 2.0 else gap.abs().pow(self._power).mean()
        loss.backward()
        self._training.optimizer.step()
        self.loss.copy_(loss.detach())
