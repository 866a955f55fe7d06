"""Distances between organisations, measured: TriangleWad's Table 1, how sketches rank parties, what the null says.

    python benchmarks/federation.py DATA_DIR [--only table|ranking|null|matrix] [--quick] [--base mnist] …

DATA_DIR holds mnist.npz, fashion_mnist.npz, cifar10_small.npz and usps.npz (x_train, y_train, x_test, y_test; uint8).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.ndimage import zoom
from scipy.stats import spearmanr

from privot import Vault
from privot.accounting import projection
from privot.federation import compare_sketches, fedwad, sketch, triangle
from privot.federation.sketches.sketch_comparison import tell_apart
from privot.federation.sketches.sketch_matrix import distance_matrix
from privot.federation.wire.signing import seal
from privot.mechanisms import RandomProjection, SketchDesign
from privot.transport import exact, sliced

NOISY_DEVIATION = 23.0
"""The paper does not say how noisy its noisy points are; its distances (290 = 23·√(0.2·784)) do."""
EPSILONS = (1.0, 10.0)
DELTA = 1e-5
PUBLIC_ROWS = 2000


def images(folder: Path, name: str, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Rows in [0, 1] and labels of a set."""
    with np.load(folder / f"{name}.npz") as file:
        x, y = file[f"x_{part}"], file[f"y_{part}"]
    return x.reshape(len(x), -1) / float(x.max()), y


def table(folder: Path, sizes: list[int], longest: int, rounds: int = 20) -> None:
    """Table 1: direct, FedWad (t random and ½), triangle with ones and random; time and gap. Pixels in [−1, 1]."""
    print("set,size,kind,direct,fedwad_random,fedwad_half,ones,random,direct_s,fedwad_s,ones_s,random_s")
    for name in ("mnist", "fashion_mnist", "cifar10_small"):
        x = images(folder, name)[0] * 2.0 - 1.0
        for size in sizes:
            g = np.random.default_rng(size)
            pick = g.choice(len(x), 2 * size, replace=False)
            mu, nu = x[pick[:size]], x[pick[size:]]
            for kind, noisy in (("clean", 0), ("20 noisy", 20), ("50 noisy", 50)):
                a = mu.copy()
                a[:noisy] += NOISY_DEVIATION * g.standard_normal((noisy, a.shape[1]))
                short = size > longest
                runs: list[Any] = [
                    lambda a=a, b=nu: exact(a, b),
                    None if short else lambda a=a, b=nu: fedwad(a, b, rounds, seed=1),
                    None if short else lambda a=a, b=nu: fedwad(a, b, rounds, t=0.5, seed=1),
                    lambda a=a, b=nu: triangle(a, b),
                    lambda a=a, b=nu: triangle(a, b, defence="random", seed=1),
                ]
                values, seconds = [], []
                for run in runs:
                    start = time.perf_counter()
                    values.append("" if run is None else f"{float(run().value):.6f}")
                    seconds.append("" if run is None else f"{time.perf_counter() - start:.2f}")
                del seconds[2]
                print(",".join([name, str(size), kind, *values, *seconds]), flush=True)


