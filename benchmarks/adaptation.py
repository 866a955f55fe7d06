"""Domain adaptation with a private target, on public data sets: digits, twelve pairs of features, accuracy against ε.

    PYTHONPATH=src python benchmarks/adaptation.py digits --data DIR --device cuda --limit 600 --out digits.json
    PYTHONPATH=src python benchmarks/adaptation.py curve --data DIR --device cuda --limit 120 --out digits.json
    PYTHONPATH=src python benchmarks/adaptation.py office --data DIR --out office.json

DIR holds mnist.npz, usps.npz, office_caltech_surf.npz. Results are written after every run and important ones come
first, so a time limit loses little; runs that --out already holds, of whatever study, are not repeated. With
--only-seeds several processes may share a machine, each with its own --out; --join brings their files together.
Accuracy is on the target's test set, which takes no part in alignment; for features, where there is none, on a half
that is drawn from the seed and held out.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

PRIVATE = ("embedding", "sliced", "dp-dann", "published")
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
    from privot.adaptation.learner import Learner
    from privot.adaptation.open_baselines import OPEN, train_openly
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
        share = {"finish": args.steps} if base in ("source", "embedding") else {"warmup": args.steps // 2}
        if base == "sliced":
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
    plain = {"digits": ("source", "source plain", "swd", "dann"), "curve": ("source",)}
    found = []
    for seed in [int(v) for v in args.only_seeds.split(",")] if args.only_seeds else range(args.seeds):
        for number, (a, b) in enumerate(pairs):
            # where nothing is augmented both are one
            for m in plain.get(args.study, ("source", "swd", "dann")):
                found.append((3 if m == "source plain" else 1, seed, number, (a, b, m, None, delta, seed)))
            for m in PRIVATE if args.study != "curve" else PRIVATE[:2]:
                # small ε only where there is a published figure
                many = m in PRIVATE[:2] and args.study == "digits" and b != "digits"
                usual = curve if args.study == "curve" else (10.0, 3.0, 1.0) if many else (10.0,)
                for e in asked or usual:
                    # the claim first, then what it is compared with; DP-SGD takes longest
                    tier = (0 if e == 10.0 else 1) if m == "embedding" else 4 if m == "dp-dann" else 2
                    found.append((tier, seed, number, (a, b, m, e, delta, seed)))

    def rank(entry: tuple[Any, ...]) -> tuple[Any, ...]:
        # features have one claim for all methods: a seed after the other, and DP-SGD, which takes longest, at last
        tier, seed, number, _ = entry
        return (tier, seed, number) if args.study != "office" else (tier == 4, seed, tier, number)

    return [run for *_, run in sorted(found, key=rank) if methods is None or run[2] in methods]


def plot(done: list[dict[str, Any]], path: Path) -> None:
    """Accuracy against ε for both directions between MNIST and USPS, mean ± standard deviation over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for axis, (a, b) in zip(axes, (("mnist", "usps"), ("usps", "mnist")), strict=True):
        for method, colour in (("embedding", "C0"), ("sliced", "C1"), ("published", "C3"), ("dp-dann", "C4")):
            points: dict[float, list[float]] = {}
            for r in done:
                if r["run"][:3] == [a, b, method]:
                    points.setdefault(r["run"][3], []).append(100 * r["accuracy"])
            at = sorted(points)
            label = f"{method} (unproven)" if method == "published" else method
            middle, spread = [np.mean(points[e]) for e in at], [np.std(points[e]) for e in at]
            axis.errorbar(at, middle, spread, marker="o", capsize=3, color=colour, label=label)
        for method, style in (("source", "--"), ("swd", ":")):
            values = [100 * r["accuracy"] for r in done if r["run"][:3] == [a, b, method]]
            axis.axhline(
                np.mean(values),
                color="grey",
                linestyle=style,
                label={"swd": "SWD, no privacy"}.get(method, "source only"),
            )
        axis.set(
            xscale="log", xlabel="ε (δ = 1e-5, replace-one)", ylabel="accuracy, %", title=f"{a.upper()} → {b.upper()}"
        )
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run what is asked for, within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["digits", "office", "curve"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only-seeds", help="These in place of the first ones, with commas.")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="Files whose runs are taken into --out.")
    parser.add_argument("--plot", type=Path, help="A PNG of accuracy against ε.")
    parser.add_argument("--limit", type=float, default=3600.0, help="Seconds after which no new run begins.")
    parser.add_argument("--methods", help="Only these, with commas.")
    parser.add_argument("--pairs", help="Only these, as mnist-usps,usps-mnist.")
    parser.add_argument("--epsilons", help="These in place of the study's.")
    parser.add_argument("--records", type=int, help="Target records used, for a quick look.")
    parser.add_argument("--source-records", type=int, help="Source records used with --records.")
    parser.add_argument("--network", help="digits, features or an import path, in place of the study's.")
    parser.add_argument("--steps", type=int, help="Gradient steps, in place of the rules'.")
    args = parser.parse_args()
    done, known = [], set()
    for path in (args.out, *args.join):
        for r in json.loads(path.read_text())["runs"] if path.exists() else []:
            if tuple(r["run"]) not in known:
                done.append(r)
                known.add(tuple(r["run"]))
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
    if args.join:
        args.out.write_text(json.dumps({"study": args.study, "device": args.device, "runs": done}, indent=1))
    if args.plot:
        plot(done, args.plot)
    for r in done:
        table.setdefault(tuple(r["run"][:4]), []).append(100 * r["accuracy"])
    for key, values in table.items():
        print(*key, f"{np.mean(values):.1f} ± {np.std(values):.1f} ({len(values)} seeds)")


if __name__ == "__main__":
    main()
