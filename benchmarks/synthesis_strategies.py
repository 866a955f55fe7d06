"""How good and how fast the strategies that pay as they go are, on one .npz with x_train, y_train, x_test, y_test.

    python benchmarks/synthesis_strategies.py mnist.npz --method sinkhorn --device cuda --seconds 540 --out result.json
    python benchmarks/synthesis_strategies.py mnist.npz --method sinkhorn --device cuda --steps-per-second

With --seconds the number of steps is what the device makes in that time, measured beforehand on random numbers of the
same shape: a job cannot stop early, because its noise was chosen for all of its steps. What it prints about accuracy is
measured on the real test set: as confidential as that set is, and nothing is chosen by it. With --hold-out the last
10,000 training records take the test set's place, for whoever tries something out.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot import Vault
from privot.cli.parsing.typed_values import read_options
from privot.evaluation import CLASSIFIERS, fid, score
from privot.synthesis import Synthesizer
from privot.synthesis.generators.image_generators import PictureGenerator

PROBE = {"sinkhorn": 600, "sinkhorn-parameters": 600, "sliced": 100}
"""Steps that a probe takes, the first half of which is warming up."""
SHARE = 0.92
"""Of --seconds that the chosen number of steps is meant to fill; blocks take a moment to begin, and to be counted."""


def flat(x: NDArray[Any]) -> NDArray[np.float32]:
    """Rows in [0, 1]; whole numbers are taken for bytes, which is public."""
    scale = 255.0 if x.dtype.kind in "ui" else 1.0
    return np.asarray(x.reshape(len(x), -1), dtype=np.float32) / np.float32(scale)


def asked(arguments: argparse.Namespace, shape: tuple[int, ...], records: int, options: dict[str, Any]) -> Synthesizer:
    """What is run."""
    return Synthesizer(
        arguments.epsilon,
        arguments.delta,
        method=arguments.method,
        shape=shape,
        low=0.0,
        high=1.0,
        records=records,
        options=options,
        device=arguments.device,
        seed=arguments.seed,
        allow_unproven=arguments.allow_unproven,
    )


def opened(arguments: argparse.Namespace, x: NDArray[Any], y: NDArray[Any], classes: int, slack: float = 1.0) -> Vault:
    """A vault whose budget is just this run's."""
    clip = 0.35 * x.shape[1] ** 0.5 if arguments.clip is None else arguments.clip
    terms = (arguments.epsilon * slack, arguments.delta)
    return Vault(x, y, classes=classes, clip=clip, adjacency=arguments.adjacency, budget=terms)


