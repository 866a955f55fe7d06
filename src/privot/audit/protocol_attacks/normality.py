"""How Gaussian the numbers of a message look, with a histogram: what looks like noise need not hide anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kurtosis, norm, normaltest, skew

SAMPLE = 500
"""Numbers per test: of millions any test rejects the smallest departure."""
BINS = 41
WIDE = 4.0
"""Standard deviations that a histogram covers on either side."""


@dataclass(frozen=True)
class Normality:
    """All numbers of one array, standardised, beside the standard normal law.

    `distance` is the largest gap of the distribution functions (Kolmogorov's), over all numbers. `p_value` is that of
    D'Agostino and Pearson's test of skewness and kurtosis on `SAMPLE` numbers drawn at random; numbers of one record
    are not independent, so it is a measure, not a proof.
    """

    name: str
    distance: float
    skewness: float
    excess_kurtosis: float
    p_value: float
    histogram: tuple[int, ...]
    """Counts in `BINS` equal bins from −`WIDE` to `WIDE` standard deviations."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(self), "histogram": list(self.histogram)}


def normality(name: str, values: NDArray[np.float64], seed: int = 0) -> Normality:
    """Compare the numbers of `values` with a normal law of their own mean and deviation.

    >>> found = normality("dice", np.random.default_rng(0).standard_normal((100, 100)))
    >>> found.distance < 0.02, found.p_value > 0.01
    (True, True)
    """
    flat = np.sort(np.asarray(values, dtype=np.float64).ravel())
    deviation = float(flat.std())
    if not deviation > 0.0:
        return Normality(name, 0.5, 0.0, 0.0, 0.0, (0,) * BINS)
    flat = (flat - flat.mean()) / deviation
    below = norm.cdf(flat)
    steps = np.arange(1, len(flat) + 1) / len(flat)
    gap = max(float(np.abs(steps - below).max()), float(np.abs(steps - 1.0 / len(flat) - below).max()))
    drawn = np.random.default_rng(seed).choice(flat, min(SAMPLE, len(flat)), replace=False)
    p_value = float(normaltest(drawn).pvalue) if len(drawn) >= 20 and np.ptp(drawn) > 0.0 else 0.0
    counts = np.histogram(flat, BINS, (-WIDE, WIDE))[0]
    return Normality(name, gap, float(skew(flat)), float(kurtosis(flat)), p_value, tuple(int(c) for c in counts))


def draw_histograms(found: list[Normality]) -> bytes:
    """A PNG: one panel per array, its histogram and the normal density."""
    import io

    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(found), 2.6), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    edges = np.linspace(-WIDE, WIDE, BINS + 1)
    middles = (edges[:-1] + edges[1:]) / 2.0
    for axis, each in zip(axes, found, strict=True):
        counts = np.array(each.histogram, dtype=np.float64)
        axis.bar(middles, counts / max(counts.sum() * (edges[1] - edges[0]), 1e-300), width=edges[1] - edges[0])
        axis.plot(middles, norm.pdf(middles), "k-", linewidth=1.0)
        axis.set_title(f"{each.name}\nlargest gap {each.distance:.3f}, p = {each.p_value:.2g}", fontsize=7)
        axis.tick_params(labelsize=6)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
