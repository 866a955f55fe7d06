"""Domain adaptation with a private target, on public data sets: digits, twelve pairs of features, accuracy against ε.

    PYTHONPATH=src python benchmarks/adaptation.py digits --data DIR --device cuda --limit 1500 --out digits.json
    PYTHONPATH=src python benchmarks/adaptation.py office --data DIR --out office.json
    PYTHONPATH=src python benchmarks/adaptation.py curve --data DIR --device cuda --out curve.json

DIR holds mnist.npz, usps.npz, office_caltech_surf.npz. Results are written after every run, so a time limit loses
nothing; runs that --out already holds are not repeated. Accuracy is on the target's test set, which takes no part in
alignment; for features, where there is none, on a fixed half that is held out.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

PRIVATE = ("sketch", "projection", "dp-dann", "published")
Arrays = dict[str, np.ndarray]


def resized(x: np.ndarray) -> np.ndarray:
    """Images in [0, 1] at 28 × 28, as rows: a public function of each."""
    import torch

    image = torch.from_numpy(np.asarray(x, dtype=np.float32))[:, None]
    if image.shape[-1] != 28:
        image = torch.nn.functional.interpolate(image, size=28, mode="bilinear", align_corners=False)
    return image.clamp(0.0, 1.0).reshape(len(x), -1).numpy()


def digits(folder: Path, name: str) -> Arrays:
    """A set of digits with its natural split; the built-in one is split after 1,297."""
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        x = resized(x.reshape(-1, 8, 8) / 16.0)
        return {"x_train": x[:1297], "y_train": y[:1297], "x_test": x[1297:], "y_test": y[1297:]}
    with np.load(folder / f"{name}.npz") as file:
        found = {k: file[k] for k in ("x_train", "y_train", "x_test", "y_test")}
    return {k: resized(v / 255.0) if k[0] == "x" else v.astype(np.int64) for k, v in found.items()}


def features(folder: Path, name: str, seed: int) -> Arrays:
    """Root of each histogram's shares (rows of norm 1); the halves of alignment and test are drawn from the seed."""
    with np.load(folder / "office_caltech_surf.npz") as file:
        x, y = file[f"{name}_x"].astype(np.float64), file[f"{name}_y"].astype(np.int64)
    x = np.sqrt(x / np.maximum(x.sum(axis=1, keepdims=True), 1e-12))
    order = np.random.default_rng(seed).permutation(len(x))
    half = len(x) // 2
    return {
        "x_train": x[order[:half]], "y_train": y[order[:half]], "x_test": x[order[half:]], "y_test": y[order[half:]],
    }  # fmt: skip


