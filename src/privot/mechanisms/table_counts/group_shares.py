"""p(y | x) as an additive law of the groups that a row's columns lie in; plain arrays, which workers can be sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupShares:
    """p(k | x) ∝ exp(b_k + Σ_f θ[s_f + code_f(x), k]), each feature f a few columns, by groups or by blocks of groups.

    `features` names columns; ~c stands for the blocks of column c. `blocks` gives the block of every group of a column.
    What is said of a row is computed from that row alone, in one fixed order of additions.
    """

    features: tuple[tuple[int, ...], ...]
    blocks: tuple[NDArray[np.int64], ...]
    theta: Floats
    bias: Floats

    def probabilities(self, groups: NDArray[np.int64]) -> Floats:
        """(rows, classes), from the group of every row in every column."""
        logits = np.zeros((len(groups), self.theta.shape[1]))
        # how many groups, or blocks of them, a column has: features share columns
        widths = {c: self._width(c) for c in {c for feature in self.features for c in feature}}
        start = 0
        for feature in self.features:
            code = np.zeros(len(groups), dtype=np.int64)
            for c in feature:
                code *= widths[c]
                code += groups[:, c] if c >= 0 else self.blocks[~c][groups[:, ~c]]
            # as a product with one-hot rows adds them, without building those rows
            logits += self.theta[start + code]
            start += math.prod(widths[c] for c in feature)
        return shares(logits + self.bias)

    def _width(self, column: int) -> int:
        return len(self.blocks[column]) if column >= 0 else int(self.blocks[~column].max()) + 1


def shares(logits: Floats) -> Floats:
    """exp(logits), each row divided by its sum."""
    weight: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    return weight
