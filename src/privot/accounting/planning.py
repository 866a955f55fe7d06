"""Plan a budget before any data is touched: projection, gradient, embedding and Laplace releases in a user's terms.

Each function takes either σ or ε and answers with a `Plan`: the event that will be charged and its guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from privot.accounting.accountant import account
from privot.accounting.calibration import calibrate, largest_count
from privot.accounting.events import (
    Bound,
    Event,
    Frame,
    Gaussian,
    Laplace,
    Projection,
    Sampled,
    repeated,
)
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.common.arguments import check_count, check_delta, check_epsilon, check_kind, check_positive, is_number
from privot.common.html_facts import html_facts
from privot.errors import NoTheoremError, UsageError, brief
from privot.guarantee import Adjacency, Guarantee

MAX_STEPS = 10**9
Clipping = Literal["matrix", "row", "per-example"]
"""What of a gradient is clipped, see `gradient`."""


@dataclass(frozen=True)
class Plan:
    """What is going to happen and what it costs."""

    event: Event
    guarantee: Guarantee
    sigma: float
    steps: int
    sensitivity: float
    batch: int | None = None
    scale: float | None = None
    """Of Laplace noise, whose standard deviation σ is √2 times its scale."""

    def _repr_html_(self) -> str:
        sampled = None if self.batch is None else f"{self.batch} records per step"
        noise = f"σ = {self.sigma:.6g} for a sensitivity of {self.sensitivity:g}"
        facts = [("noise", noise), ("steps", self.steps), ("batch", sampled)]
        return html_facts("Plan", [*facts, *self.guarantee.facts()])

    def to_dict(self) -> dict[str, Any]:
        """The answer of `privot account`, as plain JSON types."""
        cost = self.guarantee.epsilon()
        return {
            "sigma": self.sigma,
            "epsilon": cost if math.isfinite(cost) else None,
            "delta": self.guarantee.at_delta,
            "adjacency": str(self.guarantee.adjacency),
            "sampling": self.guarantee.sampling,
            "standing": str(self.guarantee.standing),
            "steps": self.steps,
            "batch": self.batch,
            "sensitivity": self.sensitivity,
            **({} if self.scale is None else {"scale": self.scale}),
            "assumptions": list(self.guarantee.assumptions),
            "events": [dict(e) for e in self.guarantee.events],
        }


def count_steps(records: int | None, batch: int | None, epochs: float | None, steps: int | None) -> int:
    """How many steps run: `steps`, or enough batches for `epochs` passes (⌈epochs·records/batch⌉), or one."""
    if steps is not None:
        if epochs is not None:
            raise UsageError("Give either the number of steps or the number of epochs, not both.")
        check_count("The number of steps", steps)
        total = steps
    elif epochs is not None:
        check_positive("The number of epochs", epochs)
        if batch is None or records is None:
            raise UsageError("A number of epochs needs the number of records and the batch.")
        total = math.ceil(epochs * records / batch)
    else:
        total = 1
    if total > MAX_STEPS:
        raise UsageError(f"{total} steps are more than the {MAX_STEPS} privot counts.")
    return total


def choose_sampling(adjacency: Adjacency, records: int | None, batch: int | None) -> Sampling | None:
    """Fixed size for replace-one, Poisson at rate batch/records for add/remove, none without a batch."""
    if batch is None:
        return None
    check_count("The batch", batch)
    if records is None:
        raise UsageError("A batch needs the number of records it is drawn from.")
    check_count("The number of records", records)
    sampling = FixedSize(batch, records)
    return sampling if adjacency is Adjacency.REPLACE_ONE else Poisson(sampling.share)


@dataclass(frozen=True)
class _Terms:
    """What the user said; whatever is left out is the answer."""

    adjacency: Adjacency
    delta: float
    sigma: float | None
    epsilon: float | None
    records: int | None
    batch: int | None
    epochs: float | None
    steps: int | None

    def solve(self, release: Callable[[float, int], Event], sensitivity: float) -> Plan:
        """Find σ, ε, the number of steps or the batch, for `release`(σ, steps) as one step."""
        if is_number(self.delta) and self.delta == 0:
            raise UsageError("δ must be greater than 0, where Gaussian noise promises nothing: or plan Laplace noise.")
        check_delta(self.delta)
        if self.sigma is not None:
            check_positive("σ", self.sigma)
        if self.sigma is None and self.epsilon is None:
            raise UsageError("Give σ or ε: the one that is left out is computed.")
        batch, steps = self.batch, self.steps
        if self.sigma is not None and self.epsilon is not None:
            batch, steps = self._affordable(release, self.sigma, self.epsilon)
        sampling = choose_sampling(self.adjacency, self.records, batch)
        total = count_steps(self.records, batch, self.epochs, steps)

        def make(sigma: float) -> Event:
            return _repeat(release(sigma, total), sampling, total)

        if self.sigma is not None:
            sigma = float(self.sigma)
        else:
            assert self.epsilon is not None
            sigma = calibrate(make, epsilon=self.epsilon, delta=self.delta)
        event = make(sigma)
        return Plan(event, account(event, self.delta), sigma, total, sensitivity, batch)

    def _affordable(
        self, release: Callable[[float, int], Event], sigma: float, epsilon: float
    ) -> tuple[int | None, int | None]:
        """σ and ε are both given: the number of steps they pay for, or the largest batch."""
        if self.steps is None and self.epochs is None:
            sampling = choose_sampling(self.adjacency, self.records, self.batch)
            steps = largest_count(
                lambda n: _repeat(release(sigma, n), sampling, n), epsilon=epsilon, delta=self.delta, limit=MAX_STEPS
            )
            return self.batch, steps
        if self.batch is not None or self.records is None:
            raise UsageError("σ, ε, the steps and the batch are all given: leave one out, and it is computed.")
        records = self.records

        def with_batch(batch: int) -> Event:
            total = count_steps(records, batch, self.epochs, self.steps)
            return _repeat(release(sigma, total), choose_sampling(self.adjacency, records, batch), total)

        return largest_count(with_batch, epsilon=epsilon, delta=self.delta, limit=records), self.steps


def _repeat(release: Event, sampling: Sampling | None, times: int) -> Event:
    """`release` on fresh samples, `times` times."""
    one = release if sampling is None else Sampled(release, sampling)
    return repeated(one, times)


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

    return _Terms(adjacency, delta, sigma, epsilon, records, batch, epochs, steps).solve(release, sensitivity)


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
    terms = _Terms(adjacency, delta, sigma, epsilon, records, batch, epochs, steps)
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
    terms = _Terms(adjacency, delta, sigma, epsilon, None, None, None, releases)
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