def one(
    source: Arrays, target: Arrays, method: str, terms: tuple[float, float], seed: int, args: Any
) -> dict[str, Any]:
    """One run, and everything about it that a table may say."""
    from privot.adaptation import DomainAdapter, choose
    from privot.adaptation.baselines import OPEN, train_openly
    from privot.adaptation.learning import Learner
    from privot.vault import Vault

    image = source["x_train"].shape[1] == 784
    x, y = source["x_train"], source["y_train"]
    if not image:
        # a whole domain is the source; only the target is held out in part
        x, y = np.concatenate([x, source["x_test"]]), np.concatenate([y, source["y_test"]])
    records = target["x_train"]
    if args.records:
        dice = np.random.default_rng(seed)
        records = records[dice.permutation(len(records))[: args.records]]
        x, y = (v[: args.source_records or len(v)] for v in (x, y))
    base = "source" if method in (*OPEN, "source", "source plain") else method
    settings = choose(base, image, len(records), args.network, args.device == "cuda")
    if args.steps:
        share = {"finish": args.steps} if base in ("source", "sketch") else {"warmup": args.steps // 2}
        if base == "projection":
            share["steps"] = max(1, args.steps // (2 * settings.blocks))
        settings = replace(settings, **share)
    if method == "source plain":
        settings = replace(settings, augment=False)
    vault = Vault(records, clip=1.0, adjacency="replace-one", budget=terms)
    adapter = DomainAdapter(
        *terms, settings=settings, shape=(28, 28) if image else None, device=args.device, seed=seed,
        allow_unproven=method == "published",
    )  # fmt: skip
    began = time.perf_counter()
    if method in OPEN:
        design = adapter.design(vault.facts, (x, y))
        learner = train_openly(Learner(design, x, y, args.device), records, method)
        adapter.networks_, adapter.guarantee_, adapter.design_ = learner.networks, None, design
    else:
        adapter.fit(vault, (x, y))
    guarantee, design = adapter.guarantee_, adapter.design_
    shown = settings.sample or len(records)
    return {
        "accuracy": adapter.score(target["x_test"], target["y_test"]),
        "epsilon": None if guarantee is None else guarantee.epsilon(),
        "standing": None if guarantee is None else str(guarantee.standing),
        "releases": settings.releases, "sigma": design.sigma, "d": adapter.networks_.size, "k": settings.slices,
        "q": shown / len(records), "target_records": len(records), "source_records": len(x),
        "settings": settings.to_dict(), "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def runs(args: Any) -> list[tuple[str, str, str, float | None, float, int]]:
    """(source, target, method, ε, δ, seed) of a study, cheap and important ones first."""
    pairs = {
        "digits": [("mnist", "usps"), ("usps", "mnist"), ("mnist", "digits")],
        "curve": [("mnist", "usps"), ("usps", "mnist")],
        "office": [
            (a, b) for a in ("amazon", "caltech10", "dslr", "webcam") for b in ("amazon", "caltech10", "dslr", "webcam")
            if a != b
        ],
    }[args.study]  # fmt: skip
    if args.pairs:
        pairs = [p for p in pairs if "-".join(p) in args.pairs.split(",")]
    delta = 1e-3 if args.study == "office" else 1e-5
    curve = (0.1, 0.3, 1.0, 3.0, 10.0)
    asked = [float(e) for e in args.epsilons.split(",")] if args.epsilons else None
    methods = args.methods.split(",") if args.methods else None
    out: list[tuple[str, str, str, float | None, float, int]] = []
    for seed in range(args.seeds):
        for a, b in pairs:
            plain = ["source", "source plain", "swd", "dann"] if args.study != "curve" else ["source"]
            out += [(a, b, m, None, delta, seed) for m in plain if methods is None or m in methods]
            for m in PRIVATE if args.study != "curve" else ("sketch", "projection"):
                if methods is not None and m not in methods:
                    continue
                usual = (
                    curve if args.study == "curve" else (10.0, 3.0, 1.0) if m in ("sketch", "projection") else (10.0,)
                )
                out += [(a, b, m, e, delta, seed) for e in asked or usual]
    return out


def main() -> None:
    """Run what is asked for, within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["digits", "office", "curve"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=3600.0, help="Seconds after which no new run begins.")
    parser.add_argument("--methods", help="Only these, with commas.")
    parser.add_argument("--pairs", help="Only these, as mnist-usps,usps-mnist.")
    parser.add_argument("--epsilons", help="These in place of the study's.")
    parser.add_argument("--records", type=int, help="Target records used, for a quick look.")
    parser.add_argument("--source-records", type=int, help="Source records used with --records.")
    parser.add_argument("--network", help="digits, features or an import path, in place of the study's.")
    parser.add_argument("--steps", type=int, help="Gradient steps, in place of the rules'.")
    args = parser.parse_args()
    done = json.loads(args.out.read_text())["runs"] if args.out.exists() else []
    known = {tuple(r["run"]) for r in done}
    began, held = time.monotonic(), {}
    for run in runs(args):
        if time.monotonic() - began > args.limit:
            break
        if run in known:
            continue
        a, b, method, epsilon, delta, seed = run
        for name in (a, b):
            if (name, seed) not in held:
                kept = args.study == "office"
                held[name, seed] = (
                    features(args.data, name, seed) if kept else held.get((name, 0)) or digits(args.data, name)
                )
        found = one(held[a, seed], held[b, seed], method, (epsilon or 1.0, delta), seed, args)
        done.append({"run": list(run), **found, "asked_epsilon": epsilon, "delta": delta, "adjacency": "replace-one"})
        args.out.write_text(json.dumps({"study": args.study, "device": args.device, "runs": done}, indent=1))
        print(
            f"{a}→{b} {method} ε={epsilon} seed {seed}: {100 * found['accuracy']:.1f} % in {found['seconds']} s",
            flush=True,
        )
    table: dict[tuple[Any, ...], list[float]] = {}
    for r in done:
        table.setdefault(tuple(r["run"][:4]), []).append(100 * r["accuracy"])
    for key, values in table.items():
        print(*key, f"{np.mean(values):.1f} ± {np.std(values):.1f} ({len(values)} seeds)")


if __name__ == "__main__":
    main()
