"""Charts of benchmarks: time and memory against the number of points."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privot.report.chart_files import check_ending, new_figure, save_figure


def draw_benchmark(found: dict[str, Any], out: Path) -> None:
    """Seconds against points, one panel per job, one line per library."""
    jobs = list(dict.fromkeys(row["job"] for row in found["rows"]))
    figure, panels = new_figure(1, len(jobs), (6.0 * len(jobs), 4.5))
    for job, axes in zip(jobs, panels[0], strict=True):
        rows = [row for row in found["rows"] if row["job"] == job and row["seconds"]]
        for who in dict.fromkeys(row["who"] for row in rows):
            line = [(row["n"], row["seconds"]) for row in rows if row["who"] == who]
            style = {"privot": "-", "floor": ":"}.get(who, "--")
            axes.plot(*zip(*line, strict=True), style, marker="o", markersize=4, label=who)
        axes.set(xscale="log", yscale="log", xlabel="points per side", ylabel="seconds, value and gradient", title=job)
        axes.grid(True, which="both", alpha=0.25)
        axes.legend()
    figure.suptitle(found["device"], fontsize=10)
    save_figure(figure, out)


def draw_growth(found: dict[str, Any], out: Path) -> None:
    """Time and memory against the number of points, beside the growth they should have."""
    check_ending(out)
    sizes = [row["n"] for row in found["rows"]]
    panels: list[tuple[str, str, Callable[[int], float], str]] = [
        ("sliced", "seconds, value and gradient", lambda n: n * math.log(n), "n·log n"),
        ("sinkhorn_an_iteration", "seconds per iteration, streamed Sinkhorn", lambda n: n * n, "n²"),
        ("sinkhorn_bytes", "bytes beyond the points, streamed Sinkhorn", lambda n: n, "n"),
    ]
    figure, boxes = new_figure(1, 3, (14.0, 4.2))
    for (key, label, law, name), axes in zip(panels, boxes[0], strict=True):
        values = [row[key] for row in found["rows"]]
        if values[-1] is not None:
            axes.plot(sizes, values, marker="o", label="measured")
            axes.plot(
                sizes, [values[-1] * law(n) / law(sizes[-1]) for n in sizes], "--", color="0.5", label=f"as {name}"
            )
            axes.legend()
        axes.set(xscale="log", yscale="log", xlabel="points per side", ylabel=label)
        axes.grid(True, which="both", alpha=0.25)
    figure.suptitle(f"{found['device']}, {found['slices']} slices", fontsize=10)
    save_figure(figure, out)
