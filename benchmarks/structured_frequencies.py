"""Structured against dense frequencies at the same number of features: error of the kernel, and of what is synthesised.

    python benchmarks/structured_frequencies.py kernel fashion_mnist.npz --seeds 10
    python benchmarks/structured_frequencies.py means digits --seeds 40 --frequencies 500
    python benchmarks/structured_frequencies.py synthesis fashion_mnist.npz --seeds 3 --steps 600
    python benchmarks/structured_frequencies.py synthesis digits --seeds 3

`kernel` compares ⟨φ(x), φ(y)⟩ with the Gaussian kernel, in closed form, over pairs of training images. `means`
scores the nearest noisy class mean, which is all that a release says, over many draws of the noise. `synthesis`
releases and trains with each map, with the same seeds, and scores classifiers. Both score held-out *training* records:
the last 10,000 of a file, every fourth of the built-in digits. Test sets are not opened.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot import Vault
from privot.accounting import embedding
from privot.evaluation import score
from privot.synthesis import Synthesizer
from privot.synthesis.defaults.embedding_defaults import BANDWIDTHS, Problem, choose_rules, frequencies
from privot.synthesis.features.fourier import Fourier
from privot.synthesis.features.hadamard import HadamardFourier

DELTA = 1e-5
MAPS: dict[str, Any] = {"dense, orthogonal": Fourier, "structured": HadamardFourier}


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[int, int]]:
    """Training records with values from 0 to 1, their classes, and the shape of an image."""
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        return x / 16.0, y.astype(np.int64), (8, 8)
    with np.load(name) as held:
        x, y = held["x_train"], held["y_train"]
    return x.reshape(len(x), -1) / 255.0, y.astype(np.int64), x.shape[1:]


def kernel(options: argparse.Namespace) -> None:
    """Root mean square and mean of the error over pairs and draws of the map."""
    x, _, _ = load(options.data)
    chosen = np.random.default_rng(0).permutation(len(x))[:200]
    rows = torch.from_numpy(x[chosen])
    widths = [b * math.sqrt(x.shape[1]) for b in BANDWIDTHS]
    squared = torch.cdist(rows, rows).square().numpy()[np.triu_indices(len(rows), 1)]
    wanted = np.mean([np.exp(-squared / (2.0 * h * h)) for h in widths], axis=0)
    makers = {**MAPS, "dense, independent": lambda *a: Fourier(*a, frame="independent")}
    for name, maker in makers.items():
        errors = []
        for seed in range(options.seeds):
            phi = maker(x.shape[1], options.frequencies, widths, seed).features(rows).numpy()
            errors.append((phi @ phi.T)[np.triu_indices(len(rows), 1)] - wanted)
        found = np.array(errors)
        each = np.sqrt(np.mean(found**2, axis=1))
        spread = each.std(ddof=1) / math.sqrt(len(each))
        bias = found.mean(axis=0)
        print(
            f"{name}: root mean square error {each.mean():.5f} ± {spread:.5f}, largest {np.abs(found).max():.4f}; "
            f"mean over draws {bias.mean():+.5f}, its root mean square over pairs {np.sqrt(np.mean(bias**2)):.5f}",
            flush=True,
        )


def split(options: argparse.Namespace) -> tuple[Any, Any, Any, Any, Any]:
    """Records and classes to release, those held out, and the shape of an image."""
    x, y, shape = load(options.data)
    held = np.arange(len(x)) % 4 == 0 if options.data == "digits" else np.arange(len(x)) >= len(x) - 10_000
    return x[~held][: options.records], y[~held][: options.records], x[held], y[held], shape


def means(options: argparse.Namespace) -> None:
    """Accuracy of the nearest noisy class mean, in squared distance with the noise's own part taken off."""
    x, y, test, truth, _ = split(options)
    sigma = embedding(adjacency="add-remove", delta=DELTA, epsilon=options.epsilon).sigma
    widths, counts = [b * math.sqrt(x.shape[1]) for b in BANDWIDTHS], np.bincount(y, minlength=10)
    dice = np.random.default_rng(0)
    for name, maker in MAPS.items():
        found = []
        for seed in range(options.seeds):
            features = maker(x.shape[1], options.frequencies, widths, seed)
            phi, other = (features.features(torch.from_numpy(rows)).numpy() for rows in (x, test))
            sums = np.array([phi[y == c].sum(0) for c in range(10)])
            hits = []
            for _ in range(25):
                centres = (sums + sigma * dice.normal(size=sums.shape)) / counts[:, None]
                squares = np.square(centres).sum(1) - sigma**2 * features.size / counts**2
                hits.append(np.mean((other @ centres.T - 0.5 * squares).argmax(1) == truth))
            found.append(np.mean(hits))
        print(f"{name}: {np.mean(found):.4f} ± {np.std(found, ddof=1) / math.sqrt(len(found)):.4f}", flush=True)


def synthesis(options: argparse.Namespace) -> None:
    """One release, one training and two classifiers for each map and seed."""
    x, y, test, truth, shape = split(options)
    sigma = embedding(adjacency="add-remove", delta=DELTA, epsilon=options.epsilon).sigma
    problem = Problem(x.shape[1], 10, sigma, len(x), shape)
    rules, m = choose_rules(problem), frequencies(problem)
    rules = replace(rules, steps=min(rules.steps, options.steps))
    widths = [b * math.sqrt(x.shape[1]) for b in BANDWIDTHS]
    found: dict[str, list[list[float]]] = {name: [] for name in MAPS}
    for seed in range(options.first, options.first + options.seeds):
        for name, maker in MAPS.items():
            clock = time.process_time()
            vault = Vault(
                x, y, classes=10, clip=math.sqrt(x.shape[1]), adjacency="add-remove", budget=(options.epsilon, DELTA)
            )
            made = Synthesizer(
                options.epsilon, DELTA, shape=shape, records=len(x), device="cpu", seed=seed, rules=rules,
                features=maker(x.shape[1], m, widths, seed),
            )  # fmt: skip
            made.fit(vault)
            sample, labels = made.sample(options.samples, seed=seed)
            scores = [score(kind, sample, labels, test, truth, shape=shape, seed=seed) for kind in ("logreg", "mlp")]
            found[name].append([*scores, made.losses_[-1]])
            said = ", ".join(f"{value:.4f}" for value in found[name][-1])
            print(f"seed {seed}, {name}, {m} frequencies, {rules.steps} steps: {said}; ", end="")
            print(f"{time.process_time() - clock:.0f} s of processors", flush=True)
    for name, values in found.items():
        mean, sd = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) if options.seeds > 1 else np.zeros(3)
        parts = zip(("logistic regression", "MLP", "loss"), mean, sd, strict=True)
        print(f"{name}: " + ", ".join(f"{what} {a:.4f} ± {b:.4f}" for what, a, b in parts))


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kernel", "means", "synthesis"))
    parser.add_argument("data", help="an .npz file with x_train and y_train, or digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed of a synthesis")
    parser.add_argument("--frequencies", type=int, default=2_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=5_000)
    options = parser.parse_args()
    {"kernel": kernel, "means": means, "synthesis": synthesis}[options.what](options)


if __name__ == "__main__":
    main()
