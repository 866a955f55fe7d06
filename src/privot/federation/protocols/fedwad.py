"""FedWad: K rounds of interpolants that approach a geodesic between two parties. It protects no record."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from privot.common.declared import declared
from privot.errors import DataError, UsageError, brief
from privot.federation.protocols.answering import FederatedResult, Steps, as_points, drive, local_party
from privot.federation.wire.messages import MIN_T, Array, Question, check_order

SHARES = (0.05, 0.95)
"""Range of a random t: near 0 and 1 a round would move nothing."""


@declared(x="array", y="array")
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
    """Simulate FedWad: W_p(x, γ_K) + W_p(γ_K, y) after `rounds` rounds towards a geodesic. It gives no privacy.

    (Rakotomamonjy, Nadjahi & Ralaivola 2024, "Federated Wasserstein distance".) In round k each side sends its
    interpolant with γ_{k−1}, and γ_k is an interpolant of the two. By the triangle inequality every value is an upper
    bound of W_p(x, y), and equality holds on a geodesic.

    Parameters
    ----------
    x, y
        Points of the two parties, (n, d) and (m, d): NumPy arrays or tensors. An array with one axis is n points in
        one dimension.
    rounds
        Number of rounds, at least 1.
    p
        Order of the distance, from 1 to below 1000.
    t
        How far towards γ each side moves, from 0.01 to below 1; "random" draws it for each round and side. The
        published fixed ½ stops at a wrong fixed point in many dimensions.
    start
        γ_0, (k, d); standard normal of the shape of `x` unless given.
    seed
        Seed of γ_0 and of a random `t`.

    Returns
    -------
    FederatedResult
        `value` (the last upper bound), `history` (the value of each round), `rounds`, `bytes_sent`, and `privacy`,
        which says that there is none.

    Raises
    ------
    UsageError
        If `rounds`, `p` or `t` is out of range.
    DataError
        If points are not finite numbers of shape (n, d), or have different dimensions.

    Formal guarantees
    -----------------
    None. At equality x̂ = y_σ + (γ − y_σ)·W(x, y)/W(γ, y) gives every record back to the other party.

    Examples
    --------
    >>> x, y = np.zeros((4, 2)), np.ones((4, 2))
    >>> found = fedwad(x, y, rounds=10, seed=0)
    >>> 1.414 <= found.value < 1.6, found.rounds
    (True, 10)
    """
    points = as_points("x", x)
    generator = np.random.default_rng(seed)
    gamma = generator.standard_normal(points.shape) if start is None else as_points("start", start)
    steps = fedwad_steps(gamma, rounds, p, t=t, generator=generator)
    return drive(steps, local_party(points), local_party(as_points("y", y)))


def fedwad_steps(
    gamma: Array,
    rounds: int = 20,
    p: float = 2,
    *,
    t: float | Literal["random"] = "random",
    generator: np.random.Generator | None = None,
) -> Steps:
    """The questions of K rounds, and one more for the last distances; the coordinator that runs them holds γ."""
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
        # the last question is for distances only; the points in its answer are not used
        one, two = yield Question(gamma, share(), p, number), Question(gamma, share(), p, number)
        if number:
            history.append(one.distance + two.distance)
        if number < rounds:
            gamma = np.asarray(interpolate(one.points, two.points, share(), p=p).value)
    return tuple(history)
