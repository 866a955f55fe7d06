"""How a party answers a question about its points: from arrays in a simulation, or through its vault.

Nothing here opens a file or a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from privot.errors import DataError
from privot.federation.wire.messages import Array, Interpolant, Question
from privot.mechanisms.unproven.interpolation import Interpolation
from privot.vault import Vault

NO_PRIVACY = "none: anybody who knows the target points can compute the records from an interpolant (unproven)"

Party = Callable[[Question], Interpolant]


@dataclass(frozen=True)
class FederatedResult:
    """A distance, what was exchanged to compute it, and a statement of its privacy (none).

    `value` is the distance after the last round, `history` the values of all rounds, `bytes_sent` all messages.
    """

    value: float
    rounds: int
    history: tuple[float, ...]
    bytes_sent: int
    privacy: str = NO_PRIVACY


def local_party(x: Any) -> Party:
    """A simulated party holding `x`: for studies and attacks. It gives no privacy at all."""
    points = np.array(x, dtype=np.float64)
    if points.ndim == 1:
        points = points[:, None]

    def answer(question: Question) -> Interpolant:
        from privot.transport import exact, interpolate

        if points.ndim != 2 or points.shape[1] != question.towards.shape[1]:
            raise DataError(
                f"The question has points of {question.towards.shape[1]} columns, this party's have {points.shape[-1]}."
            )
        found = exact(points, question.towards, p=question.p)
        eta = interpolate(points, question.towards, question.t, p=question.p, plan=found.plan).value
        return Interpolant(np.asarray(eta), float(found.value), question.t, question.p, question.number)

    return answer


def party_with_vault(vault: Vault, *, allow_unproven: bool = False) -> Party:
    """A party that answers from its vault, if it sets `allow_unproven=True` and its budget covers interpolants.

    No finite budget does: expect the vault to refuse (`UnprovenError`, or `BudgetError` once unproven is allowed).
    """

    def answer(question: Question) -> Interpolant:
        mechanism = Interpolation(question.towards, question.t, question.p)
        purpose = f"interpolant of round {question.number}"
        release = vault.release(mechanism, purpose=purpose, allow_unproven=allow_unproven)
        value: Any = release.value
        return Interpolant(value["points"], float(value["distance"][0]), question.t, question.p, question.number)

    return answer


Steps = Generator[tuple[Question, Question], tuple[Interpolant, Interpolant], tuple[float, ...]]
"""A protocol between two parties as a generator: questions out, checked answers in, and the value of each round."""


def drive(steps: Steps, first: Party, second: Party) -> FederatedResult:
    """Run `steps` with two parties in this process; between machines a coordinator does the same with messages."""
    sent = 0
    try:
        questions = next(steps)
        while True:
            (one, some), (two, more) = exchange(first, questions[0]), exchange(second, questions[1])
            sent += some + more
            questions = steps.send((one, two))
    except StopIteration as end:
        history: tuple[float, ...] = end.value
    return FederatedResult(history[-1], len(history), history, sent)


def exchange(party: Party, question: Question) -> tuple[Interpolant, int]:
    """(the party's answer, bytes of both messages); both messages are encoded, decoded and checked."""
    sent = question.to_bytes()
    answered = party(Question.from_bytes(sent)).to_bytes()
    answer = Interpolant.from_bytes(answered)
    answer.check_answers(question)
    return answer, len(sent) + len(answered)


def as_points(name: str, x: Any) -> Array:
    """`x` as points (n, d) in float64; an array with one axis is n points in one dimension."""
    points = np.array(x.detach().cpu().numpy() if hasattr(x, "detach") else x, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
        raise DataError(f"{name} must be finite numbers of shape (points, dimensions).")
    return points
