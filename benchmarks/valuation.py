"""Scores of records and values of parties, measured: recall of bad records, ranks of parties, coverage of intervals.

    python benchmarks/valuation.py DATA_DIR points   [--set mnist] [--seeds 100 101 …] [--validation 1000 5000]
    python benchmarks/valuation.py DATA_DIR labels   [--set mnist] [--seeds 100 101 …] [--validation 1000 5000 10000]
    python benchmarks/valuation.py DATA_DIR parties  [--set mnist] [--seeds 100 101 …] [--records 1000 5000]
    python benchmarks/valuation.py DATA_DIR coverage [--set mnist] [--repeats 40]
    python benchmarks/valuation.py DATA_DIR synthetic [--repeats 40]     (reads no data)

DATA_DIR holds mnist.npz and fashion_mnist.npz. Images have pixels in [0, 1]; sketches are built around 2,000 public
images (the test part), records are from the training part; replace-one, δ = 1e-5.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from federation_labels import Labelled as Pair
from federation_labels import images, made
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from privot.mechanisms import SketchDesign
from privot.mechanisms.clipping import clip_rows
from privot.transport._exact import couple
from privot.valuation import (
    CoalitionPlan,
    score_by_records,
    score_by_sketch,
    value_records,
    value_sketches,
)
from privot.valuation.label_meanings import label_meanings
from privot.valuation.label_scores import label_posterior, meanings_by_sketch
from privot.valuation.labelled_records import LABEL_WEIGHT, Labelled

EPSILONS = (1.0, 10.0)
BAD = 0.15
KINDS = ("noise 1", "noise 0.35", "noise 0.2", "flipped", "0 and 1 swapped", "4 and 9 swapped")
OWN, FULL = 1000, (60, 300)


def spoiled(kind: str, base: Pair, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records, labels, and which of them are bad."""
    x, y = base[0].copy(), base[1].copy()
    bad = g.choice(len(x), int(BAD * len(x)), replace=False)
    if kind.startswith("noise"):
        x[bad] += float(kind.split()[1]) * g.standard_normal(x[bad].shape)
    elif kind == "flipped":
        y[bad] = (y[bad] + g.integers(1, 10, len(bad))) % 10
    else:
        one, other = int(kind[0]), int(kind[6])
        bad = np.flatnonzero((y == one) | (y == other))
        y[bad] = one + other - y[bad]
    return x, y, bad


def recall(score: np.ndarray, bad: np.ndarray) -> float:
    """Of the bad records, the share among as many of the worst scores."""
    return len(np.intersect1d(np.argsort(-score)[: len(bad)], bad)) / len(bad)


def points(base: Pair, public: np.ndarray, seeds: list[int], sizes: list[int]) -> None:
    design = SketchDesign.around(public).labelled(10)
    found = defaultdict(list)
    for seed in seeds:
        g = np.random.default_rng(seed)
        pick = g.permutation(len(base[0]))
        at = pick[OWN : OWN + max(sizes)]
        sketches = {(n, e): made(base[0][at[:n]], base[1][at[:n]], e, design) for n in sizes for e in EPSILONS}
        held = Labelled.of(base[0][at[:2000]], base[1][at[:2000]], "V")
        for kind in KINDS:
            x, y, bad = spoiled(kind, (base[0][pick[:OWN]], base[1][pick[:OWN]]), g)
            own = Labelled.of(x, y, "A")
            for (n, e), sketch in sketches.items():
                found[f"sketch of {n}, ε = {e:g}", kind].append(recall(score_by_sketch(own, sketch, design).score, bad))
            found[f"records, {len(held.x)}, no privacy", kind].append(recall(score_by_records(own, held).score, bad))
            means = np.stack([x[y == c].mean(0) for c in range(10)])
            found["baseline: distance to own class mean", kind].append(recall(((x - means[y]) ** 2).sum(1), bad))
            nearest = cdist(x, design.prototypes).min(1)
            found["baseline: distance to nearest prototype", kind].append(recall(nearest, bad))
            found["baseline: norm", kind].append(recall((x * x).sum(1), bad))
            found["chance", kind].append(len(bad) / OWN)
        print(f"seed {seed} done", flush=True)
    _print_recall(found, KINDS, len(seeds))


