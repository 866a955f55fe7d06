"""How the outermost group of a column of numbers decays, from noisy counts of its cells; it sees no record.

Few records lie far out, so single counts there are mostly noise, and noise in a far cell is multiplied by a far value:
means would follow it. So the group has a law with two numbers, the generalised Pareto law of excesses t over the
group's start (Balkema & de Haan 1974; Pickands 1975), cut off at the end of the range,

    S(t) = (1 + ξ·t/β)^(−1/ξ),     S(t) = exp(−t/β) for ξ = 0,

which is nearly even for a large β. All pairs (ξ, β) of a public list are weighed by how well they explain the noisy
counts, times a prior, and the shares are the mean over them (Bayes): where counts say nothing, the prior speaks. It
prefers light tails, and a density at the group's start that is near that of the group before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SHAPES = ((0.0, 0.55), (0.25, 0.3), (0.5, 0.12), (0.75, 0.03))
"""ξ and its prior weight: light tails first; with ξ ≥ 1 there would be no mean."""
SCALES = 2.0 ** np.arange(-16.0, 3.0, 0.5)
"""β as shares of the group's length; longer ones are the less likely beforehand the further out they reach."""
REACH = 1.0
"""The prior weight of β is β to minus this power where nothing is known of the density before the group."""
JUMP = 1.0
"""The deviation of the logarithm of the density from that of the group before."""


class TailLaw:
    """The mean of the laws that explain noisy `counts` of the cells between `ends`, which rise from 0.

    `density` is that of the records before the group's start, in records per unit of length. `records` is what is known
    of the number of records in the group besides these counts, and the deviation of that: a law that puts them where
    they were not counted is refuted by it.
    """

    def __init__(
        self,
        ends: Floats,
        counts: Floats,
        sd: float,
        density: float | None = None,
        records: tuple[float, float] | None = None,
    ) -> None:
        self.length = float(ends[-1])
        parts = np.diff(self._below(ends), axis=-1)
        # A, the number of records: normal beforehand, or anything; most cells are noise, and say nothing of it
        expected, certain = (0.0, 0.0) if records is None else (records[0], 1.0 / max(records[1], 1e-9) ** 2)
        precision = np.square(parts).sum(axis=-1) / sd**2 + certain
        total = np.maximum(((parts @ counts) / sd**2 + expected * certain) / precision, 1.0)[..., None]
        gap = (np.square(counts - total * parts) / sd**2).sum(axis=-1) + certain * np.square(total[..., 0] - expected)
        score = -0.5 * gap + np.log([weight for _, weight in SHAPES])[:, None]
        if records is not None:
            score -= 0.5 * np.log(precision)
        if density is not None and density > 0.0:
            first = total[..., 0] / (SCALES * self.length * -np.expm1(-1.0 / SCALES))
            score -= 0.5 * np.square(np.log(first / density) / JUMP)
        else:
            score -= REACH * np.log(SCALES)
        weight = np.exp(score - score.max())
        self.evidence = float(score.max() + np.log(weight.mean()))
        """The logarithm of how well all laws together explain the counts, up to a constant."""
        self.weight = weight / weight.sum()
        self.scale = self.length * float(np.exp(np.sum(self.weight * np.log(SCALES))))
        """A typical β."""

    def below(self, at: Floats) -> Floats:
        """The share of the group that lies below each of `at`."""
        out: Floats = np.einsum("sb,sbt->t", self.weight, self._below(at))
        return out

    def _below(self, at: Floats) -> Floats:
        """The same of every law, of shape (ξ, β, at)."""
        out = np.empty((len(SHAPES), len(SCALES), len(at)))
        for place, (shape, _) in enumerate(SHAPES):
            far = at / (SCALES[:, None] * self.length)
            whole = 1.0 / SCALES[:, None]
            if shape == 0.0:
                out[place] = np.expm1(-far) / np.expm1(-whole)
            else:
                power = -1.0 / shape
                out[place] = np.expm1(power * np.log1p(shape * far)) / np.expm1(power * np.log1p(shape * whole))
        return out