def wait(device: str) -> float:
    """The time when everything that was started is done."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def probe(arguments: argparse.Namespace, x: NDArray[Any], shape: tuple[int, ...], classes: int) -> float:
    """Steps a second, on random numbers: nothing of the data but its shape."""
    options, random = read_options(arguments.set), np.random.default_rng(0)
    options.update(steps=PROBE[arguments.method], blocks=1)
    vault = opened(
        arguments, random.uniform(size=x.shape).astype(np.float32), np.arange(len(x)) % classes, classes, 2.0
    )
    times: dict[int, float] = {}

    def tell(step: int, steps: int, loss: float) -> None:
        times[step] = wait(arguments.device)

    asked(arguments, shape, len(x), options).fit(vault, progress=tell)
    half, end = PROBE[arguments.method] // 2, PROBE[arguments.method]
    return (end - half) / (times[end] - times[half])


def main() -> None:
    """Probe, choose the number of steps, run, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--method", choices=sorted(PROBE), default="sinkhorn")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--adjacency", choices=["add-remove", "replace-one"])
    parser.add_argument("--clip", type=float, help="bound on a record's norm (sliced)")
    parser.add_argument("--seconds", type=float, help="choose the steps so that training takes about this long")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="an option of the method")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--inception", type=Path, help="TorchScript network, for the FID against the training images")
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--records", type=int, help="use the first that many training records")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hold-out", action="store_true")
    parser.add_argument("--allow-unproven", action="store_true")
    parser.add_argument("--steps-per-second", action="store_true", help="only measure the speed")
    parser.add_argument("--folder", type=Path, help="keep generator, guarantee and 200 samples there")
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args()
    if arguments.adjacency is None:
        # projections show how many records took part; gradients do not
        arguments.adjacency = "replace-one" if arguments.method == "sliced" else "add-remove"
    with np.load(arguments.data, allow_pickle=False) as file:
        images, labels, test, truth = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    if arguments.hold_out:
        images, labels, test, truth = images[:-10_000], labels[:-10_000], images[-10_000:], labels[-10_000:]
    images, labels = images[: arguments.records], labels[: arguments.records]
    test, truth = flat(test), truth.astype(np.int64)
    shape, classes = images.shape[1:], arguments.classes
    x, y = flat(images), labels.astype(np.int64)
    options, result = read_options(arguments.set), {k: str(v) for k, v in vars(arguments).items() if v is not None}
    if arguments.steps_per_second or arguments.seconds is not None:
        result["steps_per_second_probed"] = rate = probe(arguments, x, shape, classes)
        print(f"{rate:.1f} steps/s on random numbers of the same shape", flush=True)
        if arguments.steps_per_second:
            return write(arguments.out, result)
        options["steps"] = max(1, int(rate * arguments.seconds * SHARE))
    started = time.perf_counter()
    synthesizer = asked(arguments, shape, len(x), options)
    vault = opened(arguments, x, y, classes)
    design = synthesizer.design(vault.facts)
    print(f"{design.rules.steps} steps, σ = {design.mechanism.sigma:.4g}, {design.rules.options}", flush=True)
    began, told = time.perf_counter(), [time.perf_counter()]

    def tell(step: int, steps: int, loss: float) -> None:
        if time.perf_counter() - told[0] > 15.0:
            told[0] = time.perf_counter()
            print(f"  {step} of {steps}, {told[0] - began:.0f} s, {loss:.4g}", flush=True)

    synthesizer.fit(vault, progress=tell)
    took = wait(arguments.device) - began
    guarantee = synthesizer.guarantee_
    result.update(
        steps=design.rules.steps,
        sigma=design.mechanism.sigma,
        training_seconds=took,
        planning_seconds=began - started,
        steps_per_second=design.rules.steps / took,
        options=design.rules.options,
        guarantee={k: v for k, v in guarantee.to_dict().items() if k not in ("curve", "events")},
    )
    print(
        f"{took:.1f} s, {design.rules.steps / took:.1f} steps/s, ε = {guarantee.epsilon():.4g} at δ = "
        f"{guarantee.at_delta:g}, {guarantee.adjacency}, {guarantee.standing}",
        flush=True,
    )
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        synthesizer.save(arguments.folder)

    def judged(samples: str) -> None:
        """Scores of what is sampled now."""
        sampled, given = synthesizer.sample(arguments.samples, seed=arguments.seed)
        assert given is not None
        result[samples] = found = {}
        for name in CLASSIFIERS:
            if name == "cnn" and min(shape[:2]) < 4:
                continue
            found[name] = score(name, sampled, given, test, truth, shape=shape, device=arguments.device)
            print(f"{name} {100 * found[name]:.2f} % on real test records ({samples})", flush=True)
        if arguments.inception is not None:
            found["fid"] = fid(x, sampled, shape, arguments.inception, device=arguments.device)
            print(f"FID {found['fid']:.2f} against the training images ({samples})", flush=True)
        if arguments.folder is not None:
            np.save(arguments.folder / f"{samples}.npy", (255.0 * np.asarray(sampled[:200])).astype(np.uint8))
        write(arguments.out, result)

    judged("scores")
    if options.get("warp", 1.0) and isinstance(synthesizer.generator_, PictureGenerator):
        # the same generator, its images where it put them
        synthesizer.generator_.ease(0.0)
        judged("unwarped")


def write(path: Path | None, result: dict[str, Any]) -> None:
    """As JSON."""
    if path is not None:
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
