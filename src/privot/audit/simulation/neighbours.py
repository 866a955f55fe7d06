"""Runs mechanisms in vaults on the neighbouring data sets that an audit makes, once per trial.

The records are the audit's own, so nothing needs protection, and the budget is practically unlimited. No other vault is
opened here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.accounting.sampling import Poisson, Sampling
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts, Mechanism, Needs
from privot.mechanisms.mechanism import Records
from privot.noise import NoiseSource
from privot.release import Release, Value
from privot.vault import Vault
from privot.vault.stream import Stream

Array = NDArray[np.float64]

_UNLIMITED = (1e300, 0.5)


@dataclass(frozen=True)
class Neighbour:
    """One of two neighbouring data sets: records (n, d), and labels (n,) if the mechanism needs them."""

    x: Array
    y: NDArray[np.int64] | None = None
    classes: int | None = None


@dataclass(frozen=True)
class RepeatedRelease:
    """A mechanism of one release, run `steps` times as a stream, with the same code."""

    mechanism: Mechanism
    steps: int

    @property
    def needs(self) -> Needs:
        """The mechanism's."""
        return self.mechanism.needs

    @property
    def standing(self) -> Standing:
        """The mechanism's."""
        return self.mechanism.standing

    @property
    def seed(self) -> int | None:
        """The mechanism's."""
        return self.mechanism.seed

    def event(self, facts: Facts) -> Event:
        """The mechanism's, of one step."""
        return self.mechanism.event(facts)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Value, Mapping[str, Any]]:
        """The mechanism's."""
        return self.mechanism.run(records, noise, event, step)


def open_stream(
    held: Neighbour, mechanism: Mechanism, steps: int, *, clip: float, adjacency: Adjacency, noise: NoiseSource
) -> Stream:
    """`steps` steps of the mechanism on these records, through a vault, as a user gets them."""
    vault = Vault(
        held.x,
        held.y,
        clip=clip,
        classes=held.classes,
        adjacency=adjacency,
        budget=_UNLIMITED,
        noise=noise,
        label="made by the audit",
    )
    repeated = mechanism if mechanism.steps == steps else _with_steps(mechanism, steps)
    return vault.stream(repeated, purpose="audit", allow_unproven=True)


def releases(
    held: Neighbour,
    mechanism: Mechanism,
    steps: int,
    *,
    clip: float,
    adjacency: Adjacency,
    noise: NoiseSource,
    query: Any = None,
) -> Iterator[Release]:
    """The releases of `open_stream`, each an answer to `query` where the mechanism answers queries."""
    stream = open_stream(held, mechanism, steps, clip=clip, adjacency=adjacency, noise=noise)
    if query is None:
        yield from stream
    else:
        for _ in range(steps):
            yield stream.answer(query)


def _with_steps(mechanism: Mechanism, steps: int) -> Mechanism:
    if hasattr(mechanism, "begin"):
        import dataclasses

        return dataclasses.replace(mechanism, steps=steps)  # type: ignore[type-var]
    return RepeatedRelease(mechanism, steps)


def counted_under(sampling: Sampling) -> Adjacency:
    """The adjacency under which a sampler is counted."""
    return Adjacency.ADD_REMOVE if isinstance(sampling, Poisson) else Adjacency.REPLACE_ONE


def sampled(sampling: Sampling, steps: int) -> str:
    """The sampler and the number of steps, in a few words."""
    return sampling.describe() + ("" if steps == 1 else f", {steps} steps")
