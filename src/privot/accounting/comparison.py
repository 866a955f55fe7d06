"""ε against σ for every accountant that applies to one mechanism, so that a reader can see what each is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from privot.accounting import rdp
from privot.accounting.events import Event, Renyi, Sampled, leaves
from privot.accounting.planning.plan_terms import Plan
from privot.accounting.planning.release_plans import Clipping, gradient, projection
from privot.common.arguments import check_count, check_positive
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing


@dataclass(frozen=True)
class AccountantCurve:
    """ε of one accountant at every σ."""

    name: str
    standing: Standing
    epsilons: tuple[float, ...]


@dataclass(frozen=True)
class AccountantComparison:
    """Every accountant that applies, on one mechanism, at one δ."""

    adjacency: Adjacency
    sampling: str
    delta: float
    steps: int
    sigmas: tuple[float, ...]
    curves: tuple[AccountantCurve, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "adjacency": str(self.adjacency),
            "sampling": self.sampling,
            "delta": self.delta,
            "steps": self.steps,
            "sigma": list(self.sigmas),
            "curves": [
                {"accountant": c.name, "standing": str(c.standing), "epsilon": list(c.epsilons)} for c in self.curves
            ],
        }


def _renyi_only(plan: Plan) -> float:
    """ε by Rényi composition alone."""
    return rdp.epsilon(rdp.total(leaves(plan.event)), plan.guarantee.at_delta)


def _curve_only(plan: Plan) -> float:
    """ε when of the sampled mechanism nothing but its Rényi curve is known."""
    orders = tuple(float(a) for a in range(2, 257))
    steps: list[tuple[Event, int]] = []
    for event, times in leaves(plan.event):
        assert isinstance(event, Sampled)
        values = np.maximum.accumulate(rdp.curve(event.event, np.array(orders)))
        known = Renyi(orders, tuple(values), plan.guarantee.adjacency, plan.guarantee.standing)
        steps.append((Sampled(known, event.sampling), times))
    return rdp.epsilon(rdp.total(steps), plan.guarantee.at_delta)


def compare(
    mechanism: str,
    *,
    adjacency: Adjacency | str,
    delta: float,
    smallest: float,
    largest: float,
    points: int,
    clip: float,
    dim: int,
    slices: int,
    records: int | None = None,
    batch: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    clipping: Clipping | None = None,
    rows: int | None = None,
) -> AccountantComparison:
    """ε at `points` σ from `smallest` to `largest` (evenly in logarithms), by each accountant.

    `clipping` and `rows` are those of `gradient`, which the clipping has to be stated for.
    """
    check_positive("The smallest σ", smallest)
    check_positive("The largest σ", largest)
    check_count("The number of points", points, 2)
    if largest <= smallest or points > 1000:
        raise UsageError("The largest σ must exceed the smallest one, at no more than 1000 points.")
    sigmas = tuple(float(s) for s in np.geomspace(smallest, largest, points))
    sizes: dict[str, Any] = {"records": records, "batch": batch, "epochs": epochs, "steps": steps, "clip": clip}

    def gradients(sigma: float) -> Plan:
        if clipping is None:
            raise UsageError("σ depends on what is clipped: state the clipping, matrix, row or per-example.")
        return gradient(adjacency=adjacency, delta=delta, sigma=sigma, clipping=clipping, rows=rows, **sizes)

    def projections(frame: str, bound: str = "exact") -> Callable[[float], Plan]:
        def plan(sigma: float) -> Plan:
            return projection(
                dim,
                slices,
                adjacency=adjacency,
                delta=delta,
                sigma=sigma,
                frame=frame,  # type: ignore[arg-type]
                bound=bound,  # type: ignore[arg-type]
                **sizes,
            )

        return plan

    def best(plan: Plan) -> float:
        return plan.guarantee.epsilon()

    ways: list[tuple[str, Callable[[float], Plan], Callable[[Plan], float]]]
    if mechanism == "projection":
        ways = [
            ("exact, orthogonal frames", projections("orthogonal"), best),
            ("exact, independent directions", projections("independent"), best),
            ("Rényi, independent directions", projections("independent"), _renyi_only),
            ("Bernstein, as published", projections("independent", "bernstein"), best),
            ("CLT, as published", projections("independent", "clt"), best),
        ]
    elif mechanism == "gradient":
        ways = [("composed privacy losses", gradients, best), ("Rényi", gradients, _renyi_only)]
        if batch is not None:
            poisson = Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE
            source = "Zhu & Wang 2019" if poisson else "Wang, Balle & Kasiviswanathan 2019"
            ways.append((f"Rényi of any curve ({source})", gradients, _curve_only))
    else:
        raise UsageError(f"Unknown mechanism {mechanism!r}: say projection or gradient.")
    first = ways[0][1](sigmas[0])
    curves = []
    for name, plan, count in ways:
        plans = [plan(s) for s in sigmas]
        curves.append(AccountantCurve(name, plans[0].guarantee.standing, tuple(count(p) for p in plans)))
    guarantee = first.guarantee
    return AccountantComparison(guarantee.adjacency, guarantee.sampling, delta, first.steps, sigmas, tuple(curves))