def labels(base: Pair, public: np.ndarray, seeds: list[int], sizes: list[int]) -> None:
    """Wrong labels found by the scores of labels, beside what they would be without noise, and without a sketch."""
    design = SketchDesign.around(public).labelled(10)
    found = defaultdict(list)
    for seed in seeds:
        g = np.random.default_rng(seed)
        pick = g.permutation(len(base[0]))
        at = pick[OWN : OWN + max(sizes)]
        sketches = {(n, e): made(base[0][at[:n]], base[1][at[:n]], e, design) for e in EPSILONS for n in sizes}
        for kind in KINDS[3:]:
            x, y, bad = spoiled(kind, (base[0][pick[:OWN]], base[1][pick[:OWN]]), g)
            own = Labelled.of(x, y, "A")
            told = {f"labels by a sketch of {n}, ε = {e:g}": meanings_by_sketch(own, sketches[n, e], design)[0]
                    for n, e in sketches}  # fmt: skip
            u, v = (clip_rows((z - design.centre) @ design.matrix, 1.0) for z in (x, base[0][at]))
            hot = np.eye(10)[base[1][at]]
            told[f"no noise, {max(sizes)} records"] = label_meanings(u, y, hot.T @ v, hot.sum(0), 0.0, 0.0)[0]
            told["baseline: no sketch"] = np.arange(10)
            # the sketch enters the scores by the meanings alone, so equal meanings have equal scores
            known: dict[bytes, float] = {}
            for name, meanings in told.items():
                if meanings.tobytes() not in known:
                    logs = label_posterior(x, y, meanings)
                    known[meanings.tobytes()] = recall(-logs[np.arange(OWN), y], bad)
                found[name, kind].append(known[meanings.tobytes()])
        print(f"seed {seed} done", flush=True)
    _print_recall(found, KINDS[3:], len(seeds))


def _print_recall(found: dict[tuple[str, str], list[float]], kinds: tuple[str, ...], seeds: int) -> None:
    print("recall," + ",".join(kinds))
    for name in dict.fromkeys(name for name, _ in found):
        cells = (f"{np.mean(found[name, kind]):.2f} ({np.std(found[name, kind]):.2f})" for kind in kinds)
        print(f"{name}," + ",".join(cells))
    print(f"{seeds} seeds; in brackets the standard deviation over seeds")


def parties(base: Pair, other: Pair, n: int, g: np.random.Generator) -> Iterator[tuple[str, Pair]]:
    """Six of varying quality, without a record in common."""
    order = g.permutation(len(base[0]))

    def some(rows: np.ndarray) -> Pair:
        return base[0][rows].copy(), base[1][rows].copy()

    cut = [order[k * n : (k + 1) * n] for k in range(4)]
    yield "clean 1", some(cut[0])
    yield "clean 2", some(cut[1])
    x, y = some(cut[2])
    k = int(0.3 * n)
    y[:k] = (y[:k] + g.integers(1, 10, k)) % 10
    yield "flipped 30 %", (x, y)
    x, y = some(cut[3])
    yield "noise 0.35", (x + 0.35 * g.standard_normal(x.shape), y)
    rest = order[4 * n :]
    weight = np.where(base[1][rest] < 3, 3.0, 1.0)
    yield "tilted", some(g.choice(rest, n, replace=False, p=weight / weight.sum()))
    rows = g.choice(len(other[0]), n, replace=False)
    yield "other set", (other[0][rows], other[1][rows])


def by_transport(held: list[Labelled], validation: Labelled, g: np.random.Generator) -> np.ndarray:
    """Shapley values of minus the exact label-aware transport cost between samples of single records."""
    few = [g.choice(len(p.x), FULL[0], replace=False) for p in held]
    at = g.choice(len(validation.x), FULL[1], replace=False)
    x, y = (np.concatenate([getattr(p, n)[i] for p, i in zip(held, few, strict=True)]) for n in "xy")
    means = np.stack([validation.x[validation.y == c].mean(0) for c in range(10)])
    cost = cdist(x, validation.x[at], "sqeuclidean")
    cost += LABEL_WEIGHT * cdist(means, means, "sqeuclidean")[y][:, validation.y[at]]
    owner = np.repeat(np.arange(len(held)), FULL[0])
    middle = validation.x.mean(0)
    empty = ((validation.x[at] - middle) ** 2).sum(1).mean()
    empty += LABEL_WEIGHT * ((means[validation.y[at]] - middle) ** 2).sum(1).mean()

    def worth(coalition: int) -> float:
        inside = cost[(coalition >> owner & 1).astype(bool)]
        if not len(inside):
            return 0.0
        plan = couple(inside, np.full(len(inside), 1 / len(inside)), np.full(FULL[1], 1 / FULL[1]))
        return 1.0 - float(plan.mass @ inside[plan.i, plan.j]) / empty

    game = CoalitionPlan.of(len(held))
    return game.values(game.worths(worth))


