"""The base of methods that train on a stream of releases, paid block by block: design, planning and run.

A method adds how its mechanism is designed, written and read, and what one step does with a release.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from privot.accounting import calibrate, embedding
from privot.accounting.events import Composed, Event, repeated
from privot.common import arguments
from privot.common.devices import usable_device
from privot.errors import DataError, UsageError
from privot.jobs.run import Run
from privot.mechanisms.mechanism import Facts, Mechanism, refuse_unit
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.design import (
    GeneratorDesign,
    check_cost,
    check_same_facts,
    check_standing,
)
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.methods.after_training_steps import refine
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.methods.paid_blocks import train_blocks
from privot.synthesis.neural.defaults.after_training_defaults import labelling_of
from privot.synthesis.neural.defaults.problem_and_rules import Problem, Rules
from privot.synthesis.neural.features.fourier import public_range
from privot.synthesis.neural.generator_training.training_dry_run import rehearse_stream
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.transport.slice_directions import check_seed, fresh_seed
from privot.vault.stream import Stream

M = TypeVar("M")

Step = Callable[[Stream], torch.Tensor]
"""Takes one release from a stream, trains on it and returns a public number to watch."""


@dataclass(frozen=True)
class StreamDesign(GeneratorDesign):
    """The mechanism of one block, the number of blocks, and labels as a later part."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**self.common_dict(), "mechanism": _method(self.method).write(self.mechanism)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], device: str) -> StreamDesign:
        """Read what `to_dict` wrote, for another device if need be."""
        try:
            mechanism = _method(str(fields["method"])).read(fields["mechanism"], device)
            made = cls(mechanism, **cls.common_fields(fields))
            made.blocks()
            return made
        except (KeyError, TypeError) as error:
            raise DataError(f"This does not describe a synthesis ({type(error).__name__}).") from None

    @property
    def several(self) -> bool:
        """Whether there are several blocks, or later parts."""
        return self.blocks()[0] > 1 or bool(self.parts)

    def event(self, facts: Facts) -> Event:
        """All that will be charged: the steps of all blocks, and the later parts."""
        first = repeated(self.mechanism.event(facts), self.rules.steps)
        later = [self.part_cost(part, facts) for part in self.parts.values()]
        return Composed((first, *later)) if later else first

    def due(self, run: Run) -> Event:
        """The part of `event` still to be charged for `run`: blocks that are not in the ledger, and later parts."""
        count, size = self.blocks()
        left = count - int(run.charged())
        first = [repeated(self.mechanism.event(self.facts), left * size)] if left > 0 else []
        events = (*first, *self.due_parts(run, bool(first)))
        # called only when something is about to be paid
        assert events
        return Composed(events)

    def block(self, facts: Facts) -> Event:
        """What one charge is for."""
        return repeated(self.mechanism.event(facts), int(self.mechanism.steps))

    def blocks(self) -> tuple[int, int]:
        """The number of charges, and the steps of each."""
        count, size = int(self.rules.options["blocks"]), int(self.mechanism.steps)
        if min(count, size) < 1 or count * size != self.rules.steps:
            raise DataError("This job's blocks do not fit its steps.")
        return count, size

    def check(self, facts: Facts, epsilon: float, delta: float, device: str) -> None:
        """Refuse, before anything is paid, a job that would fail or cost too much afterwards."""
        check_same_facts(self.facts, facts)
        self.blocks()
        rehearse_stream(self.rules, facts.classes or 1, facts.dim, device=device, seed=self.seed)
        check_cost(self.event(facts), self.delta, epsilon, delta)

    def check_standing(self, allow_unproven: bool) -> None:
        """Refuse a calibration that no theorem covers, unless it is allowed."""
        check_standing(self.block(self.facts), self.delta, allow_unproven)

    def check_release(self, release: Release) -> None:
        """Refuse every release: a stream's are used as they come, and none lies in the folder."""
        raise DataError("A job that is paid block by block has no release in its folder: remove it.")


