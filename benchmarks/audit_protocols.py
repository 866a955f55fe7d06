"""What FedWad, TriangleWad and a sketch give away of pictures: `python benchmarks/audit_protocols.py DATA [--out PNG]`.

DATA is a `.npz` with x_train and x_test of pictures, or `digits`. Parties hold records of x_train, the attacker knows
x_test as public data. One table: shares of records recovered and PSNR (of the range [−1, 1]) for each defence, beside
the prior, which is what the attacker could draw without any message.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from privot.accounting import Gaussian, calibrate
from privot.audit.protocols import (
    assignment,
    distance,
    from_counts,
    identically_distributional,
    invert_constant,
    invert_fedwad,
    invert_shared,
    learn_inverse,
    match_candidates,
)
from privot.audit.recovery import Recovery, draw_recoveries, judge
from privot.guarantee import Adjacency
from privot.noise import SystemNoise, add_noise

T = 0.5
SPAN = 2.0
CELLS = 30


def pictures(source: str) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """(private, public, shape), in [−1, 1]."""
    if source == "digits":
        from sklearn.datasets import load_digits

        rows = load_digits().data / 8.0 - 1.0
        return rows[:900], rows[900:], (8, 8)
    with np.load(source, allow_pickle=False) as file:
        private, public = file["x_train"], file["x_test"]
    shape = private.shape[1:]
    first, second = (p.reshape(len(p), -1) / 127.5 - 1.0 for p in (private, public))
    return first, second, shape


def moved(x: np.ndarray, gamma: np.ndarray, t: float) -> np.ndarray:
    """An interpolant, as a party sends it."""
    return (1.0 - t) * x + t * gamma[assignment(x, gamma)]


def fedwad(x: np.ndarray, y: np.ndarray, rounds: int, generator: Any) -> np.ndarray:
    """γ after so many rounds, t drawn anew each time."""
    gamma = generator.standard_normal(x.shape)
    for _ in range(rounds):
        one, two = (moved(z, gamma, generator.uniform(0.05, 0.95)) for z in (x, y))
        gamma = moved(one, two, generator.uniform(0.05, 0.95))
    return gamma


def main() -> None:
    """Print the table and draw the grid."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--records", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    said = parser.parse_args()
    began = time.monotonic()
    generator = np.random.default_rng(0)
    private, public, shape = pictures(said.data)
    order = generator.permutation(len(private))
    n = min(said.records, len(private) // 3)
    x, y = private[order[:n]], private[order[n : 2 * n]]
    found: list[Recovery] = []
    shown: list[tuple[str, np.ndarray]] = [("records", x)]

    def tell(name: str, guess: np.ndarray, ordered: bool = True) -> None:
        kept = guess if ordered else guess[assignment(x, guess)]
        found.append(judge(name, kept, x, SPAN))
        shown.append((name, kept))

    tell("prior: the mean public picture", np.broadcast_to(public.mean(0), x.shape))
    tell("prior: public pictures, best match", public[generator.permutation(len(public))[:n]], ordered=False)
    tell("TriangleWad, constant", invert_constant(moved(x, np.ones_like(x), T), np.ones((1, x.shape[1])), T))
    gamma = generator.standard_normal(x.shape)
    eta = moved(x, gamma, T)
    shown.append(("what is sent (shared γ)", eta))
    tell("TriangleWad, shared random", invert_shared(eta, gamma, T))
    inverse = learn_inverse(public[: min(len(public), 1000)], T, generator.standard_normal)
    tell("TriangleWad, private random, denoised", inverse(eta))
    tell("independent noise of that size, denoised", inverse((1.0 - T) * x + T * generator.standard_normal(x.shape)))
    candidates = np.vstack([x, private[order[2 * n : 2 * n + said.candidates - n]]])
    linked = float((match_candidates(eta, candidates) == np.arange(n)).mean())
    seen = fedwad(x, y, said.rounds, generator)
    far, near = distance(x, seen), distance(seen, y)
    gap = far + near - distance(x, y)
    shown.append((f"FedWad's γ after {said.rounds} rounds", seen[assignment(x, seen)]))
    tell(f"FedWad, {said.rounds} rounds, closed form", invert_fedwad(seen, y, far, near), ordered=False)
    tell(
        f"FedWad, {said.rounds} rounds, eq. 5", identically_distributional(seen, y, far, near, rounds=25), ordered=False
    )
    whole = moved(x, y, 0.5)
    far, near = distance(x, whole), distance(whole, y)
    tell("FedWad at equality, closed form", invert_fedwad(whole, y, far, near), ordered=False)
    tell("FedWad at equality, eq. 5", identically_distributional(whole, y, far, near, rounds=25), ordered=False)
    prototypes = public[generator.permutation(len(public))[:CELLS]]
    cells = ((x**2).sum(1)[:, None] - 2.0 * x @ prototypes.T + (prototypes**2).sum(1)).argmin(1)
    counts = np.bincount(cells, minlength=CELLS).astype(float)
    tell("prior of a sketch: its public prototypes", from_counts(np.ones(CELLS), prototypes, n), ordered=False)
    for epsilon in (10.0, 1.0):
        sigma = calibrate(lambda s: Gaussian(s, 2**0.5, Adjacency.REPLACE_ONE), epsilon=epsilon, delta=1e-5)
        noisy = add_noise(counts, SystemNoise(), sigma)
        tell(
            f"sketch, ε = {epsilon:g}, δ = 1e-5, replace-one, proven", from_counts(noisy, prototypes, n), ordered=False
        )
    print(f"{said.data}: {n} records a side, {x.shape[1]} dimensions, t = {T}")
    print("| attack | recovered exactly (95 %) | PSNR ≥ 20 dB | median PSNR, dB |\n|---|---|---|---|")
    for r in found:
        low, high = r.exact_interval
        print(f"| {r.name} | {r.exact:.3f} ({low:.3f} to {high:.3f}) | {r.clear:.3f} | {r.psnr:.1f} |")
    print(f"\nsecret γ, linked among {len(candidates)} candidates: {linked:.3f}")
    print(f"FedWad's gap to equality after {said.rounds} rounds: {gap:.4f} of {distance(x, y):.2f}")
    if said.out is not None:
        said.out.write_bytes(draw_recoveries(shown, shape, -1.0, 1.0))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
