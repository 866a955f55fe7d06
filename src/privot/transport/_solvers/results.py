"""What every transport function answers with, and how a gradient found on the way is attached to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.common.html_facts import html_facts
from privot.errors import ConvergenceError, UsageError


@dataclass(frozen=True)
class Result:
    """A computed answer. NumPy in, NumPy out: then arrays are NumPy's and a single number is a float.

    value: the answer; differentiable when the inputs were tensors that ask for gradients
    converged: always true, since a solver that stops early raises instead
    iterations: of the solver; 0 for a closed form
    marginal_error: Σ|P1 − a| + Σ|Pᵀ1 − b| of the plan behind the value; 0 where it is exact by construction
    plan, potentials, transport_cost, gradient: worked out when first asked for
    details: whatever else this method knows, by name
    """

    value: Any
    converged: bool = True
    iterations: int = 0
    marginal_error: float = 0.0
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    lazy: dict[str, Callable[[], Any]] = field(default_factory=dict, repr=False, compare=False)

    def _repr_html_(self) -> str:
        held = self.value.detach() if isinstance(self.value, Tensor) else self.value
        shape = tuple(getattr(held, "shape", ()))
        value = f"array of shape {shape}" if shape else f"{float(held):.6g}"
        solved = f"converged after {self.iterations} iterations" if self.iterations else "closed form or exact solver"
        return html_facts(
            "Result",
            [
                ("value", value),
                ("solver", solved),
                ("marginal error", f"{float(self.marginal_error):.2g}" if self.marginal_error else None),
                ("privacy", "none: computed from the arrays as they are"),
            ],
        )

    def _work_out(self, name: str, words: str) -> Any:
        if name not in self.lazy:
            raise UsageError(f"This result has no {words}: ask `sinkhorn` or `exact` for one.")
        return self.lazy[name]()

    @cached_property
    def plan(self) -> Any:
        """P of shape (n, m), P1 = a and Pᵀ1 = b: how much of x_i goes to y_j."""
        return self._work_out("plan", "plan")

    @cached_property
    def potentials(self) -> Any:
        """(f, g), the dual variables: one number per point of x, one per point of y."""
        return self._work_out("potentials", "potentials")

    @cached_property
    def transport_cost(self) -> Any:
        """⟨P, C⟩, the cost of the plan alone, without entropy and without a root."""
        return self._work_out("transport_cost", "transport cost")

    @cached_property
    def gradient(self) -> Any:
        """∂value/∂x, x the first input, for use without autograd."""
        return self._work_out("gradient", "gradient")


class _Known(torch.autograd.Function):
    """A value whose gradients are already known: backward only multiplies."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: tuple[Tensor | None, ...], *_: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        # said here rather than by torch's once_differentiable, whose wrapper costs as much as a small solve
        if torch.is_grad_enabled():
            raise UsageError("A transport value has first derivatives only: leave out create_graph.")

        def scaled(g: Tensor) -> Tensor:
            return g * (outer.reshape(outer.shape + (1,) * (g.dim() - outer.dim())) if outer.dim() else outer)

        return (None, None, *(None if g is None else scaled(g) for g in ctx.gradients))


def attach(value: Tensor, *pairs: tuple[Tensor, Tensor | None]) -> Tensor:
    """`value` with ∂value/∂input = gradient for each (input, gradient); nothing is kept but the gradients."""
    asked = [pair for pair in pairs if pair[0].requires_grad]
    if not asked:
        return value
    inputs, gradients = zip(*asked, strict=True)
    out: Tensor = _Known.apply(value, gradients, *inputs)  # type: ignore[no-untyped-call]
    return out


def hand_back(value: Tensor, as_numpy: bool) -> Any:
    """`value` in the currency of the caller: a tensor, a NumPy array, or a float for a single number."""
    if not as_numpy:
        return value
    array: np.ndarray[Any, Any] = value.detach().cpu().numpy()
    return float(array) if array.ndim == 0 else array


def stopped(error: float | None, sweeps: int, tol: float) -> ConvergenceError:
    """What is raised when the sweeps that were allowed did not do; `error` is None where nobody measured it."""
    ended = f"did not reach a marginal error of {tol:.2g} in {sweeps} sweeps"
    if error is not None:
        ended = f"reached a marginal error of {error:.2g} in {sweeps} sweeps, not {tol:.2g}"
    return ConvergenceError(f"Sinkhorn {ended}: raise reg, tol or max_iterations.")
