"""What a way of training on a stream of releases has to offer; it knows none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import torch

from privot.errors import DataError
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.synthesis.defaults.embedding_defaults import Problem, Rules
from privot.synthesis.training_state import TrainingState
from privot.vault.stream import Stream

M = TypeVar("M")

Step = Callable[[Stream], torch.Tensor]
"""Takes one release from a stream, trains on it and answers with a public number to watch."""


class Strategy(Protocol):
    """A way to train on a stream of releases."""

    def design(
        self,
        problem: Problem,
        facts: Facts,
        terms: tuple[float, float],
        span: tuple[Any, Any],
        given: Mapping[str, Any],
    ) -> tuple[Mechanism, Rules]:
        """The mechanism of one *block* and the rules, for (ε, δ) and the public range [low, high]."""
        ...

    def write(self, mechanism: Any) -> dict[str, Any]:
        """A mechanism as plain JSON types."""
        ...

    def read(self, fields: Mapping[str, Any], device: str) -> Mechanism:
        """The mechanism that `write` wrote."""
        ...

    def trainer(self, training: TrainingState, mechanism: Any, options: Mapping[str, Any]) -> Step:
        """What one step does with what `mechanism` releases, under the knobs that were decided on."""
        ...


def described(kind: type[M], fields: Mapping[str, Any]) -> M:
    """The mechanism of this `kind` that `fields` describe."""
    try:
        return kind(**fields)
    except TypeError:
        raise DataError(f"This does not describe a {kind.__name__}.") from None
