"""OTDD from labelled sketches, measured: rank correlation with the true OTDD between labelled parties.

    python benchmarks/federation_labels.py DATA_DIR [--seeds 21 22 23 24] [--records 1000] [--null 40] [--coverage]

DATA_DIR holds mnist.npz and fashion_mnist.npz. Images are brought to 32 principal directions of *public* images (the
test part), so that the covariances of OTDD are of a size to work with; the truth is OTDD between 400 records a side.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from privot import Vault
from privot.federation import Sketch, compare_sketches, label_distance, sketch
from privot.federation.sketches.estimating import Shared
from privot.federation.sketches.sketch_simulation import Side, estimates
from privot.mechanisms import SketchDesign
from privot.transport._otdd import otdd

DELTA, CLASSES = 1e-5, 10
Labelled = tuple[np.ndarray, np.ndarray]


def images(folder: Path, name: str, part: str) -> Labelled:
    """Rows in [0, 1] and labels."""
    with np.load(folder / f"{name}.npz") as file:
        x, y = file[f"x_{part}"], file[f"y_{part}"]
    return x.reshape(len(x), -1) / 255.0, y.astype(np.int64)


def parties(base: Labelled, other: Labelled, n: int, seed: int) -> dict[str, Labelled]:
    """Fourteen kinds of labelled party: flipped, permuted and merged labels, class mixes, noise, another set."""
    g = np.random.default_rng(seed)
    x, y = base

    def some(of: np.ndarray, k: int = n) -> np.ndarray:
        where = np.flatnonzero(of)
        return where[g.choice(len(where), k, replace=len(where) < k)]

    out = {}
    for name, of in (("reference", y >= 0), ("same", y >= 0), ("classes 0-4", y < 5), ("classes 5-9", y >= 5)):
        i = some(of)
        out[name] = x[i], y[i]
    for share in (0.1, 0.3, 0.6):
        i = some(y >= 0)
        labels = y[i].copy()
        k = int(share * n)
        labels[:k] = g.integers(0, CLASSES, k)
        out[f"{100 * share:g} % flipped"] = x[i], labels
    i = some(y >= 0)
    out["permuted"] = x[i], (y[i] + 3) % CLASSES
    i = some(y >= 0)
    out["odd and even"] = x[i], y[i] % 2
    for deviation in (0.2, 0.4):
        i = some(y >= 0)
        out[f"noise {deviation:g}"] = x[i] + deviation * g.standard_normal(x[i].shape), y[i]
    i = some(y >= 0)
    out["dimmed"] = x[i] * 0.6, y[i]
    i = np.r_[some(y == 1, n // 2), some(y != 1, n - n // 2)]
    out["half one class"] = x[i], y[i]
    pick = g.choice(len(other[0]), n, replace=False)
    out["other set"] = other[0][pick], other[1][pick]
    return out


def made(x: np.ndarray, y: np.ndarray, epsilon: float, design: SketchDesign) -> Sketch:
    """A labelled sketch."""
    vault = Vault(x, y, classes=design.classes, clip=1.0, adjacency="replace-one", budget=(epsilon, DELTA))
    return sketch(vault, epsilon=epsilon, delta=DELTA, design=design)


def false_alarms(base: Labelled, designs: dict[str, SketchDesign], bring: Callable, n: int, pairs: int) -> None:
    """How often samples of one distribution are told apart, and how often their OTDD exceeds its null level."""
    print("design,epsilon,pairs,told apart,OTDD beyond its null level")
    for name, design in designs.items():
        for epsilon in (1.0, 10.0):
            apart = beyond = 0
            for k in range(pairs):
                pick = np.random.default_rng([7, k]).permutation(len(base[0]))[: 2 * n]
                both = [made(bring(base[0][i]), base[1][i], epsilon, design) for i in (pick[:n], pick[n:])]
                found = compare_sketches(*both, draws=100)
                assert found.otdd is not None
                apart += bool(found.p_value <= 0.05)
                beyond += found.otdd.value > found.otdd.null_level
            print(f"{name},{epsilon:g},{pairs},{apart},{beyond}", flush=True)


def coverage(group: dict[str, Labelled], designs: dict[str, SketchDesign]) -> None:
    """How often intervals hold what the sketches would say without noise: the first party against all others."""
    print("design,epsilon,pairs,W_2 held,sliced W_2 held,OTDD held")
    names = list(group)
    for name, design in designs.items():
        for epsilon in (1.0, 10.0):
            shown = {k: made(x, y, epsilon, design) for k, (x, y) in group.items()}
            shared = Shared.of(shown[names[0]].public)
            quiet = {k: Side(one, shared) for k, one in shown.items()}
            for k, side in quiet.items():
                side.means = {n: v.mean(0) for n, v in design.coordinates(*group[k]).items()}
            held = np.zeros(3, dtype=int)
            for other in names[1:]:
                truth = np.sqrt(estimates(*(quiet[k].view(noisy=False) for k in (names[0], other))))
                found = compare_sketches(shown[names[0]], shown[other], draws=100)
                for k, distance in enumerate((found.w2, found.sliced, found.otdd)):
                    low, high = distance.interval
                    held[k] += low <= truth[k] <= high
            print(f"{name},{epsilon:g},{len(names) - 1},{held[0]},{held[1]},{held[2]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23, 24])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--noises", type=int, default=3)
    parser.add_argument("--null", type=int, default=0, help="pairs of samples of one distribution; no ranking then")
    parser.add_argument("--coverage", action="store_true", help="of intervals; no ranking then")
    a = parser.parse_args()
    base, other = images(a.folder, "mnist", "train"), images(a.folder, "fashion_mnist", "train")
    public = images(a.folder, "mnist", "test")[0][:2000]
    centre = public.mean(0)
    directions = np.linalg.svd(public - centre, full_matrices=False)[2][:32].T
    designs = {
        "in-domain": SketchDesign.around((public - centre) @ directions, seed=1).labelled(CLASSES),
        "none": SketchDesign.plain(32, 14.0, seed=1).labelled(CLASSES),
    }
    if a.null:
        false_alarms(base, designs, lambda x: (x - centre) @ directions, a.records, a.null)
        return
    if a.coverage:
        group = parties(base, other, a.records, a.seeds[0])
        coverage({k: ((x - centre) @ directions, y) for k, (x, y) in group.items()}, designs)
        return
    print("design,epsilon,pairs,rank,median error,worst rank")
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    pairs: list[tuple[str, str]] = []
    for seed in a.seeds:
        group = {k: ((x - centre) @ directions, y) for k, (x, y) in parties(base, other, a.records, seed).items()}
        names = list(group)
        every = [(one, two) for k, one in enumerate(names) for two in names[k + 1 :]]
        pairs = every[: len(names) - 1] + every[len(names) - 1 :: 3]
        g = np.random.default_rng(seed)
        few = {k: g.permutation(a.records)[:400] for k in names}
        cut = {k: (x[few[k]], y[few[k]]) for k, (x, y) in group.items()}
        truth = np.array([float(otdd(*cut[one], *cut[two]).value) for one, two in pairs])
        for name, design in designs.items():
            for epsilon in (1.0, 10.0):
                for _ in range(a.noises):
                    shown = {k: made(x, y, epsilon, design) for k, (x, y) in group.items()}
                    guess = np.array([label_distance(shown[one], shown[two]) for one, two in pairs])
                    rank = float(spearmanr(guess, truth)[0])
                    found.setdefault((name, epsilon), []).append((rank, float(np.median(np.abs(guess / truth - 1)))))
    for (name, epsilon), rows in found.items():
        middle = np.mean(rows, 0)
        worst = min(rank for rank, _ in rows)
        print(f"{name},{epsilon:g},{len(pairs)},{middle[0]:.3f},{middle[1]:.3f},{worst:.3f}", flush=True)


if __name__ == "__main__":
    main()
