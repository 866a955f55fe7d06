"""Renders docs/results/stand-in.md from the results that are there; what was not measured is left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adult_split
import numpy as np
import pairs

SEEDS = 5
Results = Sequence[dict[str, Any]]
NAMES = {
    "source": "source only", "embedding": "`embedding`", "sliced": "`sliced`", "stand-in": "**`stand-in`**",
    "real": "the same adaptation on the real target (no privacy)", "labels": "labels of the target (no privacy)",
    "boosting-source": "boosting, source only", "boosting-labels": "boosting, labels of the target (no privacy)",
}  # fmt: skip
TITLES = {
    "fonts-mnist": "fonts→MNIST", "fonts-usps": "fonts→USPS", "usps-mnist": "USPS→MNIST", "mnist-usps": "MNIST→USPS",
    "mnist-digits8": "MNIST→digits", "adult-education": "by education", "adult-work": "by employer",
}  # fmt: skip


def _pick(results: Results, pair: str, method: str, epsilon: float | None) -> list[float]:
    same = {"pair": pair, "method": method, "epsilon": epsilon}
    return [r["score"] for r in results if all(r[name] == value for name, value in same.items())]


def _cell(values: list[float]) -> str:
    """Mean ± standard deviation, and the number of seeds if it is not five."""
    if not values:
        return "–"
    spread = f" ± {np.std(values):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}" + ("" if len(values) == SEEDS else f" ({len(values)})")


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _seeds(results: Results) -> str:
    count = len({r["seed"] for r in results})
    return "one seed" if count == 1 else f"mean ± standard deviation over {count} seeds"


def page(results: Results, prose: str) -> str:
    """The whole page; `prose` is what stands at its head."""
    found = [r for r in results if not r["changed"]]
    large = [r for r in found if r["pair"] not in pairs.SHOWN or r["device"] == "cuda"]
    parts = [digits(large), curve(large), cores(found), office(found), adult(found)]
    parts = [prose.rstrip(), *filter(None, parts)]
    return "\n\n".join(parts) + "\n"


def digits(results: Results) -> str:
    """Accuracy at ε = 1, a column per pair."""
    shown = [p for p in pairs.SHOWN if _pick(results, p, "stand-in", 1.0)]
    if not shown:
        return ""
    lines = [
        [NAMES[m], *[_cell(_pick(results, p, m, epsilon)) for p in shown]]
        for m, epsilon in (
            ("source", None), ("embedding", 1.0), ("sliced", 1.0), ("stand-in", 1.0), ("real", None), ("labels", None),
        )
    ]  # fmt: skip
    mine = [r for r in results if r["pair"] in shown]
    sizes = {p: next(r["target_records"] for r in mine if r["pair"] == p) for p in shown}
    told = ", ".join(f"{TITLES[p]} {sizes[p]:,}" for p in shown)
    return (
        f"## Digits, (1, 1e-5), replace-one\n\n    python benchmarks/stand_in run --data DIR --out RESULTS "
        f"--jobs 6\n\nAccuracy in % on the target's test set; mean ± standard deviation over {SEEDS} seeds, or over "
        f"the number in brackets. One H200. Target records: {told}. scikit-learn's digits are 8 × 8, and the source is "
        "brought to that form as they were made: cut to the ink, 32 × 32, black and white, ink counted in squares of "
        "4.\n\n" + _table(["", *[TITLES[p] for p in shown]], lines)
    )


def curve(results: Results) -> str:
    """The stand-in against ε."""
    mine = [r for r in results if r["pair"] in pairs.SHOWN and r["method"] == "stand-in"]
    terms = sorted({r["epsilon"] for r in mine}, reverse=True)
    if len(terms) < 2:
        return ""
    shown = [p for p in pairs.SHOWN if _pick(mine, p, "stand-in", terms[0])]
    lines = [[f"{e:g}", *[_cell(_pick(mine, p, "stand-in", e)) for p in shown]] for e in terms]
    return (
        "## Accuracy against ε\n\nThe same command; numbers in brackets are seeds. Dotted: source only.\n\n"
        + _table(["ε", *[TITLES[p] for p in shown]], lines)
        + "\n\n![Accuracy of the stand-in against ε](images/stand-in.png)"
    )


def draw_curve(results: Results, path: Path) -> None:
    """The picture of `curve`: accuracy against ε, and the source alone as a level."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = [r for r in results if not r["changed"] and r["device"] == "cuda"]
    figure, axes = pyplot.subplots(figsize=(6, 3.8))
    for place, p in enumerate(pairs.SHOWN):
        terms = sorted({r["epsilon"] for r in found if r["pair"] == p and r["method"] == "stand-in"})
        means = [np.mean(_pick(found, p, "stand-in", e)) for e in terms]
        axes.semilogx(terms, means, "o-", color=f"C{place}", label=TITLES[p])
        axes.axhline(np.mean(_pick(found, p, "source", None)), color=f"C{place}", linestyle=":", linewidth=1)
    axes.set_xticks([0.1, 0.3, 1, 10], ["0.1", "0.3", "1", "10"])
    axes.minorticks_off()
    axes.set_xlabel("ε (δ = 1e-5, replace-one)")
    axes.set_ylabel("accuracy in %")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def cores(results: Results) -> str:
    """What two cores of a CPU do in the time that people wait."""
    mine = [r for r in results if r["pair"] in pairs.SHOWN and r["method"] == "stand-in" and r["device"] == "cpu"]
    if not mine:
        return ""
    lines = [
        [TITLES[r["pair"]], f"{r['epsilon']:g}", str(r["seed"]), f"{r['score']:.1f}", f"{r['seconds']:.0f} s",
         f"{r['processor_seconds']:.0f} s"]
        for r in mine
    ]  # fmt: skip
    return (
        "## On two cores\n\n    python benchmarks/stand_in run --data DIR --out RESULTS --pairs fonts-usps --methods "
        "stand-in --epsilons 1 --seeds 0 --device cpu\n\nNothing else ran on the machine. Where there is no GPU "
        "the same network is trained with fewer steps, smaller batches and one member.\n\n"
        + _table(["pair", "ε", "seed", "accuracy in %", "time that passed", "time of processors"], lines)
    )


