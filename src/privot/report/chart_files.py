"""Charts in files: new figures, their endings, and saving. matplotlib is loaded only when a chart is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError


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


def check_ending(out: Path) -> None:
    """Refuse a chart with an ending that cannot be drawn."""
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UsageError(f"A chart must be a .png, .svg or .pdf file, got {out.suffix or 'a name without ending'!r}.")
