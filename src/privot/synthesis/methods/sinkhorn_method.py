"""Trains a generator on sanitized gradients (DP-Sinkhorn); it sees the answers of a stream, never a record.

The loss is the semi-debiased one, 2Ŵ(X[0:n], Y) − Ŵ(X[0:n], X[n′:n+n′]), n′ = ⌊n·p⌋, of n + n′ generated points (Cao
et al. 2021). The first term's gradient leaves the vault clipped and noisy; the second depends on no record and is added
without noise. The vault scales the first by min(1, C/‖G‖), and that factor is private. `debias` says how the second is
scaled: "matched" scales it by min(1, C/‖G′‖), G′ the first term's gradient with a batch of generated points in
place of Y, which is public; "plain" leaves it as it is; "none" leaves it out (the ablation without debiasing). Every
`every`-th step carries the second term, that many times: on average the same, and small beside the noise of one step.
A step asks about `samples` groups of n + n′ points, each with a sample of its own, and follows their mean slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import torch

from privot.accounting import gradient
from privot.accounting.planning.plan_terms import choose_sampling
from privot.accounting.sampling import sampling_from_dict
from privot.common.cuda_graphs import Replayed
from privot.errors import UsageError
from privot.mechanisms import SanitizedGradient
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.synthesis.method_configs import MethodConfig, Sinkhorn
from privot.synthesis.methods.generated_points import points_of
from privot.synthesis.methods.streaming_method import Step, StreamingMethod, described
from privot.synthesis.neural.defaults.problem_and_rules import ASSUMED_RECORDS, Problem, Rules
from privot.synthesis.neural.defaults.streaming_defaults import generator_config, sinkhorn_options
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.transport._solvers.unrolled import unrolled_gradients
from privot.vault.stream import Stream

DEBIAS = ("matched", "plain", "none")
REFRESH = 20
"""Steps between two measurements of how far the first term's gradient exceeds the clip."""


