"""A transport plan in the form solvers leave it, scalings around a kernel, and its products; it solves nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FactoredPlan:
    """P = diag(left) K diag(right) for B problems, with its row sums (B, n) and column sums (B, m)."""

    left: Tensor
    kernel: Tensor
    right: Tensor
    rows: Tensor
    columns: Tensor

    def matrix(self) -> Tensor:
        """P itself, (B, n, m)."""
        return (self.kernel * self.left[:, :, None]).mul_(self.right[:, None, :])

    def times(self, points: Tensor) -> Tensor:
        """P·points, for points (B, m, d)."""
        return product(self.kernel, points * self.right[:, :, None]).mul_(self.left[:, :, None])

    def turned(self) -> FactoredPlan:
        """Pᵀ."""
        return FactoredPlan(self.right, self.kernel.transpose(1, 2), self.left, self.columns, self.rows)


@dataclass(frozen=True)
class Solution:
    """Potentials f (B, n) and g (B, m), the marginal error they reached, the sweeps it took, the plan if held."""

    f: Tensor
    g: Tensor
    error: float
    sweeps: int
    plan: FactoredPlan | None = None


def product(left: Tensor, right: Tensor) -> Tensor:
    """left·right of each problem; a single one as a plain product, which CPUs do much faster."""
    if left.shape[0] == 1:
        return torch.mm(left[0], right[0])[None]
    return torch.bmm(left, right)