def by_accuracy(held: list[Labelled], validation: Labelled, g: np.random.Generator) -> np.ndarray:
    """Shapley values of the validation accuracy of a ridge classifier trained on 300 records a party."""
    few = [g.choice(len(p.x), 300, replace=False) for p in held]
    grams = []
    for party, i in zip(held, few, strict=True):
        x = np.c_[party.x[i], np.ones(len(i))]
        grams.append((x.T @ x, x.T @ np.eye(10)[party.y[i]]))
    test = np.c_[validation.x[:2000], np.ones(min(2000, len(validation.x)))]

    def worth(coalition: int) -> float:
        inside = [gram for k, gram in enumerate(grams) if coalition >> k & 1]
        if not inside:
            return 0.1
        left, right = (sum(parts) for parts in zip(*inside, strict=True))
        weights = np.linalg.solve(left + 10.0 * np.eye(len(left)), right)
        return float(((test @ weights).argmax(1) == validation.y[:2000]).mean())

    game = CoalitionPlan.of(len(held))
    return game.values(game.worths(worth))


def ranks(base: Pair, other: Pair, public: np.ndarray, seeds: list[int], sizes: list[int]) -> None:
    design = SketchDesign.around(public).labelled(10)
    for n in sizes:
        agree, means = defaultdict(list), defaultdict(list)
        names: list[str] = []
        for seed in seeds:
            g = np.random.default_rng(seed)
            order = g.permutation(len(base[0]))
            validation = Labelled.of(base[0][order[:5000]], base[1][order[:5000]], "V")
            rest = order[5000:]
            made_of = dict(parties((base[0][rest], base[1][rest]), other, n, g))
            names = list(made_of)
            held = [Labelled.of(*pair, name) for name, pair in made_of.items()]
            truth = value_records(held, validation).value
            against = {"records": truth, "transport": by_transport(held, validation, g)}
            against["accuracy"] = by_accuracy(held, validation, g)
            means["records"].append(truth)
            for what in ("transport", "accuracy"):
                means[what].append(against[what])
                agree["records", what].append(spearmanr(truth, against[what]).statistic)
            agree["transport", "accuracy"].append(spearmanr(against["transport"], against["accuracy"]).statistic)
            for e in EPSILONS:
                sketches = [made(p.x, p.y, e, design) for p in held]
                hub = made(validation.x, validation.y, e, design)
                found = value_sketches(sketches, hub, draws=0).value
                means[f"ε = {e:g}"].append(found)
                for what, values in against.items():
                    agree[f"ε = {e:g}", what].append(spearmanr(found, values).statistic)
            print(f"seed {seed} done", flush=True)
        print(f"{n} records a party, 5000 for validation, {len(seeds)} seeds; mean values (and deviations)")
        print("values from," + ",".join(names))
        for name, values in means.items():
            cells = zip(np.mean(values, 0), np.std(values, 0), strict=True)
            print(f"{name}," + ",".join(f"{mean:.3f} ({spread:.3f})" for mean, spread in cells))
        print("rank correlation of,with,mean,least")
        for (one, what), values in agree.items():
            print(f"{one},{what},{np.mean(values):.2f},{np.min(values):.2f}")


