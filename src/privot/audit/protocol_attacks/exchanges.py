"""Runs FedWad and TriangleWad between two arrays, and keeps what each side sends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.audit.attacks.reconstruction import (
    identically_distributional,
    invert_constant,
    invert_fedwad,
    invert_shared,
)
from privot.audit.targets.exchange import recorded
from privot.errors import UsageError
from privot.federation.protocols.answering import FederatedResult, drive, local_party
from privot.federation.protocols.fedwad import fedwad_steps
from privot.federation.protocols.triangle import defence_points, triangle_steps
from privot.federation.wire.messages import Interpolant, Question

Array = NDArray[np.float64]
Messages = list[tuple[Question, Interpolant]]
"""Questions to one side and its answers, in their order."""


@dataclass(frozen=True)
class Exchange:
    """One protocol between two sides: what each was asked and answered."""

    of_first: Messages
    of_second: Messages
    result: FederatedResult

    def inverted(self) -> Array:
        """The first side's records, by whoever asked: from the first message, with γ and t of the question."""
        question, said = self.of_first[0]
        if len(question.towards) == 1:
            return invert_constant(said.points, question.towards[0], question.t)
        return invert_shared(said.points, question.towards, question.t)

    @property
    def last_gamma(self) -> Array:
        """γ of the last question: what FedWad ends with."""
        return self.of_second[-1][0].towards

    def by_the_other_side(self, own: Array, *, optimised: bool = False, rounds: int = 25) -> Array:
        """The first side's records by the second one, which holds `own` records, the last γ and both distances.

        The closed form; or, `optimised`, points whose distances are those that were sent (TriangleWad, equation 5).
        """
        gamma, far, near = self.last_gamma, self.of_first[-1][1].distance, self.of_second[-1][1].distance
        if optimised:
            return identically_distributional(gamma, own, far, near, rounds=rounds)
        return invert_fedwad(gamma, own, far, near)


def play_triangle(
    x: Array, y: Array, defence: str | Array = "random", *, t: float = 0.5, secret: bool = False, seed: int = 1
) -> Exchange:
    """TriangleWad between x and y; `defence` by name or as an array; `secret`: each side draws its own by that name."""
    check_sides(x, y)
    one: Messages = []
    two: Messages = []
    own = defence_points(defence, y, seed + 1) if secret else None
    steps = triangle_steps(defence_points(defence, x, seed), t, 2, own)
    result = drive(steps, recorded(local_party(x), one), recorded(local_party(y), two))
    return Exchange(one, two, result)


def play_fedwad(x: Array, y: Array, rounds: int = 20, *, seed: int = 3) -> Exchange:
    """FedWad between x and y, from a normal γ; t is drawn anew in each round."""
    check_sides(x, y)
    one: Messages = []
    two: Messages = []
    generator = np.random.default_rng(seed)
    steps = fedwad_steps(generator.standard_normal(x.shape), rounds, generator=generator)
    result = drive(steps, recorded(local_party(x), one), recorded(local_party(y), two))
    return Exchange(one, two, result)


def check_sides(x: Array, y: Array) -> None:
    """Refuse sides of different shapes: the closed forms invert a plan between equally many points."""
    if x.ndim != 2 or x.shape != y.shape or len(x) < 2:
        raise UsageError(f"Both sides need one shape, and at least 2 records each, got {x.shape} and {y.shape}.")
