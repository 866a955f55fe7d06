"""Line charts of studies; matplotlib is loaded only here."""

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
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4.4 * len(panels), 3.8), layout="constrained", squeeze=False
    )
    for (title, lines), axis in zip(panels, axes[0], strict=True):
        for label, xs, ys, style in lines:
            points: list[tuple[float, Any]] = [(a, b) for a, b in zip(xs, ys, strict=True) if b is not None]
            if points:
                axis.plot(*zip(*points, strict=True), style, label=label)
        axis.set(title=title, xlabel=x, ylabel=y, **(scales or {}))
        axis.grid(True, which="both", alpha=0.25)
        axis.legend(fontsize=7)
    try:
        figure.savefig(out, dpi=130)
    except OSError as error:
        raise DataError(f"The chart cannot be written to {out} ({error.strerror}).") from None
    finally:
        pyplot.close(figure)
    return out


def finite(value: float) -> float | None:
    """`value`, or None where it is infinite: what JSON and a chart can say."""
    return value if abs(value) < float("inf") else None
