"""FedWad: K rounds of interpolants that close in on a geodesic between the parties. It hides nothing."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from privot.errors import DataError, UsageError, brief
from privot.federation.protocols.answering import FederatedResult, Steps, as_points, drive, party_at_hand
from privot.federation.wire.messages import MIN_T, Array, Question, check_order

SHARES = (0.05, 0.95)
"""Random t stay this far from 0 and 1, where a round would move nothing."""


def fedwad(
    x: Any,
    y: Any,
    rounds: int = 20,
    p: float = 2,
    *,
    t: float | Literal["random"] = "random",
    start: Any = None,
    seed: int | None = None,
) -> FederatedResult:
    """W_p(x, γ_K) + W_p(γ_K, y) after `rounds` rounds towards a geodesic: a simulation, without privacy.

    (Rakotomamonjy, Nadjahi & Ralaivola 2024, "Federated Wasserstein distance".) In round k each side sends its
    interpolant with γ_{k−1}, and γ_k is an interpolant of the two. The triangle inequality makes every value an
    upper bound of W_p(x, y), and equality holds on a geodesic. `t` "random" draws a share anew each round and side;
    the published fixed ½ freezes at a wrong fixed point in many dimensions. `history` holds the value of each round.

    Formal guarantees: none. At equality x̂ = y_σ + (γ − y_σ)·W(x, y)/W(γ, y) gives every record back.
    """
    points = as_points("x", x)
    generator = np.random.default_rng(seed)
    gamma = generator.standard_normal(points.shape) if start is None else as_points("start", start)
    steps = fedwad_steps(gamma, rounds, p, t=t, generator=generator)
    return drive(steps, party_at_hand(points), party_at_hand(as_points("y", y)))


def fedwad_steps(
    gamma: Array,
    rounds: int = 20,
    p: float = 2,
    *,
    t: float | Literal["random"] = "random",
    generator: np.random.Generator | None = None,
) -> Steps:
    """The questions of K rounds, and one more for the last distances; whoever plays them holds γ."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise UsageError(f"The number of rounds must be a whole number of at least 1, got {brief(rounds)}.")
    if t != "random" and (isinstance(t, bool | str) or not MIN_T <= t < 1.0):
        raise UsageError(f"t must be random, or lie from {MIN_T:g} to below 1, got {brief(t)}.")
    try:
        p = check_order(p)
    except DataError as error:
        raise UsageError(str(error)) from None
    generator = np.random.default_rng() if generator is None else generator

    def share() -> float:
        return float(generator.uniform(*SHARES)) if t == "random" else float(t)

    from privot.transport import interpolate

    history = []
    for number in range(rounds + 1):
        # the last question only asks for distances; the points that come with the answer are not looked at
        one, two = yield Question(gamma, share(), p, number), Question(gamma, share(), p, number)
        if number:
            history.append(one.distance + two.distance)
        if number < rounds:
            gamma = np.asarray(interpolate(one.points, two.points, share(), p=p).value)
    return tuple(history)
