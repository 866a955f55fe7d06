"""How much an attack recovered: shares of records, PSNR, and a grid of images. It compares arrays only."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.statistics.epsilon_bounds import rate_above, rate_below
from privot.audit.statistics.one_to_one import assignment

Array = NDArray[np.float64]

EXACT = 1e-6
"""Largest error, as a share of the range, of a record that counts as recovered exactly."""
CLEAR = 20.0
"""PSNR in dB from which an image counts as clearly recovered."""


@dataclass(frozen=True)
class Recovery:
    """The recovery of `records` records, with a 95 % interval for the share recovered exactly."""

    name: str
    exact: float
    exact_interval: tuple[float, float]
    clear: float
    psnr: float
    records: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; PSNR of a perfect copy is written as 400."""
        return {
            "kind": "recovery",
            "name": self.name,
            "exact": self.exact,
            "exact_interval": list(self.exact_interval),
            "clear": self.clear,
            "psnr": self.psnr,
            "records": self.records,
        }


def psnr(guess: Array, truth: Array, span: float) -> Array:
    """10·log₁₀(span²/mean squared error) of each row, at most 400 dB."""
    squared = ((guess - truth) ** 2).mean(1)
    return np.asarray(np.minimum(10.0 * np.log10(span**2 / np.maximum(squared, 1e-300)), 400.0))


def is_exact(guess: Array, truth: Array, span: float) -> NDArray[np.bool_]:
    """Whether each row was recovered exactly: every number up to EXACT of the range."""
    return np.asarray(np.abs(guess - truth).max(1) <= EXACT * span)


def judge(name: str, guess: Array, truth: Array, span: float, *, ordered: bool = True) -> Recovery:
    """Compare guesses with the true records, in order or (`ordered` False) by the best one-to-one match."""
    if not ordered:
        guess = guess[assignment(truth, guess)]
    values = psnr(guess, truth, span)
    exact = int(is_exact(guess, truth, span).sum())
    count = len(truth)
    interval = (float(rate_below(exact, count, 0.025)), float(rate_above(exact, count, 0.025)))
    return Recovery(name, exact / count, interval, float((values >= CLEAR).mean()), float(np.median(values)), count)


def draw_recoveries(rows: list[tuple[str, Array]], shape: tuple[int, ...], low: float, high: float) -> bytes:
    """A PNG with one line of images per (title, records): the first ten of each."""
    from matplotlib.figure import Figure

    shown = 10
    figure = Figure(figsize=(shown * 0.9, len(rows) * 1.15))
    axes = figure.subplots(len(rows), shown, squeeze=False)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=1.0 - 0.3 / len(rows), wspace=0.05, hspace=0.35)
    for line, (title, pictures) in zip(axes, rows, strict=True):
        for axis in line:
            axis.set_axis_off()
        for axis, picture in zip(line, pictures[:shown], strict=False):
            unit = np.clip((picture.reshape(shape) - low) / (high - low), 0.0, 1.0)
            axis.imshow(unit, cmap="gray", vmin=0.0, vmax=1.0)
        line[0].text(0.0, 1.06, title, fontsize=8, transform=line[0].transAxes)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
