"""What is stated of a plan, and how the one thing that is left out of it is found; it knows no kind of release."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privot.accounting.accountant import account
from privot.accounting.calibration import calibrate, largest_count
from privot.accounting.events import Event, Sampled, repeated
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.common.arguments import check_count, check_delta, check_positive, is_number
from privot.common.html_facts import html_facts
from privot.errors import UsageError
from privot.guarantee import Adjacency, Guarantee

MAX_STEPS = 10**9


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
class PlanTerms:
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