class SinkhornMethod(StreamingMethod):
    """`sinkhorn`: noise at the gradient."""

    config: ClassVar[type[MethodConfig]] = Sinkhorn
    name = "sinkhorn"
    watched = "released gradient / noise alone"

    kind: ClassVar[type[SanitizedGradient]] = SanitizedGradient

    def design(
        self,
        problem: Problem,
        facts: Facts,
        terms: tuple[float, float],
        span: tuple[Any, Any],
        given: Mapping[str, Any],
    ) -> tuple[Mechanism, Rules]:
        """σ from (ε, δ), the steps and the sampling rate; the sampler that is counted is the one that runs."""
        options = self.options(problem, given)
        if options["debias"] not in DEBIAS:
            raise UsageError(f"Unknown debias {options['debias']!r}: say {', '.join(DEBIAS)}.")
        if not 0.0 <= options["p"] <= 1.0:
            raise UsageError(f"p is the share of points drawn anew, from 0 to 1, got {options['p']!r}.")
        low, high = span
        if not isinstance(low, float | int) or not isinstance(high, float | int):
            raise UsageError("The method sinkhorn takes one public range for all columns.")
        records = facts.records or problem.records or ASSUMED_RECORDS
        batch = options["batch"] = min(options["batch"], records)
        plan = gradient(
            adjacency=facts.adjacency,
            delta=terms[1],
            epsilon=terms[0],
            records=records,
            batch=batch,
            steps=options["steps"] * options["samples"],
            clip=options["clip"],
            clipping="matrix",
        )
        sampling = choose_sampling(facts.adjacency, records, batch)
        assert sampling is not None
        rules = Rules(
            generator_config(problem, options), options["steps"], options["points"], options["learning_rate"], options
        )
        mechanism = self.make(
            rules,
            points=options["points"],
            sigma=plan.sigma,
            clip=options["clip"],
            sampling=sampling,
            steps=options["steps"] // options["blocks"],
            samples=options["samples"],
            # six deviations of a Poisson sample, if there are as many records as stated
            capacity=batch + math.ceil(6.0 * math.sqrt(batch)),
            reg=options["reg"],
            mixture=options["mixture"],
            square=options["square"],
            sweeps=options["sweeps"],
            labels=facts.classes is not None,
            label_weight=options["label_weight"],
            balance=bool(options["balance"]),
            low=float(low),
            high=float(high),
            device=problem.device,
        )
        return mechanism, rules

    def options(self, problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options: those given, and defaults for the rest."""
        return sinkhorn_options(problem, given)

    def make(self, rules: Rules, **fields: Any) -> SanitizedGradient:
        """The mechanism of one block."""
        return self.kind(**fields)

    def write(self, mechanism: SanitizedGradient) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(mechanism), "sampling": mechanism.sampling.to_dict()}

    def read(self, fields: Mapping[str, Any], device: str) -> SanitizedGradient:
        """What `write` wrote, for another device if need be."""
        return described(self.kind, {**fields, "sampling": sampling_from_dict(fields["sampling"]), "device": device})

    def trainer(self, training: TrainingState, mechanism: Any, options: Mapping[str, Any]) -> Step:
        """One query per step; what is watched is ‖released gradient‖/(σ√entries), which is 1 for noise alone."""
        n, groups = mechanism.points, mechanism.samples
        fresh = int(n * options["p"])
        debias, matched = options["debias"] != "none", options["debias"] == "matched"
        every = int(options.get("every", 1))
        # a step without the second term needs none of the points that only this term uses
        many = _Groups(training, mechanism, n + fresh if debias else n)
        few = _Groups(training, mechanism, n) if debias and every > 1 else many
        term, stand_in = Replayed(second_term(mechanism, n, fresh)), Replayed(first_gradient(mechanism, n, fresh))
        usual = mechanism.sigma * math.sqrt(groups * n * training.generator.dim)
        factor = torch.ones((), device=training.device)
        taken = 0

        def step(stream: Stream) -> torch.Tensor:
            nonlocal factor, taken
            carried = debias and taken % every == 0
            held = many if carried else few
            x = held.points.make()
            released = torch.as_tensor(stream.answer(held.query(x)).value).to(x.dtype)
            slope = torch.zeros_like(x)
            if carried:
                if matched and taken // every % max(1, REFRESH // every) == 0:
                    more, marks = many.points.aside(int(options["batch"]))
                    # groups are alike: one shows how far all are clipped
                    own, rows = torch.cat([many.labels[: many.rows], marks]), torch.cat([x[: many.rows], more])
                    factor = (mechanism.clip / torch.linalg.vector_norm(stand_in(rows, own)[0])).clamp(max=1.0)
                slope -= every * factor * term(x, many.labels)[0]
            slope.view(groups, held.rows, -1)[:, :n] += released.view(groups, n, -1)
            slope /= groups
            held.points.learn(slope)
            taken += 1
            watched: torch.Tensor = torch.linalg.vector_norm(released) / usual
            return watched

        return step


class _Groups:
    """The points of a step: a group of `rows` for every sample; the query holds the first of each group."""

    def __init__(self, training: TrainingState, mechanism: SanitizedGradient, rows: int) -> None:
        self.rows, self._mechanism = rows, mechanism
        self.points = points_of(training, mechanism.samples * rows)
        self.labels = training.labels(mechanism.samples * rows)
        self._asked = self._first(self.labels).clone() if mechanism.labels else None

    def query(self, x: torch.Tensor) -> GradientQuery:
        """The query about the generated points x."""
        return GradientQuery(self._first(x), self._asked)

    def _first(self, held: torch.Tensor) -> torch.Tensor:
        groups = held.view(self._mechanism.samples, self.rows, *held.shape[1:])
        return groups[:, : self._mechanism.points].flatten(0, 1)


def _between(mechanism: SanitizedGradient, x: torch.Tensor, labels: torch.Tensor, one: slice, two: slice) -> Any:
    """Gradients of Ŵ(X[one], X[two]) in both, group by group where there are several."""
    own, marks = labels[..., one], labels[..., two]
    offset = mechanism.cost * (own[..., :, None] != marks[..., None, :]).to(x.dtype) if mechanism.labels else None
    weights, terms = torch.ones(marks.shape, dtype=x.dtype, device=x.device), (mechanism.reg, mechanism.mixture)
    return unrolled_gradients(
        x[..., one, :], x[..., two, :], weights, *terms, mechanism.sweeps, mechanism.square, offset
    )


def second_term(
    mechanism: SanitizedGradient, n: int, fresh: int
) -> Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor]]:
    """(x, labels) → the gradient of Ŵ(X[0:n], X[n′:n+n′]) in all points, group by group."""
    groups = mechanism.samples

    def work(x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
        one, two = slice(0, n), slice(fresh, n + fresh)
        first, second = _between(mechanism, x.view(groups, -1, x.shape[1]), labels.view(groups, -1), one, two)
        out = torch.zeros_like(x)
        held = out.view(groups, -1, x.shape[1])
        held[:, one] += first
        held[:, two] += second
        return (out,)

    return work


def first_gradient(
    mechanism: SanitizedGradient, n: int, fresh: int
) -> Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor]]:
    """(x, labels) → the gradient of 2Ŵ(X[0:n], ·) in all points, against the last ones in place of records: public."""

    def work(x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
        out = torch.zeros_like(x)
        out[:n] = 2.0 * _between(mechanism, x, labels, slice(0, n), slice(n + fresh, len(x)))[0]
        return (out,)

    return work
