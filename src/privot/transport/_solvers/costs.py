"""Ground costs, a block of rows at a time, and what pulls a plan back to the points; it solves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import DataError, UsageError, brief
from privot.transport._solvers.arrays import check_finite, from_array, tensors
from privot.transport._solvers.factored_plan import FactoredPlan
from privot.transport._solvers.results import hand_back

CostName = str | tuple[str, float]


class Cost(Protocol):
    """c(x_i, y_j) for B problems of n by m points, never held as a whole unless asked for."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, n, m)."""

    def rows(self, start: int, stop: int) -> Tensor:
        """C[:, start:stop, :], freshly made."""

    def bound(self) -> float:
        """At least every |C_ij|, and not much more."""

    def pull(self, start: int, stop: int, plan: Tensor, second: bool) -> tuple[Tensor, Tensor]:
        """∂Σ P_ij C_ij: (for rows start:stop of the first input, those rows' share for the second if asked)."""

    def pull_plan(self, plan: FactoredPlan, second: bool) -> tuple[Tensor, Tensor]:
        """The same of all rows, for a plan that is held."""

    def turned(self) -> Cost:
        """The same cost with the two sides exchanged."""

    def double(self) -> Cost:
        """The same cost in float64."""


@dataclass(frozen=True)
class PointCost:
    """s·‖x − y‖² + m·‖x − y‖₁ between points x (B, n, d) and y (B, m, d)."""

    x: Tensor
    y: Tensor
    square: float
    absolute: float
    mean: Tensor | None = None
    """The mean of x, (B, 1, d), where somebody has worked it out."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.x.shape[0], self.x.shape[1], self.y.shape[1]

    def rows(self, start: int, stop: int) -> Tensor:
        x, y = self.x[:, start:stop], self.y
        out = None
        if self.square:
            # ‖x‖² + ‖y‖² − 2⟨x, y⟩: the points are centred beforehand, which is what keeps digits in float32.
            nx, ny = self.norms[0][:, start:stop], self.norms[1]
            out = _add_product(ny[:, None, :], x, y.transpose(1, 2), self.square, -2.0 * self.square)
            out.add_(nx[:, :, None], alpha=self.square).clamp_(min=0.0)
        if self.absolute:
            l1 = torch.cdist(x, y, p=1.0).mul_(self.absolute)
            out = l1 if out is None else out.add_(l1)
        if out is None:  # unreachable: `between` asks for at least one of the two
            raise AssertionError
        return out

    @cached_property
    def norms(self) -> tuple[Tensor, Tensor]:
        """‖x‖² (B, n) and ‖y‖² (B, m)."""
        return self.x.square().sum(-1), self.y.square().sum(-1)

    def bound(self) -> float:
        return self._bound

    @cached_property
    def _bound(self) -> float:
        total = 0.0
        if self.square:
            sides = torch.stack([t.amax() for t in self.norms]).double().sqrt_().sum()
            total += self.square * float(sides) ** 2
        if self.absolute:
            total += self.absolute * float(sum(t.abs().sum(-1).amax().double() for t in (self.x, self.y)))
        return total

    def pull(self, start: int, stop: int, plan: Tensor, second: bool) -> tuple[Tensor, Tensor]:
        x, y = self.x[:, start:stop], self.y
        gx, gy = torch.zeros_like(x), torch.zeros_like(y)
        if self.square:
            gx = _add_product(x * plan.sum(2)[:, :, None], plan, y, 1.0, -1.0).mul_(2.0 * self.square)
            if second:
                back = plan.transpose(1, 2)
                gy = _add_product(y * plan.sum(1)[:, :, None], back, x, 1.0, -1.0).mul_(2.0 * self.square)
        if self.absolute:
            with torch.enable_grad():
                xg, yg = x.detach().requires_grad_(), y.detach().requires_grad_()
                sx, sy = torch.autograd.grad(torch.cdist(xg, yg, p=1.0), (xg, yg), plan)
            gx, gy = gx + self.absolute * sx, gy + self.absolute * sy
        return gx, gy

    def pull_plan(self, plan: FactoredPlan, second: bool) -> tuple[Tensor, Tensor]:
        if self.absolute:
            return self.pull(0, self.x.shape[1], plan.matrix(), second)
        gx = (self.x * plan.rows[:, :, None]).sub_(plan.times(self.y)).mul_(2.0 * self.square)
        if not second:
            return gx, gx.new_zeros(())
        gy = (self.y * plan.columns[:, :, None]).sub_(plan.turned().times(self.x)).mul_(2.0 * self.square)
        return gx, gy

    def turned(self) -> PointCost:
        return PointCost(self.y, self.x, self.square, self.absolute)

    def double(self) -> PointCost:
        return PointCost(self.x.double(), self.y.double(), self.square, self.absolute)


@dataclass(frozen=True)
class MatrixCost:
    """A cost matrix (B, n, m) that somebody else worked out."""

    matrix: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        b, n, m = self.matrix.shape
        return b, n, m

    def rows(self, start: int, stop: int) -> Tensor:
        return self.matrix[:, start:stop].clone()

    def bound(self) -> float:
        return float(self.matrix.abs().max())

    def pull(self, start: int, stop: int, plan: Tensor, second: bool) -> tuple[Tensor, Tensor]:
        # The one input is the matrix; its gradient is the plan. The second input has nothing to receive.
        return plan, plan.new_zeros(())

    def pull_plan(self, plan: FactoredPlan, second: bool) -> tuple[Tensor, Tensor]:
        return plan.matrix(), plan.right.new_zeros(())

    def turned(self) -> MatrixCost:
        return MatrixCost(self.matrix.transpose(1, 2))

    def double(self) -> MatrixCost:
        return MatrixCost(self.matrix.double())


def _add_product(base: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float) -> Tensor:
    """beta·base + alpha·left·right of each problem; a single one as a plain product, which CPUs do much faster."""
    if left.shape[0] == 1:
        return torch.addmm(base[0], left[0], right[0], beta=beta, alpha=alpha)[None]
    return torch.baddbmm(base, left, right, beta=beta, alpha=alpha)


def parse(cost: CostName) -> tuple[float, float]:
    """(weight of ‖·‖², weight of ‖·‖₁) behind a cost's name."""
    if cost == "sqeuclidean":
        return 1.0, 0.0
    if cost == "l1":
        return 0.0, 1.0
    if isinstance(cost, tuple) and len(cost) == 2 and cost[0] == "mixture":
        return 1.0, arguments.real("The weight m of the mixture", cost[1], strict=False)
    raise UsageError(f'Unknown cost {brief(cost)}: say "sqeuclidean", "l1", ("mixture", m) or "precomputed".')


