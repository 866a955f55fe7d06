"""Trains a generator on sanitized gradients (DP-Sinkhorn); it sees what a stream answers, never a record.

The loss is the semi-debiased one, 2Ŵ(X[0:n], Y) − Ŵ(X[0:n], X[n′:n+n′]), n′ = ⌊n·p⌋, of n + n′ generated points (Cao
et al. 2021). The first term's gradient comes clipped and noisy out of the vault; the second never saw a record and is
added un-noised. The vault scales the first by min(1, C/‖G‖) and may not tell how much. `debias` says what that does to
the second: "matched" scales it by min(1, C/‖G′‖), G′ the first term's gradient with a batch of generated points in
place of Y, which is public; "plain" leaves it as it is; "none" leaves it out (the ablation without debiasing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import torch

from privot.accounting import gradient
from privot.accounting.plans import choose_sampling
from privot.accounting.sampling import sampling_from_dict
from privot.errors import DataError, UsageError
from privot.mechanisms import GradientQuery, SanitizedGradient
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.stream import Stream
from privot.synthesis.design import Design
from privot.synthesis.options import generator_config, sinkhorn_options
from privot.synthesis.rules import ASSUMED_RECORDS, Problem, Rules
from privot.synthesis.training import Training
from privot.transport.replay import Replayed
from privot.transport.unrolled import unrolled_gradients

DEBIAS = ("matched", "plain", "none")


class SinkhornStrategy:
    """`sinkhorn`: noise at the gradient."""

    def design(
        self,
        problem: Problem,
        facts: Facts,
        terms: tuple[float, float],
        span: tuple[Any, Any],
        given: Mapping[str, Any],
    ) -> tuple[Mechanism, Rules]:
        """σ from (ε, δ), the steps and the sampling rate; the sampler that is counted is the one that runs."""
        options = sinkhorn_options(problem, given)
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
            steps=options["steps"],
            clip=options["clip"],
        )
        sampling = choose_sampling(facts.adjacency, records, batch)
        assert sampling is not None
        mechanism = SanitizedGradient(
            points=options["points"],
            sigma=plan.sigma,
            clip=options["clip"],
            sampling=sampling,
            steps=options["steps"] // options["blocks"],
            # six deviations of a Poisson sample, if there are as many records as stated
            capacity=batch + math.ceil(6.0 * math.sqrt(batch)),
            reg=options["reg"],
            mixture=options["mixture"],
            square=options["square"],
            sweeps=options["sweeps"],
            labels=facts.classes is not None,
            label_weight=options["label_weight"],
            low=float(low),
            high=float(high),
            device=problem.device,
        )
        rules = Rules(
            generator_config(problem, options), options["steps"], options["points"], options["learning_rate"], options
        )
        return mechanism, rules

    def write(self, mechanism: SanitizedGradient) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(mechanism), "sampling": mechanism.sampling.to_dict()}

    def read(self, fields: Mapping[str, Any], device: str) -> SanitizedGradient:
        """What `write` wrote, for another device if need be."""
        values = {**fields, "sampling": sampling_from_dict(fields["sampling"]), "device": device}
        try:
            return SanitizedGradient(**values)
        except TypeError:
            raise DataError("This does not describe a sanitized gradient.") from None

    def trainer(self, training: Training, design: Design) -> Callable[[Stream], torch.Tensor]:
        """One query a step; what is watched is ‖released gradient‖/(σ√entries), which is 1 for noise alone."""
        mechanism: SanitizedGradient = design.mechanism
        options, n = design.rules.options, mechanism.points
        fresh = int(n * options["p"])
        matched, plain = (options["debias"] == name for name in ("matched", "plain"))
        rows = n + fresh + (int(options["batch"]) if matched else 0)
        terms = Replayed(_public_terms(mechanism, n, fresh, matched))
        generator, optimizer = training.generator, training.optimizer

        def step(stream: Stream) -> torch.Tensor:
            z, labels = training.draw(rows)
            x = 2.0 * generator(z, labels) - 1.0
            held = x.detach()
            asked = GradientQuery(held[:n].clone(), labels[:n].clone() if mechanism.labels else None)
            released = torch.as_tensor(stream.ask(asked).value).to(held.dtype)
            slope = torch.zeros_like(held)
            if matched or plain:
                slope -= terms(held, labels)[0]
            slope[:n] += released
            optimizer.zero_grad(set_to_none=True)
            x.backward(slope)
            optimizer.step()
            watched: torch.Tensor = torch.linalg.vector_norm(released) / (mechanism.sigma * math.sqrt(released.numel()))
            return watched

        return step


def _public_terms(
    mechanism: SanitizedGradient, n: int, fresh: int, matched: bool
) -> Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor]]:
    """(x, labels) → the gradient of Ŵ(X[0:n], X[n′:n+n′]) in all points, scaled if `matched`."""

    def between(x: torch.Tensor, own: torch.Tensor, y: torch.Tensor, marks: torch.Tensor) -> Any:
        offset = mechanism.cost * (own[:, None] != marks[None, :]).to(x.dtype) if mechanism.labels else None
        weights = torch.ones(len(y), dtype=x.dtype, device=x.device)
        return unrolled_gradients(
            x, y, weights, mechanism.reg, mechanism.mixture, mechanism.sweeps, mechanism.square, offset
        )

    def work(x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
        one, two = slice(0, n), slice(fresh, n + fresh)
        first, second = between(x[one], labels[one], x[two], labels[two])
        if matched:
            stand_in = 2.0 * between(x[one], labels[one], x[n + fresh :], labels[n + fresh :])[0]
            factor = (mechanism.clip / torch.linalg.vector_norm(stand_in)).clamp(max=1.0)
            first, second = factor * first, factor * second
        out = torch.zeros_like(x)
        out[one] += first
        out[two] += second
        return (out,)

    return work
