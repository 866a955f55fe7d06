"""TriangleWad: one round towards defence data, with the factor corrected. It protects no record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from privot.common.declared import declared
from privot.errors import DataError, UsageError, brief
from privot.federation.protocols.answering import FederatedResult, Steps, as_points, drive, exchange, local_party
from privot.federation.protocols.fedwad import fedwad
from privot.federation.wire.messages import MIN_T, Array, Question, check_order, check_share

Factor = Literal["corrected", "published"]


@declared(x="array", y="array")
def triangle(
    x: Any,
    y: Any,
    t: float = 0.5,
    defence: Any = "constant",
    p: float = 2,
    *,
    shared: bool = True,
    factor: Factor = "corrected",
    federated: bool = False,
    rounds: int = 20,
    seed: int | None = None,
) -> FederatedResult:
    """Simulate TriangleWad: W_p(η_x, η_y)/(1 − t), η = (1 − t)·x + t·T(x), T the map to γ. It gives no privacy.

    (Li, Fu & Pang 2024, "Data valuation and detections in federated learning" and its successor TriangleWad.)
    With σ_p(γ) = inf_c ‖γ − c‖ in L^p, for any p ≥ 1, sizes and weights,

        |W_p(η_x, η_y) − (1 − t) W_p(x, y)| ≤ 2t σ_p(γ)                    zero for a constant γ
        W_2(η_x, η_y) ≥ (1 − t) W_2(x, y)                                  it never underestimates
        W_2(η_x, η_y) ≤ (1 − t) LOT_γ(x, y)                                equal sizes: linearised transport

    The published factor t^p is right only for p = 1 and t = ½.

    Parameters
    ----------
    x, y
        Points of the two parties, (n, d) and (m, d): NumPy arrays or tensors. An array with one axis is n points in
        one dimension.
    t
        How far each side moves towards γ, from 0.01 to below 1.
    defence
        The defence data γ: "constant" (one point, all ones), "random" (standard normal, of the shape of `x`), or an
        array (k, d).
    p
        Order of the distance, from 1 to below 1000.
    shared
        Whether both sides use one γ. With False each side draws its own random γ, the published "private" variant; the
        bound then has one σ_p of each and the distance between them.
    factor
        What W_p(η_x, η_y) is divided by: 1 − t ("corrected"), or t^p as published (equation 7 and Algorithm 1).
    federated
        Whether the two η are kept by their sides and compared by FedWad (line 7 of Algorithm 1) in place of directly.
    rounds
        Rounds of FedWad between the two η.
    seed
        Seed of a random γ, and of FedWad's start.

    Returns
    -------
    FederatedResult
        `value` (the distance, p-th root taken), `bytes_sent`, and `privacy`, which says that there is none.

    Raises
    ------
    UsageError
        If `t` or `p` is out of range, or the name of the defence is unknown.
    DataError
        If points are not finite numbers of shape (n, d), or have different dimensions.

    Formal guarantees
    -----------------
    None. For a shared γ of equal size the optimal plan from η to γ is the plan from x, so one call gives every record
    back; a constant γ is an affine map; a secret γ still points towards the record. FedWad between the η gives back the
    η at equality, so keeping them hides nothing that sharing them does not.

    Examples
    --------
    >>> x, y = np.zeros((4, 2)), np.ones((4, 2))
    >>> round(triangle(x, y).value, 6)
    1.414214
    >>> round(triangle(x, y, factor="published").value, 6)
    2.828427
    """
    one, two = as_points("x", x), as_points("y", y)
    scale = 1.0 if factor == "corrected" else _published_scale(t, p, factor)
    own = None if shared else defence_points(defence, two, None if seed is None else seed + 1)
    steps = triangle_steps(defence_points(defence, one, seed), t, p, own)
    if federated:
        # each side makes its own η, and nobody else sees it
        asked = zip((one, two), next(steps), strict=True)
        own_eta, other_eta = (exchange(local_party(z), question)[0].points for z, question in asked)
        found = fedwad(own_eta, other_eta, rounds, p, seed=seed)
        scale /= 1.0 - t
    else:
        found = drive(steps, local_party(one), local_party(two))
    return replace(found, value=scale * found.value, history=tuple(scale * value for value in found.history))


def _published_scale(t: float, p: float, factor: str) -> float:
    """What turns a division by 1 − t into the published one by t^p."""
    if factor != "published":
        raise UsageError(f'Unknown factor {brief(factor)}: use "corrected" or "published".')
    try:
        power: float = check_share("t", t, MIN_T) ** check_order(p)
        return (1.0 - t) / power
    except DataError as error:
        raise UsageError(str(error)) from None


def defence_points(defence: Any, like: Array, seed: int | None = None) -> Array:
    """γ by its name, with the columns of `like`, or as given."""
    if isinstance(defence, str):
        if defence == "constant":
            return np.ones((1, like.shape[1]))
        if defence == "random":
            return np.random.default_rng(seed).standard_normal(like.shape)
        raise UsageError(f'Unknown defence {brief(defence)}: use "constant", "random" or an array of points.')
    points = as_points("The defence data", defence)
    if points.shape[1] != like.shape[1]:
        raise DataError(f"The defence data has {points.shape[1]} columns and the records {like.shape[1]}.")
    return points


def triangle_steps(defence: Array, t: float = 0.5, p: float = 2, other_defence: Array | None = None) -> Steps:
    """The single round: γ to both sides, η back from each, and the distance between the two η."""
    try:
        t, p = check_share("t", t, MIN_T), check_order(p)
    except DataError as error:
        raise UsageError(str(error)) from None
    from privot.transport import exact

    question = Question(defence, t, p)
    one, two = yield question, question if other_defence is None else Question(other_defence, t, p)
    if one.points.shape[1] != two.points.shape[1]:
        raise DataError(
            f"The two sides have {one.points.shape[1]} and {two.points.shape[1]} columns: they must have equally many."
        )
    return (float(exact(one.points, two.points, p=p).value) / (1.0 - t),)
