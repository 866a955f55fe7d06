"""Trains a generator on noisy gradients of its parameters: DP-Sinkhorn's loss with DP-SGD's place for the noise.

The loss, the cost and the sampler are those of `sinkhorn`; what leaves the vault is not the gradient at the points but
that of the generator's parameters, by the chain rule, clipped as a whole and noisy in every coordinate (the ablation of
Cao et al. 2021, Table 2). The second term depends on no record: its gradient is added without noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any, ClassVar

import torch

from privot.common.cuda_graphs import Replayed
from privot.mechanisms import SanitizedGradient
from privot.mechanisms.gradients.generator_gradient import ParameterQuery, SanitizedParameters
from privot.synthesis.method_configs import MethodConfig, SinkhornParameters
from privot.synthesis.methods.sinkhorn_method import REFRESH, SinkhornMethod, first_gradient, second_term
from privot.synthesis.methods.streaming_method import Step
from privot.synthesis.neural.defaults.problem_and_rules import Problem, Rules
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.synthesis.neural.generators.generator import build
from privot.vault.stream import Stream


class SinkhornParametersMethod(SinkhornMethod):
    """`sinkhorn-parameters`: noise at the gradient of the generator's parameters."""

    config: ClassVar[type[MethodConfig]] = SinkhornParameters
    name = "sinkhorn-parameters"

    kind: ClassVar[type[SanitizedGradient]] = SanitizedParameters

    def options(self, problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `sinkhorn`; one sample per step, since a sum over several could not be clipped sample by sample."""
        return super().options(problem, {"samples": 1, **given})

    def make(self, rules: Rules, **fields: Any) -> SanitizedParameters:
        """The mechanism of one block, for a generator with that many parameters."""
        with torch.random.fork_rng(devices=[]):
            size = sum(p.numel() for p in build(rules.generator).parameters())
        return SanitizedParameters(**fields, parameters=size)

    def write(self, mechanism: SanitizedGradient) -> dict[str, Any]:
        """As plain JSON types; the training chooses the generator."""
        held = {f.name: getattr(mechanism, f.name) for f in fields_of(mechanism) if f.name != "handle"}
        return {**held, "sampling": mechanism.sampling.to_dict()}

    def trainer(self, training: TrainingState, mechanism: Any, options: Mapping[str, Any]) -> Step:
        """One query per step; what is watched is ‖released gradient‖/(σ√parameters), which is 1 for noise alone."""
        n = mechanism.points
        fresh = int(n * options["p"])
        debias, matched = options["debias"] != "none", options["debias"] == "matched"
        every = int(options.get("every", 1))
        rows = n + fresh + (int(options["batch"]) if matched else 0)
        term, stand_in = Replayed(second_term(mechanism, n, fresh)), Replayed(first_gradient(mechanism, n, fresh))
        handle, optimizer = mechanism.handle, training.optimizer
        handle.use(training.generator)
        parameters = list(training.generator.parameters())
        usual = mechanism.sigma * math.sqrt(mechanism.parameters)
        factor = torch.ones((), device=training.device)
        taken = 0

        def step(stream: Stream) -> torch.Tensor:
            nonlocal factor, taken
            z, labels = training.draw(rows)
            total = torch.as_tensor(stream.answer(ParameterQuery(z, labels)).value)
            watched: torch.Tensor = torch.linalg.vector_norm(total) / usual
            if debias and taken % every == 0:
                if matched and taken // every % max(1, REFRESH // every) == 0:
                    x = handle.points(z, labels)
                    found = handle.pull(x, stand_in(x.detach(), labels)[0])
                    factor = (mechanism.clip / torch.linalg.vector_norm(found)).clamp(max=1.0)
                x = handle.points(z, labels)
                total = total - every * factor * handle.pull(x, term(x.detach(), labels)[0])
            start = 0
            for p in parameters:
                # in the layout of the parameter, as the optimiser's fused kernel needs
                p.grad = torch.empty_like(p).copy_(total[start : start + p.numel()].view_as(p))
                start += p.numel()
            optimizer.step()
            taken += 1
            return watched

        return step