def parties(folder: Path, base: str, n: int, seed: int) -> dict[str, np.ndarray]:
    """Twenty kinds of party around one set: class mixes, noise, dimming, shifts, other sets."""
    g = np.random.default_rng(seed)
    x, y = images(folder, base)
    other = images(folder, "fashion_mnist" if base == "mnist" else "mnist")[0]
    small, _ = images(folder, "usps")

    def some(rows: np.ndarray, k: int) -> np.ndarray:
        return rows[g.choice(len(rows), k, replace=len(rows) < k)]

    def mix(classes: list[int], share: float) -> np.ndarray:
        k = round(share * n)
        return np.concatenate([some(x[np.isin(y, classes)], k), some(x[~np.isin(y, classes)], n - k)])

    def noisy(deviation: float, share: float = 1.0) -> np.ndarray:
        out, k = some(x, n).copy(), int(share * n)
        out[:k] += deviation * g.standard_normal((k, out.shape[1]))
        return out

    def shifted(pixels: int) -> np.ndarray:
        return np.roll(some(x, n).reshape(-1, 28, 28), pixels, 2).reshape(n, -1)

    def usps() -> np.ndarray:
        grown = [np.pad(zoom(row.reshape(16, 16), 20 / 16, order=1), 4) for row in some(small, n)]
        return np.clip(np.stack(grown), 0.0, 1.0).reshape(n, -1)

    inverted = some(x, n).copy()
    inverted[: n // 10] = 1.0 - inverted[: n // 10]
    return {
        "reference": some(x, n),
        "same": some(x, n),
        "tilt 20 %": mix([0, 1], 0.36),
        "classes 0-4": mix([0, 1, 2, 3, 4], 1.0),
        "classes 5-9": mix([5, 6, 7, 8, 9], 1.0),
        "two classes": mix([3, 8], 1.0),
        "80 % one class": mix([1], 0.8),
        "noise 0.1": noisy(0.1),
        "noise 0.2": noisy(0.2),
        "noise 0.35": noisy(0.35),
        "5 % noise 1": noisy(1.0, 0.05),
        "20 % noise 0.5": noisy(0.5, 0.2),
        "dimmed 0.8": some(x, n) * 0.8,
        "dimmed 0.5": some(x, n) * 0.5,
        "shift 1": shifted(1),
        "shift 3": shifted(3),
        "10 % inverted": inverted,
        "other set": some(other, n),
        "20 % other set": np.concatenate([some(x, n - n // 5), some(other, n // 5)]),
        "usps": usps(),
    }


def pairs(names: list[str]) -> list[tuple[str, str]]:
    """Everybody against the reference, and 25 pairs more."""
    rest = [name for name in names if name != "reference"]
    among = [(a, b) for i, a in enumerate(rest) for b in rest[i + 1 :]]
    picked = np.random.default_rng(7).choice(len(among), 25, replace=False)
    return [("reference", name) for name in rest] + [among[i] for i in picked]


def designs(folder: Path, base: str, seed: int = 1) -> dict[str, SketchDesign]:
    """In-domain public rows (the test part, never a party's), another domain's, and none."""
    other = "fashion_mnist" if base == "mnist" else "mnist"
    return {
        "in-domain": SketchDesign.around(images(folder, base, "test")[0][:PUBLIC_ROWS], seed=seed),
        "other domain": SketchDesign.around(images(folder, other, "test")[0][:PUBLIC_ROWS], seed=seed),
        "none": SketchDesign.box(784, 0.0, 1.0, seed=seed),
    }


def vault(x: np.ndarray, epsilon: float, clip: float = 14.0) -> Vault:
    return Vault(x, clip=clip, adjacency="replace-one", budget=(epsilon, DELTA))


def exact_distances(
    few: dict[str, np.ndarray], which: list[tuple[str, str]], name: str, kept: Path | None
) -> np.ndarray:
    """True W_2 of the pairs; those of 10,000 records take minutes each, so `kept` holds what was found already."""
    held: dict[str, dict[str, float]] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    found = held.setdefault(name, {})
    for a, b in which:
        if f"{a} | {b}" not in found:
            found[f"{a} | {b}"] = float(exact(few[a], few[b]).value)
            if kept is not None:
                kept.write_text(json.dumps(held, indent=1))
    return np.array([found[f"{a} | {b}"] for a, b in which])


def ranking(
    folder: Path, base: str, n: int, seeds: int, first: int, noises: int, most: int, peers: bool, kept: Path | None
) -> None:
    """Rank correlations with true W_2 and true sliced W_2, and median relative errors."""
    print(f"ranking: {base}, {n} records, seeds {first} to {first + seeds - 1}, {noises} draws of noise a seed")
    known = designs(folder, base)
    found: dict[tuple[str, float], list[tuple[float, float, float, float]]] = {}
    for seed in range(first, first + seeds):
        group = parties(folder, base, n, seed)
        which = pairs(list(group))
        g = np.random.default_rng(seed)
        few = {k: v if len(v) <= most else v[g.choice(len(v), most, replace=False)] for k, v in group.items()}
        whole = exact_distances(few, which, f"{base}, {n} records, {min(n, most)} a side, seed {seed}", kept)
        line = np.array([float(sliced(group[a], group[b], slices=300, seed=1).value) for a, b in which])

        def note(name: str, epsilon: float, w: np.ndarray, s: np.ndarray, truth: Any = (whole, line)) -> None:
            found.setdefault((name, epsilon), []).append(
                (
                    spearmanr(w, truth[0])[0],
                    spearmanr(s, truth[1])[0],
                    float(np.median(np.abs(w / truth[0] - 1))),
                    float(np.median(np.abs(s / truth[1] - 1))),
                )
            )

        for epsilon in EPSILONS:
            for name, design in known.items():
                for _ in range(noises):
                    made = {
                        k: sketch(vault(v, epsilon), epsilon=epsilon, delta=DELTA, design=design)
                        for k, v in group.items()
                    }
                    pair = [compare_sketches(made[a], made[b], draws=0) for a, b in which]
                    note(name, epsilon, np.array([c.w2.value for c in pair]), np.array([c.sliced.value for c in pair]))
            if peers:
                plan = projection(784, 10, adjacency="replace-one", delta=DELTA, epsilon=epsilon, clip=14.0)
                rows = {
                    k: vault(v, epsilon * 1.001).release(RandomProjection(10, plan.sigma, seed=3), purpose="peer").value
                    for k, v in group.items()
                }
                far = np.array([np.sqrt(np.mean((np.sort(rows[a], 0) - np.sort(rows[b], 0)) ** 2)) for a, b in which])
                note("DP-SWD", epsilon, far, far)
        if peers:
            open_ = np.array([triangle(few[a], few[b], defence="random", seed=5).value for a, b in which])
            note("random triangle (no privacy)", float("inf"), open_, open_)
        print(f"  seed {seed} done, {len(which)} pairs", flush=True)
    print("design,epsilon,rank W_2,rank SW_2,error W_2,error SW_2,worst rank W_2,worst rank SW_2")
    for (name, epsilon), rows in found.items():
        middle, worst = np.mean(rows, 0), np.min(rows, 0)
        print(f"{name},{epsilon:g}," + ",".join(f"{v:.3f}" for v in (*middle, *worst[:2])), flush=True)


def null(
    folder: Path, base: str, n: int, repeats: int, powers: int, which: tuple[str, ...], budgets: tuple[float, ...]
) -> None:
    """False alarms on pairs of one distribution, coverage of the interval, and power by kind of difference."""
    x, y = images(folder, base)
    known = designs(folder, base)
    kinds = {"all classes": x, "one class": x[y == 1], "noisy": None}
    print("design,epsilon,kind,pairs,alarms")
    for name in which:
        for epsilon in budgets:
            # one calibration for all: every release costs the same
            sigma = sketch(vault(x[:n], epsilon), epsilon=epsilon, delta=DELTA, design=known[name]).public["sigma"]

            def release(rows: np.ndarray, sigma: float = sigma, design: SketchDesign = known[name]) -> Any:
                return sketch(vault(rows, 1e3), sigma=sigma, design=design)

            for kind, rows in kinds.items():
                g, alarms = np.random.default_rng(11), 0
                for _ in range(repeats):
                    source = x if rows is None else rows
                    pick = g.choice(len(source), 2 * n, replace=False)
                    both = source[pick] if rows is not None else x[pick] + 0.2 * g.standard_normal((2 * n, 784))
                    alarms += tell_apart(release(both[:n]), release(both[n:])) <= 0.05
                print(f"{name},{epsilon:g},{kind},{repeats},{alarms}", flush=True)
            seen: dict[str, int] = {}
            for seed in range(powers):
                group = parties(folder, base, n, 500 + seed)
                made = {k: release(v) for k, v in group.items()}
                for k in group:
                    if k != "reference":
                        seen[k] = seen.get(k, 0) + (tell_apart(made["reference"], made[k]) <= 0.05)
            print(f"power {name},{epsilon:g}," + ", ".join(f"{k} {v}/{powers}" for k, v in seen.items()), flush=True)


def matrix(folder: Path, base: str, count: int) -> None:
    """Seconds for all pairs of `count` simulated sketches: one real release, its counts drawn anew for each party."""
    x, _ = images(folder, base)
    g = np.random.default_rng(3)
    for name in ("in-domain", "none"):
        made = sketch(vault(x[:1000], 1.0), epsilon=1.0, delta=DELTA, design=designs(folder, base)[name])
        width = {n: made.public["sigma"] / made.public["weights"][n] for n in made.value}
        some = [
            replace(made, value={n: v + width[n] * g.standard_normal(v.shape) for n, v in made.value.items()})
            for _ in range(count)
        ]
        wall, busy = time.perf_counter(), time.process_time()
        distance_matrix(some)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        size = len(seal(made.to_bytes(), Ed25519PrivateKey.generate()))
        print(f"{name},{count} sketches,{wall:.1f} s,{busy:.1f} s of processor,{size} bytes a sketch", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("table", "ranking", "null", "matrix"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--base", default="mnist", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--noises", type=int, default=4)
    parser.add_argument("--most", type=int, default=2000, help="records a side for the exact distances")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500, 1000], help="samples a side (table)")
    parser.add_argument("--longest", type=int, default=1000, help="largest size at which FedWad runs (table)")
    parser.add_argument("--truth", type=Path, help="a JSON file that keeps exact distances from run to run")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--powers", type=int, default=4)
    parser.add_argument("--count", type=int, default=1000, help="sketches (matrix)")
    parser.add_argument("--designs", nargs="+", default=["in-domain", "none"], help="which sketches (null)")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS), help="which budgets (null)")
    a = parser.parse_args()
    torch.set_num_threads(1)
    n = 300 if a.quick else a.records
    if a.only in (None, "table"):
        table(a.folder, [100] if a.quick else a.sizes, a.longest)
    if a.only in (None, "ranking"):
        seeds, noises = (1, 1) if a.quick else (a.seeds, a.noises)
        ranking(a.folder, a.base, n, seeds, a.first, noises, a.most, not a.no_peers, a.truth)
    if a.only in (None, "matrix"):
        matrix(a.folder, a.base, 100 if a.quick else a.count)
    if a.only in (None, "null"):
        repeats, powers = (10, 1) if a.quick else (a.repeats, a.powers)
        null(a.folder, a.base, n, repeats, powers, tuple(a.designs), tuple(a.epsilons))


if __name__ == "__main__":
    main()
