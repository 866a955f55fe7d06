"""The protocol of a synthesis method, and the run that it works on; it knows no particular method.

A method is one module with a class that has `plan`, `read_design`, `run` and `watched`, and one line in the registry
(`privot.synthesis.methods.METHODS`). It asks `run.payments` for releases and does not see the vault behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from privot.guarantee import Guarantee
from privot.jobs.run import Run
from privot.mechanisms.mechanism import Facts
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.design import Design
from privot.synthesis.fitted import Fitted
from privot.synthesis.neural.generator_training.checkpoint import EVERY_SECONDS
from privot.synthesis.neural.generator_training.distributed import ALONE, Team
from privot.synthesis.neural.generator_training.training_state import Progress


@dataclass
class Outcome:
    """What was paid and learned so far: releases count as soon as they are paid, even if training fails."""

    design: Any
    guarantee: Guarantee
    release: Release | None = None
    fitted: Fitted | None = None


@dataclass
class SynthesisRun:
    """One synthesis under way, which a method completes."""

    config: SynthesisConfig
    design: Any
    payments: Run
    device: str
    paid: Callable[[Outcome | None], None]
    """Called with None before something is paid, which discards an earlier outcome, and with the outcome once it is
    paid."""
    progress: Progress | None = None
    checkpoint_interval: float = EVERY_SECONDS
    team: Team = field(default=ALONE)


class SynthesisMethod(Protocol):
    """Where the noise enters, and how a model is trained on what is released."""

    watched: ClassVar[str]
    """The quantity on the training curve: public, since it follows from releases."""

    def plan(self, config: SynthesisConfig, facts: Facts) -> Design:
        """What would be released and trained for `config` on records with these public `facts`; costs nothing."""
        ...

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> Design:
        """The design that was written by `Design.to_dict`, for another device if need be."""
        ...

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay, train, and return a fitted model."""
        ...
