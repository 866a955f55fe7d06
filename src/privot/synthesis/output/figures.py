"""Draws samples and training curves as PNG bytes; it sees what was released only."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from privot.report.image_grid import draw_grid

__all__ = ["draw_curve", "draw_grid"]


def draw_curve(losses: Sequence[float], name: str) -> bytes:
    """The watched quantity `name`, step by step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(1, len(losses) + 1), losses, linewidth=1.0)
    axes.set_xlabel("step")
    axes.set_ylabel(name)
    if losses and min(losses) > 0.0:
        axes.set_yscale("log")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
