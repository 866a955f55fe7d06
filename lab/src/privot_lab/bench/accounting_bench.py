"""Times and compares accountants: ε of privot, dp-accounting and Opacus in one run, and calibration in every corner."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from typing import Any

from privot.accounting import (
    Composed,
    Gaussian,
    Laplace,
    Poisson,
    PrivacyFilter,
    PrivacyLossAccountant,
    RenyiAccountant,
    Repeated,
    Sampled,
    account,
    embedding,
    gradient,
    projection,
)
from privot.accounting.accountants.opacus_history import history_event
from privot.accounting.events import Event
from privot.accounting.planning.plan_terms import Plan
from privot.guarantee import Adjacency

CASES = ((0.8, 0.0128, 7900, 1e-5), (1.0, 0.01, 10_000, 1e-12), (2.0, 0.001, 100_000, 1e-6))
"""σ, sampling rate, steps, δ of Poisson-sampled Gaussian mechanisms under add-remove: what both can count."""
HISTORIES: tuple[list[tuple[float, float, int]], ...] = (
    [(1.0, 0.01, 1000)],
    [(0.8, 0.02, 300), (1.5, 0.05, 200)],
    [(2.0, 0.001, 5000)],
    [(4.0, 0.1, 50)],
)
EPSILONS, DELTAS, STEPS = (0.01, 1.0, 100.0), (1e-5, 1e-12), (1, 1000, 10_000_000)
KINDS = ("embedding", "poisson", "fixed-size", "projection orthogonal", "projection independent")
DELTA = 1e-5


def measure_accounting(*, calibrations: bool = True) -> dict[str, Any]:
    """Seconds and ε beside dp-accounting, ε beside Opacus, and seconds of calibration; peers that are missing are None.

    Every ε is an upper bound under add-remove, proven; peers are asked for the same histories at the same δ.
    """
    _ours(1.5, 0.02, 10, 1e-5)  # warm up
    return {
        "speed": [_beside_dp_accounting(*case) for case in CASES],
        "agreement": [_beside_opacus(history) for history in HISTORIES],
        "calibration": _calibrations() if calibrations else [],
        "filter": _beside_the_sum(),
        "adjacency": "add-remove",
    }


def _jobs() -> dict[str, list[Event]]:
    """Histories of one ledger, each job whole, in the order they were charged."""
    add_remove = Adjacency.ADD_REMOVE

    def sampled(sigma: float, rate: float, steps: int) -> Event:
        return Repeated(Sampled(Gaussian(sigma, 1.0, add_remove), Poisson(rate)), steps)

    tables = [Gaussian(16.0, 1.0, add_remove)] * 4
    return {
        "10 tables (Gaussians)": [Gaussian(16.0, 1.0, add_remove)] * 10,
        "1 DP-SGD (q .01, σ 1, 1,000 steps)": [sampled(1.0, 0.01, 1000)],
        "10 DP-SGD (q .01, σ 2, 500 steps)": [sampled(2.0, 0.01, 500)] * 10,
        "10 DP-SGD (q .001, σ .6, 20,000 steps)": [sampled(0.6, 0.001, 20_000)] * 10,
        "sinkhorn (q .05, σ 2, 500 steps), 4 tables": [sampled(2.0, 0.05, 500), *tables],
        "4 tables, sinkhorn (q .05, σ 2, 500 steps)": [*tables, sampled(2.0, 0.05, 500)],
        "2 counts, Laplace of ε = .1 each": [Laplace(10.0, 1.0, add_remove)] * 2,
        "10 counts, Laplace of ε = .1 each": [Laplace(10.0, 1.0, add_remove)] * 10,
        "10 counts in one job, Laplace of ε = .1 each": [Repeated(Laplace(10.0, 1.0, add_remove), 10)],
    }


def _beside_the_sum() -> list[dict[str, Any]]:
    """The ε that a budget needs to accept jobs one by one, whoever chooses them, beside ε of what then happened."""
    rows = []
    for name, events in _jobs().items():
        spent = PrivacyFilter(math.inf, DELTA)
        for event in events:
            spent = spent.after(event)
        composed = account(Composed(tuple(events)), DELTA).epsilon()
        rows.append({"jobs": name, "composed": composed, "filter": spent.curve.epsilon(DELTA), "delta": DELTA})
    return rows


def _ours(sigma: float, rate: float, steps: int, delta: float) -> float:
    step = Sampled(Gaussian(sigma, 1.0, Adjacency.ADD_REMOVE), Poisson(rate))
    return account(Repeated(step, steps), delta).epsilon()


def _beside_dp_accounting(sigma: float, rate: float, steps: int, delta: float) -> dict[str, Any]:
    began = time.perf_counter()
    ours = _ours(sigma, rate, steps, delta)
    took = time.perf_counter() - began
    row: dict[str, Any] = {"sigma": sigma, "rate": rate, "steps": steps, "delta": delta}
    row |= {"epsilon": ours, "seconds": took, "epsilon_dp_accounting": None, "times_faster": None}
    try:
        import dp_accounting
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        return row
    began = time.perf_counter()
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    one = privacy_loss_distribution.from_gaussian_mechanism(sigma, sampling_prob=rate, neighboring_relation=relation)
    row["epsilon_dp_accounting"] = float(one.self_compose(steps).get_epsilon_for_delta(delta))
    row["times_faster"] = (time.perf_counter() - began) / took
    return row


def _beside_opacus(history: list[tuple[float, float, int]]) -> dict[str, Any]:
    event = history_event(history)
    fine = PrivacyLossAccountant(fine=0.01)
    fine.step(event)
    row: dict[str, Any] = {"history": [list(part) for part in history], "delta": DELTA, "losses": fine.epsilon(DELTA)}
    row |= {"renyi": None, "renyi_opacus": None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from opacus.accountants import RDPAccountant
    except ImportError:
        return row
    theirs = RDPAccountant()
    theirs.history = list(history)
    ours = RenyiAccountant(tuple(sorted({float(order) for order in RDPAccountant.DEFAULT_ALPHAS})))
    ours.step(event)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return row | {"renyi": ours.epsilon(DELTA), "renyi_opacus": float(theirs.get_epsilon(DELTA))}


def _calibrations() -> list[dict[str, Any]]:
    rows = []
    for kind, epsilon, delta, steps in itertools.product(KINDS, EPSILONS, DELTAS, STEPS):
        began = time.perf_counter()
        found = _plan(kind, epsilon, delta, steps)
        took = time.perf_counter() - began
        reached = found.guarantee.epsilon()
        row = {"kind": kind, "epsilon": epsilon, "delta": delta, "steps": steps, "sigma": found.sigma}
        rows.append({**row, "epsilon_reached": reached, "seconds": took})
    return rows


def _plan(kind: str, epsilon: float, delta: float, steps: int) -> Plan:
    """One calibration: 100 of 60,000 records per step."""
    sizes: dict[str, Any] = {"records": 60_000, "batch": 100, "steps": steps}
    if kind in ("poisson", "fixed-size"):
        adjacency = "add-remove" if kind == "poisson" else "replace-one"
        return gradient(adjacency=adjacency, delta=delta, epsilon=epsilon, clipping="matrix", **sizes)
    if kind == "embedding":
        return embedding(adjacency="add-remove", delta=delta, epsilon=epsilon, releases=steps)
    frame: Any = kind.split()[1]
    return projection(784, 1000, adjacency="replace-one", delta=delta, epsilon=epsilon, frame=frame, **sizes)
