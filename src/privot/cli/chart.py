"""Charts the command line draws; matplotlib is loaded only here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from privot.accounting.comparison import Comparison
from privot.errors import DataError, UsageError
from privot.guarantee import Standing

_LINES = {Standing.PROVEN: "-", Standing.ASYMPTOTIC: "--", Standing.UNPROVEN: ":"}


def draw_comparison(comparison: Comparison, out: Path) -> None:
    """ε against σ, one line an accountant, dashed where it is no bound."""
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageError(f"A chart is drawn as .png, .svg or .pdf, not as {out.suffix or 'a file without ending'!r}.")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 5.0), layout="constrained")
    for curve in comparison.curves:
        points = [(s, e) for s, e in zip(comparison.sigmas, curve.epsilons, strict=True) if math.isfinite(e) and e > 0]
        if points:
            label = f"{curve.name} ({curve.standing})"
            axes.plot(*zip(*points, strict=True), _LINES[curve.standing], marker="o", markersize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="σ, standard deviation of the noise")
    axes.set_ylabel(f"ε at δ = {comparison.delta:g}, {comparison.adjacency}")
    axes.set_title(f"{comparison.steps} steps, sampling: {comparison.sampling}", fontsize=10)
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    _save(figure, out)


def _save(figure: Any, out: Path) -> None:
    from matplotlib import pyplot

    try:
        figure.savefig(out, dpi=150)
    except OSError as error:
        raise DataError(f"The chart cannot be written to {out} ({error.strerror}).") from None
    finally:
        pyplot.close(figure)


def draw_benchmark(found: dict[str, Any], out: Path) -> None:
    """Seconds against points, one panel a job, one line for each who did it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    jobs = list(dict.fromkeys(row["job"] for row in found["rows"]))
    figure, panels = pyplot.subplots(1, len(jobs), figsize=(6.0 * len(jobs), 4.5), layout="constrained", squeeze=False)
    for job, axes in zip(jobs, panels[0], strict=True):
        rows = [row for row in found["rows"] if row["job"] == job and row["seconds"]]
        for who in dict.fromkeys(row["who"] for row in rows):
            line = [(row["n"], row["seconds"]) for row in rows if row["who"] == who]
            style = {"privot": "-", "floor": ":"}.get(who, "--")
            axes.plot(*zip(*line, strict=True), style, marker="o", markersize=4, label=who)
        axes.set(xscale="log", yscale="log", xlabel="points a side", ylabel="seconds, value and gradient", title=job)
        axes.grid(True, which="both", alpha=0.25)
        axes.legend()
    figure.suptitle(found["device"], fontsize=10)
    _save(figure, out)
