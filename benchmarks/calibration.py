"""How long calibration takes: σ from (ε, δ) for every mechanism, sampling and corner of the range, in one process.

python benchmarks/calibration.py [--json]
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from typing import Any

from privot.accounting import embedding, gradient, projection
from privot.accounting.planning import Plan

EPSILONS, DELTAS, STEPS = (0.01, 1.0, 100.0), (1e-5, 1e-12), (1, 1000, 10_000_000)


def plan(kind: str, epsilon: float, delta: float, steps: int) -> Plan:
    """One calibration: 100 of 60,000 records a step."""
    sizes: dict[str, Any] = {"records": 60_000, "batch": 100, "steps": steps}
    if kind == "poisson":
        return gradient(adjacency="add-remove", delta=delta, epsilon=epsilon, clipping="matrix", **sizes)
    if kind == "fixed-size":
        return gradient(adjacency="replace-one", delta=delta, epsilon=epsilon, clipping="matrix", **sizes)
    if kind == "embedding":
        return embedding(adjacency="add-remove", delta=delta, epsilon=epsilon, releases=steps)
    frame: Any = kind.split()[1]
    return projection(784, 1000, adjacency="replace-one", delta=delta, epsilon=epsilon, frame=frame, **sizes)


def main() -> None:
    """Print every case, and the slowest."""
    parser = argparse.ArgumentParser(description="How long calibration takes.")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    kinds = ("embedding", "poisson", "fixed-size", "projection orthogonal", "projection independent")
    for kind, epsilon, delta, steps in itertools.product(kinds, EPSILONS, DELTAS, STEPS):
        began = time.perf_counter()
        found = plan(kind, epsilon, delta, steps)
        spent = time.perf_counter() - began
        assert found.guarantee.epsilon() <= epsilon
        rows.append({"kind": kind, "epsilon": epsilon, "delta": delta, "steps": steps, "sigma": found.sigma})
        rows[-1] |= {"epsilon_reached": found.guarantee.epsilon(), "seconds": spent}
        if not arguments.json:
            print(f"{kind:<23} ε={epsilon:<6g} δ={delta:<6g} T={steps:<9} σ={found.sigma:<12.6g} {spent:.2f} s")
    slowest = max(rows, key=lambda r: r["seconds"])
    print(json.dumps(rows, indent=2) if arguments.json else f"slowest: {slowest['seconds']:.2f} s ({slowest['kind']})")


if __name__ == "__main__":
    main()
