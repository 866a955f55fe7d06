"""Panels of lines in a file, as studies draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privot.report.chart_files import new_figure, save_figure

Line = tuple[str, Sequence[float], Sequence[float | None], str]
"""Label, x, y (None where infinite), and a matplotlib line style."""


def draw_panels(
    panels: Sequence[tuple[str, Sequence[Line]]], out: Path, *, x: str, y: str, scales: Mapping[str, str] | None = None
) -> Path:
    """Panels side by side, each with its title and lines."""
    figure, axes = new_figure(1, len(panels), (4.4 * len(panels), 3.8))
    for (title, lines), axis in zip(panels, axes[0], strict=True):
        for label, xs, ys, style in lines:
            points: list[tuple[float, Any]] = [(a, b) for a, b in zip(xs, ys, strict=True) if b is not None]
            if points:
                axis.plot(*zip(*points, strict=True), style, label=label)
        axis.set(title=title, xlabel=x, ylabel=y, **(scales or {}))
        axis.grid(True, which="both", alpha=0.25)
        # below the axes, where it covers no line
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    save_figure(figure, out, dpi=130)
    return out


def finite(value: float) -> float | None:
    """`value`, or None if it is infinite, which JSON and charts cannot hold."""
    return value if abs(value) < float("inf") else None