def office(results: Results) -> str:
    """Twelve pairs, the stand-in beside the source alone."""
    shown = [p for p in pairs.OFFICE if _pick(results, p, "source", None)]
    if not shown:
        return ""
    terms = sorted({r["epsilon"] for r in results if r["pair"] in shown and r["epsilon"]}, reverse=True)
    lines = []
    for p in shown:
        a, b = (word[0].upper() for word in p.split("-")[1:])
        held = [_cell(_pick(results, p, "stand-in", e)) for e in terms]
        lines.append([f"{a}→{b}", _cell(_pick(results, p, "source", None)), *held])
    means = [np.mean([v for p in shown for v in _pick(results, p, "source", None)])]
    means += [np.mean([v for p in shown for v in _pick(results, p, "stand-in", e)]) for e in terms]
    lines.append(["mean", *[f"{value:.1f}" for value in means]])
    return (
        f"## Office-Caltech features, twelve pairs, δ = 1e-3, replace-one\n\n"
        f"    python benchmarks/stand_in run --data DIR --out RESULTS --pairs office --methods source,stand-in\n\n"
        f"Accuracy in % on the half of the target that is held out; mean ± standard deviation over {SEEDS} seeds.\n\n"
        + _table(["", "source only", *[f"`stand-in`, ε = {e:g}" for e in terms]], lines)
    )


def adult(results: Results) -> str:
    """ROC-AUC of the splits of Adult."""
    shown = [p for p in adult_split.SHOWN if _pick(results, p, "source", None)]
    if not shown:
        return ""
    mine = [r for r in results if r["pair"] in shown]
    terms = sorted({r["epsilon"] for r in mine if r["epsilon"]}, reverse=True)
    rows = [("source", None), *[("stand-in", e) for e in terms], ("real", None), ("labels", None)]
    rows += [("boosting-source", None), ("boosting-labels", None)]
    lines = []
    for method, epsilon in rows:
        name = NAMES[method] + ("" if epsilon is None else f", ε = {epsilon:g}")
        values = [_pick(mine, p, method, epsilon) for p in shown]
        if any(values):
            lines.append([name, *[_fine(held) for held in values]])
    some = {p: next(r for r in mine if r["pair"] == p) for p in shown}
    told = "; ".join(
        f"{TITLES[p]} {r['source_records']:,} source, {r['target_records']:,} target, {r['test_records']:,} test"
        for p, r in some.items()
    )
    return (
        "## A table: Adult with a shifted target, δ = 1e-5, replace-one\n\n"
        "    python benchmarks/stand_in run --data DIR --out RESULTS --pairs adult --methods "
        "source,stand-in,real,labels,boosting-source,boosting-labels --epsilons 1 --seeds 0,1,2 --device cpu\n\n"
        f"ROC-AUC in % on the target's rows of the test file; {_seeds(mine)}. By education the target has a Bachelor's "
        "degree or more, by employer it is not employed privately; the columns that would tell are left out of both "
        f"tables. Records: {told}.\n\n" + _table(["", *[TITLES[p] for p in shown]], lines)
    )


def _fine(values: list[float]) -> str:
    return "–" if not values else f"{np.mean(values):.2f} ± {np.std(values):.2f}"
