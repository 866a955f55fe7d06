"""How fast and how tight the accountants are: ours and dp-accounting's in one run, as ratios.

    python benchmarks/accounting.py [--json]

Poisson-sampled Gaussian mechanisms, add/remove, because that is what both can count.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import dp_accounting
from dp_accounting.pld import privacy_loss_distribution

from privot import Adjacency
from privot.accounting import Gaussian, Poisson, Repeated, Sampled, account

CASES = ((0.8, 0.0128, 7900, 1e-5), (1.0, 0.01, 10_000, 1e-12), (2.0, 0.001, 100_000, 1e-6))


def ours(sigma: float, rate: float, steps: int, delta: float) -> float:
    """ε by privot."""
    step = Sampled(Gaussian(sigma, 1.0, Adjacency.ADD_REMOVE), Poisson(rate))
    return account(Repeated(step, steps), delta).epsilon()


def theirs(sigma: float, rate: float, steps: int, delta: float) -> float:
    """ε by dp-accounting's privacy loss distributions, at their default grid."""
    step = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=rate, neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    return float(step.self_compose(steps).get_epsilon_for_delta(delta))


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description="The accountants, against dp-accounting.")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ours(1.5, 0.02, 10, 1e-5)  # warm up
    rows: list[dict[str, Any]] = []
    for case in CASES:
        began = time.perf_counter()
        mine = ours(*case)
        between = time.perf_counter()
        peer = theirs(*case)
        ended = time.perf_counter()
        rows.append(
            {
                "sigma": case[0],
                "rate": case[1],
                "steps": case[2],
                "delta": case[3],
                "epsilon": mine,
                "epsilon_dp_accounting": peer,
                "seconds": between - began,
                "seconds_dp_accounting": ended - between,
                "times_faster": (ended - between) / (between - began),
            }
        )
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print("Poisson-sampled Gaussian, add-remove, proven; ε and seconds, ours and dp-accounting's")
    for r in rows:
        print(
            f"σ={r['sigma']:<4} q={r['rate']:<7} T={r['steps']:<7} δ={r['delta']:<6g} "
            f"ε {r['epsilon']:.4f} / {r['epsilon_dp_accounting']:.4f}   "
            f"{r['seconds']:.3f} s / {r['seconds_dp_accounting']:.3f} s   {r['times_faster']:.0f}× faster"
        )


if __name__ == "__main__":
    main()