def coverage(base: Pair, other: Pair, public: np.ndarray, repeats: int, n: int = 1000) -> None:
    """How often 95 % intervals hold what the sketches would say without noise, and how many pairs they decide."""
    design = SketchDesign.around(public).labelled(10)
    g = np.random.default_rng(7)
    order = g.permutation(len(base[0]))
    rest = order[5000:]
    some = dict(parties((base[0][rest], base[1][rest]), other, n, g))
    held = [some[name] for name in ("clean 1", "flipped 30 %", "noise 0.35", "tilted")]
    hub = base[0][order[:5000]], base[1][order[:5000]]
    calm = [made(*pair, 300.0, design) for pair in (*held, hub)]
    truth = value_sketches(calm[:-1], calm[-1], draws=0).value
    apart = np.sign(truth[:, None] - truth)
    print("epsilon,repeats,coverage,mean width,pairs decided,decided wrongly")
    for e in EPSILONS:
        inside, width, decided, wrong = [], [], [], []
        for _ in range(repeats):
            noisy = [made(*pair, e, design) for pair in (*held, hub)]
            found = value_sketches(noisy[:-1], noisy[-1])
            inside.append((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1]))
            width.append(found.interval[:, 1] - found.interval[:, 0])
            upper = np.triu_indices(len(truth), 1)
            sign = np.sign(found.value[:, None] - found.value)
            decided.append(found.decided[upper])
            wrong.append((found.decided & (sign != apart))[upper])
        print(
            f"{e:g},{repeats},{np.mean(inside):.3f},{np.mean(width):.3f},{np.mean(decided):.2f},{np.mean(wrong):.3f}",
            flush=True,
        )


def synthetic(repeats: int) -> None:
    """The same without public data, where the second party is a copy of the first and the third one is noisy."""
    g = np.random.default_rng(0)
    print("classes,columns,records,validation,epsilon,coverage by party,copies decided,noisy decided wrongly")
    for classes, dim, n, many, e in (
        (3, 8, 1000, 2000, 1.0),
        (3, 8, 1000, 2000, 0.3),
        (10, 20, 500, 500, 5.0),
        (10, 20, 500, 500, 1.0),
        (10, 20, 500, 500, 0.5),
    ):
        middle = np.clip(g.normal(0.5, 0.25, size=(classes, dim)), 0, 1)
        design = SketchDesign.box(dim, 0.0, 1.0).labelled(classes)
        first, third, hub = (
            (np.clip(middle[y] + g.normal(0, 0.1, size=(len(y), dim)), 0, 1), y)
            for y in (g.integers(0, classes, size) for size in (n, n, many))
        )
        noisy = np.clip(third[0] + g.normal(0, 0.3, size=third[0].shape), 0, 1), third[1]
        held = [first, (first[0][::-1].copy(), first[1][::-1].copy()), noisy, hub]
        calm = [made(*pair, 200.0, design) for pair in held]
        truth = value_sketches(calm[:-1], calm[-1], draws=0).value
        inside, copies, wrong = [], [], []
        for _ in range(repeats):
            drawn = [made(*pair, e, design) for pair in held]
            found = value_sketches(drawn[:-1], drawn[-1])
            inside.append((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1]))
            copies.append(found.decided[0, 1])
            wrong.append(found.decided[0, 2] and (found.value[0] > found.value[2]) != (truth[0] > truth[2]))
        by_party = " ".join(f"{share:.2f}" for share in np.mean(inside, 0))
        print(f"{classes},{dim},{n},{many},{e:g},{by_party},{np.mean(copies):.2f},{np.mean(wrong):.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=("points", "labels", "parties", "coverage", "synthetic"))
    parser.add_argument("--set", default="mnist", choices=("mnist", "fashion_mnist"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(100, 105)))
    parser.add_argument("--validation", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--records", type=int, nargs="+", default=[1000])
    parser.add_argument("--repeats", type=int, default=40)
    said = parser.parse_args()
    if said.what == "synthetic":
        return synthetic(said.repeats)
    base, public = images(said.data, said.set, "train"), images(said.data, said.set, "test")[0][:2000]
    other = images(said.data, "fashion_mnist" if said.set == "mnist" else "mnist", "train")
    if said.what == "points":
        points(base, public, said.seeds, said.validation)
    elif said.what == "labels":
        labels(base, public, said.seeds, said.validation)
    elif said.what == "parties":
        ranks(base, other, public, said.seeds, said.records)
    else:
        coverage(base, other, public, said.repeats)


if __name__ == "__main__":
    main()