class StreamingMethod(ABC):
    """A method that trains on a stream of releases; subclasses say where the noise enters."""

    name: ClassVar[str]
    watched: ClassVar[str]

    @abstractmethod
    def design(
        self,
        problem: Problem,
        facts: Facts,
        terms: tuple[float, float],
        span: tuple[Any, Any],
        given: Mapping[str, Any],
    ) -> tuple[Mechanism, Rules]:
        """The mechanism of one *block* and the rules, for (ε, δ) and the public range [low, high]."""

    @abstractmethod
    def write(self, mechanism: Any) -> dict[str, Any]:
        """A mechanism as plain JSON types."""

    @abstractmethod
    def read(self, fields: Mapping[str, Any], device: str) -> Mechanism:
        """The mechanism that `write` wrote."""

    @abstractmethod
    def trainer(self, training: TrainingState, mechanism: Any, options: Mapping[str, Any]) -> Step:
        """What one step does with what `mechanism` releases, under the options that were decided on."""

    def plan(self, config: SynthesisConfig, facts: Facts) -> StreamDesign:
        """σ for all blocks together, and for labels where they are asked for."""
        # its noise is found for samples of single records, for which no theorem covers a unit
        refuse_unit(facts, f"The method {config.method} draws single records, so it")
        device = usable_device(config.device, auto=True)
        public_range(config.low, config.high, facts.dim)
        shape = config.image_shape(facts)
        records = facts.records
        if config.records is not None:
            records = arguments.whole("The stated number of records", config.records, 1)
        seed = fresh_seed() if config.seed is None else check_seed(config.seed)
        if config.features is not None or config.rules is not None:
            raise UsageError(f"The method {config.method} takes options, not features or rules.")
        problem = Problem(facts.dim, facts.classes or 1, math.nan, records, shape, device)
        terms, span = (config.epsilon, config.delta), (config.low, config.high)
        mechanism, rules = self.design(problem, facts, terms, span, config.options or {})
        if rules.options.get("labelled"):
            mechanism, rules = _with_labels(mechanism, rules, facts, problem, terms)
        design = StreamDesign(mechanism, rules, seed, float(config.delta), facts, config.method)
        design.check_standing(config.allow_unproven)
        return design

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> StreamDesign:
        """The design that a job wrote down."""
        return StreamDesign.from_dict(fields, device)

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay and train block by block, then pay for the later parts."""
        design: StreamDesign = run.design
        run.paid(None)
        training, guarantee = train_blocks(run, self.trainer)
        outcome = Outcome(design, guarantee)
        run.paid(outcome)
        # the number of records per class was not released: samples cycle through all classes
        outcome.fitted = FittedGenerator(
            training.best,
            None,
            np.ones(training.generator.classes),
            design.labels,
            (run.config.low, run.config.high),
            losses=training.losses,
        )
        return refine(run, outcome, run.payments.name)


def described(kind: type[M], fields: Mapping[str, Any]) -> M:
    """The mechanism of this `kind` that `fields` describe."""
    try:
        return kind(**fields)
    except TypeError:
        raise DataError(f"This does not describe a {kind.__name__}.") from None


def _method(name: str) -> StreamingMethod:
    from privot.synthesis.methods import method_named

    method = method_named(name)
    if not isinstance(method, StreamingMethod):
        raise DataError(f"The method {name} is not paid block by block.")
    return method


def _with_labels(
    mechanism: Any, rules: Rules, facts: Facts, problem: Problem, terms: tuple[float, float]
) -> tuple[Any, Rules]:
    """A stream's mechanism with more noise, so that all of its steps and a labeller together cost (ε, δ)."""
    epsilon, delta = terms
    whole = embedding(adjacency=facts.adjacency, delta=delta, epsilon=epsilon).sigma
    labelling = labelling_of(replace(problem, sigma=whole), float(rules.options["labelled"]))
    if problem.shape is None or problem.classes < 2:
        raise UsageError("Only images of several classes can be labelled: leave out the labelling.")
    labelling.check(problem.shape, problem.classes, problem.records, facts.records)

    def both(sigma: float) -> Event:
        stream = repeated(replace(mechanism, sigma=sigma).event(facts), rules.steps)
        return Composed((stream, labelling.event(facts.adjacency)))

    sigma = calibrate(both, epsilon=epsilon, delta=delta)
    options = {**rules.options, "labelling": labelling.to_dict()}
    return replace(mechanism, sigma=sigma), replace(rules, options=options)