def between(x: Tensor, y: Tensor, cost: CostName) -> PointCost:
    """The cost between points (B, n, d) and (B, m, d), moved so that they lie around the origin."""
    square, absolute = parse(cost)
    x, y = x.detach(), y.detach()
    first, second = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
    centre = (first + second) / 2.0
    return PointCost((x - centre).contiguous(), (y - centre).contiguous(), square, absolute, first - centre)


def check_cost_matrix(matrix: Tensor) -> Tensor:
    """`matrix`, if it is a finite, non-empty (n, m) or (B, n, m) array."""
    if matrix.dim() not in (2, 3) or matrix.numel() == 0:
        raise DataError(f"A cost matrix must have shape (n, m) or (B, n, m), got {tuple(matrix.shape)}.")
    check_finite("The cost matrix", matrix)
    return matrix


def with_labels(x: Any, labels: Any, classes: int, weight: float) -> Any:
    """[x; weight·one-hot(label)]: points whose transport pays for changing class.

    Under ‖·‖² two points of different classes are 2·weight² further apart, under ‖·‖₁ 2·weight.

    Parameters
    ----------
    x
        Points of shape (n, d), array or tensor.
    labels
        Whole numbers from 0 to `classes` − 1, of shape (n,).
    classes, weight
        How many classes there are, and the weight of a label.

    Returns
    -------
    array or tensor
        Of shape (n, d + classes).

    Raises
    ------
    DataError
        If the labels are no whole numbers in that range, one per point.
    UsageError
        If `classes` or `weight` is out of range.

    References
    ----------
    Cao et al. 2021, "Don't Generate Me", append 15·one-hot.

    Examples
    --------
    >>> with_labels([[0.5], [1.0]], [0, 1], classes=2, weight=3.0).tolist()
    [[0.5, 3.0, 0.0], [1.0, 0.0, 3.0]]
    """
    weight = arguments.real("The weight of the labels", weight, strict=False)
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise UsageError(f"classes must be a whole number of at least 1, got {brief(classes)}.")
    (tx,), as_numpy = tensors(("x", x))
    marks = labels if isinstance(labels, Tensor) else from_array(labels)
    if marks.dtype.is_floating_point or marks.dtype == torch.bool or tuple(marks.shape) != (len(tx),):
        raise DataError(f"labels must be {len(tx)} whole numbers, one per point, got shape {tuple(marks.shape)}.")
    if bool(((marks < 0) | (marks >= classes)).any()):
        raise DataError(f"labels must lie from 0 to {classes - 1}: renumber them or raise classes.")
    hot = torch.nn.functional.one_hot(marks.long().to(tx.device), classes).to(tx)
    return hand_back(torch.cat((tx.reshape(len(tx), -1), weight * hot), 1), as_numpy)
