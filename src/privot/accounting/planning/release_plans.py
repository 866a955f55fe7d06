"""The plans of projection, gradient, embedding and Laplace releases, in a user's terms.

Each function takes either σ or ε and answers with a `Plan`: the event that will be charged and its guarantee.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from privot.accounting.accountant import account
from privot.accounting.calibration import calibrate
from privot.accounting.events import Bound, Event, Frame, Gaussian, Laplace, Projection, repeated
from privot.accounting.planning.plan_terms import MAX_STEPS, Plan, PlanTerms
from privot.common.arguments import check_count, check_delta, check_epsilon, check_kind, check_positive
from privot.errors import NoTheoremError, UsageError, brief
from privot.guarantee import Adjacency

Clipping = Literal["matrix", "row", "per-example"]
"""What of a gradient is clipped, see `gradient`."""


def projection(
    dim: int,
    slices: int,
    *,
    adjacency: Adjacency | str,
    delta: float,
    sigma: float | None = None,
    epsilon: float | None = None,
    records: int | None = None,
    batch: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    clip: float = 0.5,
    frame: Frame = "orthogonal",
    bound: Bound = "exact",
) -> Plan:
    """Plan random projections of clipped records (DP-SWD): σ from ε, ε from σ, or what both together pay for.

    Parameters
    ----------
    dim, slices
        Columns of what is projected, and how many directions it is projected on.
    adjacency
        "add-remove" or "replace-one".
    delta
        The δ at which the plan is quoted.
    sigma, epsilon
        σ, the standard deviation of the noise, or the target ε: the one that is left out is the answer. With both given
        the answer is the number of steps, or, where the steps are given too, the largest batch.
    records, batch
        Each step draws `batch` of `records` records: a fixed size under replace-one, Poisson at rate batch/records
        under add-remove. Without a batch each step releases everything.
    epochs, steps
        How many steps run: `steps`, or ⌈epochs·records/batch⌉; one unless given.
    clip
        C, the bound on a record's norm. Replacing a record moves it by at most 2C.
    frame
        "orthogonal" or "independent" directions.
    bound
        "exact" counts the law of the directions exactly. With "bernstein" or "clt", the published bounds, half of δ
        pays for bad directions, split over all `steps` draws of them. "published" and "published-clt" are these bounds
        as the paper counts them: the half of δ pays once, however often directions are drawn (UNPROVEN).

    Returns
    -------
    Plan
        The event that will be charged and its guarantee, with σ, the number of steps, the sensitivity and the batch.

    Raises
    ------
    NoTheoremError
        Under add-remove: a projection release shows how many records took part.
    UsageError
        If a parameter is out of range, or nothing or too much is left out.

    Notes
    -----
    Formal guarantee: with `bound` "exact" the standing is PROVEN and ε is an upper bound, rounding included; with "clt"
    it is ASYMPTOTIC, with "published" or "published-clt" UNPROVEN.

    References
    ----------
    Rakotomamonjy & Ralaivola 2021, "Differentially private sliced Wasserstein distance".

    Examples
    --------
    >>> plan = projection(784, 784, adjacency="replace-one", delta=1e-5, sigma=1.0)
    >>> round(plan.guarantee.epsilon(), 4), str(plan.guarantee.standing)
    (4.3772, 'proven')
    """
    adjacency = Adjacency.parse(adjacency)
    check_positive("The clipping bound", clip)
    if adjacency is Adjacency.ADD_REMOVE:
        raise NoTheoremError(
            "A projection release shows how many records took part, so adding or removing one is never private: "
            "use replace-one neighbours."
        )
    sensitivity = adjacency.sensitivity(clip)
    check_kind("The bound", bound, str)

    def release(s: float, times: int) -> Event:
        once = bound.startswith("published")
        failure = None if bound == "exact" else delta / 2.0 if once else delta / (2.0 * times)
        return Projection(dim, slices, s, sensitivity, adjacency, frame, bound, failure)

    return PlanTerms(adjacency, delta, sigma, epsilon, records, batch, epochs, steps).solve(release, sensitivity)


def gradient(
    *,
    adjacency: Adjacency | str,
    delta: float,
    clipping: Clipping,
    rows: int | None = None,
    sigma: float | None = None,
    epsilon: float | None = None,
    records: int | None = None,
    batch: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    clip: float = 1.0,
) -> Plan:
    """Plan noisy clipped gradients (DP-SGD, DP-Sinkhorn): σ from ε, ε from σ, or what both together pay for.

    Parameters
    ----------
    adjacency
        "add-remove" or "replace-one".
    delta
        The δ at which the plan is quoted.
    sigma, epsilon
        σ, the standard deviation of the noise, or the target ε: the one that is left out is the answer. With both given
        the answer is the number of steps, or, where the steps are given too, the largest batch.
    records, batch
        Each step draws `batch` of `records` records: a fixed size under replace-one, Poisson at rate batch/records
        under add-remove. Without a batch each step releases everything.
    epochs, steps
        How many steps run: `steps`, or ⌈epochs·records/batch⌉; one unless given.
    clip
        C, the clipping norm. σ is the noise's standard deviation, not a multiple of it.
    clipping
        What is clipped; it is stated because σ depends on it. "matrix": the gradient at all generated points, as one,
        is scaled to norm ≤ C as a whole, so any two values differ by at most 2C whatever the neighbours (`privot synth
        --method sinkhorn`). "row": each of its `rows` rows is scaled to norm ≤ C by itself (DP-Sinkhorn, Theorem 4.1).
        One record can move every row by 2C, and the matrix by 2C√rows. "per-example" (DP-SGD): a sum of gradients each
        of norm ≤ C, so the difference is C when a record is added or removed and 2C when one is replaced.
    rows
        n, the number of generated points, which is public; for "row" only.

    Returns
    -------
    Plan
        The event that will be charged and its guarantee, with σ, the number of steps, the sensitivity and the batch.

    Raises
    ------
    UsageError
        If a parameter is out of range, or nothing or too much is left out.

    Notes
    -----
    Formal guarantee: ε is an upper bound for the composition of all steps, rounding included; the standing is PROVEN.

    References
    ----------
    Abadi et al. 2016, "Deep learning with differential privacy"; Cao et al. 2021, "Don't Generate Me", Theorem 4.1:
    with noise N(0, C²s²) on rows clipped to C, one update is (α, 2αn/s²)-RDP, which is αΔ²/2σ² for Δ = 2C√n and σ = Cs.

    Examples
    --------
    >>> plan = gradient(
    ...     adjacency="add-remove", delta=1e-5, epsilon=1.0, records=60_000, batch=600, epochs=10, clip=1.0,
    ...     clipping="per-example",
    ... )
    >>> plan.steps, round(plan.sigma, 1), plan.guarantee.epsilon() <= 1.0
    (1000, 1.4, True)
    """
    adjacency = Adjacency.parse(adjacency)
    check_positive("The clipping bound", clip)
    check_kind("The clipping", clipping, str)
    if clipping not in get_args(Clipping):
        raise UsageError(f"Unknown clipping {brief(clipping)}: say matrix, row or per-example.")
    if (rows is not None) != (clipping == "row"):
        raise UsageError("Clipping by row, and no other, needs the number of rows: the generated points of one step.")
    if rows is not None:
        check_count("The number of rows", rows)
        sensitivity = 2.0 * clip * math.sqrt(rows)
    else:
        sensitivity = 2.0 * clip if clipping == "matrix" else adjacency.sensitivity(clip)
    terms = PlanTerms(adjacency, delta, sigma, epsilon, records, batch, epochs, steps)
    return terms.solve(lambda s, _: Gaussian(s, sensitivity, adjacency), sensitivity)


def embedding(
    *,
    adjacency: Adjacency | str,
    delta: float,
    sigma: float | None = None,
    epsilon: float | None = None,
    norm: float = 1.0,
    releases: int = 1,
) -> Plan:
    """Plan embeddings released once: sums over records of features with ‖φ(x)‖ ≤ `norm`, all classes together.

    One record touches one class, so the sensitivity of the whole is `norm` (add-remove) or 2·`norm` (replace-one).

    Parameters
    ----------
    adjacency
        "add-remove" or "replace-one".
    delta
        The δ at which the plan is quoted.
    sigma, epsilon
        σ, the standard deviation of the noise, or the target ε: the one that is left out is the answer.
    norm
        The bound on a record's features.
    releases
        How many embeddings are released.

    Returns
    -------
    Plan
        The event that will be charged and its guarantee, with σ, the number of steps, the sensitivity and the batch.

    Raises
    ------
    UsageError
        If a parameter is out of range, or σ and ε are both left out.

    Notes
    -----
    Formal guarantee: the Gaussian mechanism's own curve, in closed form, rounded up; the standing is PROVEN.

    References
    ----------
    Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy".

    Examples
    --------
    >>> plan = embedding(adjacency="replace-one", delta=1e-5, epsilon=1.0)
    >>> plan.sensitivity, round(plan.sigma, 1)
    (2.0, 7.5)
    """
    adjacency = Adjacency.parse(adjacency)
    check_positive("The norm", norm)
    check_count("The number of releases", releases)
    sensitivity = adjacency.sensitivity(norm)
    terms = PlanTerms(adjacency, delta, sigma, epsilon, None, None, None, releases)
    return terms.solve(lambda s, _: Gaussian(s, sensitivity, adjacency), sensitivity)


def laplace(
    *,
    adjacency: Adjacency | str,
    delta: float = 0.0,
    scale: float | None = None,
    epsilon: float | None = None,
    sensitivity: float = 1.0,
    releases: int = 1,
) -> Plan:
    """Plan single numbers with Laplace noise, which is private at δ = 0: the scale from ε, or ε from the scale.

    Parameters
    ----------
    adjacency
        "add-remove" or "replace-one"; the stated sensitivity is meant under it.
    delta
        The δ at which the plan is quoted: 0 unless given (pure differential privacy).
    scale, epsilon
        b, the scale of the noise, or the target ε: the one that is left out is the answer.
    sensitivity
        Δ, the most by which neighbours' numbers differ.
    releases
        How many such numbers are released.

    Returns
    -------
    Plan
        The event that will be charged and its guarantee, with the scale and σ = √2·b.

    Raises
    ------
    UsageError
        If a parameter is out of range, or the scale and ε are both given or both left out.

    Notes
    -----
    Formal guarantee: at δ = 0, ε = releases·Δ/b; at a greater δ the composed privacy losses, rounded up. The standing
    is PROVEN.

    References
    ----------
    Dwork, McSherry, Nissim & Smith 2006, "Calibrating noise to sensitivity in private data analysis".

    Examples
    --------
    >>> plan = laplace(adjacency="add-remove", epsilon=0.5, releases=4)
    >>> round(plan.scale, 6), round(plan.guarantee.epsilon(), 6), plan.guarantee.at_delta
    (8.0, 0.5, 0.0)
    """
    adjacency = Adjacency.parse(adjacency)
    check_positive("The sensitivity", sensitivity)
    check_count("The number of releases", releases, most=MAX_STEPS)
    if (scale is None) == (epsilon is None):
        raise UsageError("Give the scale or ε: the one that is left out is computed.")

    def make(b: float) -> Event:
        return repeated(Laplace(b, sensitivity, adjacency), releases)

    if scale is not None:
        check_positive("The scale", scale)
        found = float(scale)
    elif check_delta(delta, pure=True) == 0.0:
        found = sensitivity * releases / check_epsilon(epsilon) * (1.0 + 4e-12)  # type: ignore[arg-type]
    else:
        found = calibrate(lambda b: make(b * sensitivity), epsilon=epsilon, delta=delta) * sensitivity  # type: ignore[arg-type]
    event = make(found)
    return Plan(event, account(event, delta), math.sqrt(2.0) * found, releases, sensitivity, scale=found)
