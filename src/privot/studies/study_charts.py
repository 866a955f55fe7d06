"""Charts in files: new figures, saving, and panels of lines. matplotlib is loaded only when a chart is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privot.errors import DataError

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


def new_figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and its axes, (rows, columns); no window is opened."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)


def save_figure(figure: Any, out: Path, dpi: int = 150) -> None:
    """Write `figure` to `out` and close it."""
    from matplotlib import pyplot

    try:
        figure.savefig(out, dpi=dpi)
    except OSError as error:
        raise DataError(f"The chart cannot be written to {out} ({error.strerror}).") from None
    finally:
        pyplot.close(figure)


def finite(value: float) -> float | None:
    """`value`, or None if it is infinite, which JSON and charts cannot hold."""
    return value if abs(value) < float("inf") else None
