"""How good `embedding` is on one .npz with x_train, y_train, x_test, y_test: mean ± sd over seeds, seconds of training.

    python benchmarks/synthesis_embedding.py mnist.npz --epsilon 10 --seeds 5 --device cuda --out result.json

A seed repeats release, noise, training and classifiers. Accuracies are measured on the real test set: as confidential
as that set is, and nothing is chosen by them. With --hold-out the last 10,000 training records take the test set's
place, for whoever tries something out. With --inception FILE (TorchScript) also the FID against the training images.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot import Vault
from privot.evaluation import CLASSIFIERS, score
from privot.synthesis import Synthesizer


def flat(x: NDArray[Any]) -> NDArray[np.float32]:
    """Rows in [0, 1] from bytes."""
    return np.asarray(x.reshape(len(x), -1), dtype=np.float32) / np.float32(255.0)


def one(arguments: argparse.Namespace, seed: int, x: Any, y: Any, test: Any, truth: Any, shape: Any) -> dict[str, Any]:
    """One release, one training, three classifiers."""
    made = Synthesizer(
        arguments.epsilon,
        arguments.delta,
        shape=shape,
        records=len(x),
        device=arguments.device,
        seed=seed,
        options=None if arguments.labelled is None else {"labelled": arguments.labelled},
    )
    vault = Vault(
        x,
        y,
        classes=arguments.classes,
        clip=x.shape[1] ** 0.5,
        adjacency="add-remove",
        budget=(arguments.epsilon, arguments.delta),
    )
    first: list[float] = []

    def tell(step: int, steps: int, loss: float) -> None:
        if not first:
            first.append(time.perf_counter())

    start = time.perf_counter()
    made.fit(vault, progress=tell)
    end = time.perf_counter()
    sample, labels = made.sample(arguments.samples)
    result: dict[str, Any] = {
        "seed": seed,
        "epsilon": made.guarantee_.epsilon(),
        "adjacency": str(made.guarantee_.adjacency),
        "standing": str(made.guarantee_.standing),
        "steps": made.design_.rules.steps,
        "until_training": first[0] - start,
        "seconds": end - start,
        "loss": made.losses_[-1],
    }
    start = time.perf_counter()
    for name in CLASSIFIERS:
        result[name] = score(name, sample, labels, test, truth, shape=shape, device=arguments.device, seed=seed)
    result["evaluation_seconds"] = time.perf_counter() - start
    if arguments.inception and seed - arguments.first < arguments.inception_seeds:
        from privot.evaluation.frechet import fid

        result["fid"] = fid(x, sample, shape, arguments.inception, device=arguments.device)
    if arguments.folder and seed == arguments.first:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        made.save(arguments.folder)
    if arguments.pictures:
        np.save(f"{arguments.pictures}-{seed}.npy", (np.asarray(sample[:100]) * 255).astype(np.uint8))
    return result


def main() -> None:
    """All seeds, then mean and standard deviation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--labelled", type=float, help="the share of the budget for labels, in place of the rule's")
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--inception", type=Path)
    parser.add_argument("--inception-seeds", type=int, default=1, help="for how many of the seeds")
    parser.add_argument("--pictures", help="where to keep a hundred samples a seed, as .npy")
    parser.add_argument("--folder", type=Path, help="keep generator and guarantee of the first seed there")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with np.load(arguments.data, allow_pickle=False) as file:
        images, y = file["x_train"], file["y_train"].astype(np.int64)
        test, truth = file["x_test"], file["y_test"].astype(np.int64)
    if arguments.hold_out:
        images, y, test, truth = images[:-10_000], y[:-10_000], images[-10_000:], y[-10_000:]
    shape, runs = images.shape[1:], []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        runs.append(one(arguments, seed, flat(images), y, flat(test), truth, shape))
        print(json.dumps(runs[-1]), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    names = [*CLASSIFIERS, *(["fid"] if "fid" in runs[0] else []), "seconds"]
    for name in names:
        values = np.array([run[name] for run in runs if name in run]) * (100.0 if name in CLASSIFIERS else 1.0)
        spread = values.std(ddof=1) if len(values) > 1 else float("nan")
        print(f"{name}: {values.mean():.2f} ± {spread:.2f}")


if __name__ == "__main__":
    main()
