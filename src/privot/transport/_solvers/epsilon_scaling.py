"""Solves entropic transport to a tolerance: ε-scaling, adaptive over-relaxation, and a refusal to stop early.

For B problems at once, in plain tensors. It knows no surface, no gradients and no points.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privot.errors import DataError
from privot.transport._solvers.costs import Cost
from privot.transport._solvers.factored_plan import Solution
from privot.transport._solvers.newton import newton_step, worth_it
from privot.transport._solvers.results import stopped
from privot.transport._solvers.stabilised_kernel import FLAT, Kernel, hold, transform

STEEP = 100.0
"""Largest range of exponents solved at once; beyond it ε is lowered in steps, each starting from the last."""
COOLING = 4.0
DRIFT = {torch.float32: 1e12, torch.float64: 1e100}
"""Scalings beyond which they are absorbed, well before a product leaves the number type."""
LOST = 0.1
"""A marginal error to which over-relaxation does not rise on its way down: it has left where its theory holds."""
OMEGA_LIMIT = {torch.float32: 1.98, torch.float64: 1.999}


def solve(
    cost: Cost,
    a: Tensor,
    b: Tensor,
    eps: float,
    tol: float,
    max_sweeps: int,
    symmetric: bool = False,
    spent: int = 0,
) -> Solution:
    """Potentials whose plan has column sums b and row sums a within `tol` in L1, for each of the problems.

    Sinkhorn's algorithm (Cuturi 2013) with decreasing ε and over-relaxation (Lehmann, von Renesse, Sambale &
    Uschmajew 2022, "A note on overrelaxation in the Sinkhorn algorithm"). Raises when `max_sweeps` do not do; `spent`
    of them another solver has used already.
    """
    if spent >= max_sweeps:
        raise stopped(None, spent, tol)
    size = cost.bound()
    if not size < torch.finfo(a.dtype).max / 64:
        raise DataError("The costs are too large for this number type: rescale the points or use float64.")
    held = hold(cost)
    if held is not None:
        size = float(held.max() - held.min())
    if size <= FLAT * eps:
        return _solve_flat(cost, held, a, b, eps, tol, max_sweeps, spent)
    kernel = Kernel(cost, held, a, b, symmetric, spent)
    watch = _Watch(kernel, max_sweeps)
    steps = 0 if symmetric else math.ceil(math.log(max(1.0, size / (STEEP * eps))) / math.log(COOLING))
    for level in range(steps, 0, -1):
        kernel.rebuild(eps * COOLING**level)
        watch.run(max(tol, 1e-2), most=50)
    kernel.rebuild(eps)
    error = watch.run(tol)
    plan = kernel.take_plan()
    kernel.absorb()
    f, g = kernel.f, kernel.g
    if bool((b == 0).any()):
        g = torch.where(b == 0, transform(cost.turned(), None, f, a, eps), g)
    return Solution(f, g, error, kernel.sweeps, plan)


class _Watch:
    """Runs sweeps, chooses their over-relaxation from how fast the error falls, and says when to stop."""

    def __init__(self, kernel: Kernel, max_sweeps: int) -> None:
        self.kernel, self.max_sweeps = kernel, max_sweeps
        B, n, m = kernel.cost.shape
        # Looking at the error waits for the device and costs small problems as much as a sweep.
        cpu, small = kernel.a.device.type == "cpu", B * n * m < 1 << 16
        self.every = (4 if small else 1) if cpu else 10

    def run(self, tol: float, most: int | None = None) -> float:
        """Sweep until the row error, columns exact, is at most `tol`; with `most`, or until that many sweeps."""
        kernel = self.kernel
        end = self.max_sweeps if most is None else min(self.max_sweeps, kernel.sweeps + most)
        failed = kernel.sweeps
        pace, aim, exact = _Pace(OMEGA_LIMIT[kernel.a.dtype]), tol, kernel.symmetric
        error = math.inf
        while kernel.sweeps < end:
            began = kernel.sweeps
            error = self._sweep(pace.omega, end)
            if not math.isfinite(error):
                pace.fail(error)
                exact = True
                continue
            if error <= tol and exact:
                kernel.step_back()
                return error
            if kernel.symmetric:
                continue
            exact = pace.omega == 1.0
            if error <= aim:
                aim = aim / 2.0 if exact or pace.finishing else aim
                pace.finish()
            elif most is None and worth_it(kernel, kernel.sweeps - failed, end - kernel.sweeps):
                # A step that works is followed by the next at once, one that does not by sweeps.
                failed = failed if newton_step(kernel, end - kernel.sweeps) else kernel.sweeps
                pace, exact = _Pace(pace.limit), True
            else:
                pace.adapt(error, kernel.sweeps - began)
        if most is None:
            raise stopped(float(kernel.marginal_error().max()), kernel.sweeps, tol)
        return error

    def _sweep(self, omega: float, end: int) -> float:
        """The row error before the last of up to `every` sweeps; infinite where scalings left the number type."""
        kernel = self.kernel
        for _ in range(min(self.every, end - kernel.sweeps) - 1):
            kernel.sweep(omega, measure=False)
        error = kernel.sweep(omega, measure=True)
        if error is None:  # unreachable: it was asked for
            raise AssertionError
        worst, drift = torch.stack((error.max(), kernel.spread())).tolist()
        if not math.isfinite(worst) or not math.isfinite(drift):
            kernel.recover()
            return math.inf
        if drift > DRIFT[kernel.a.dtype]:
            kernel.rebuild(kernel.eps)
        return float(worst)


class _Pace:
    """The relaxation ω, from the observed rate μ of the error.

    Near the solution Sinkhorn is block Gauss–Seidel with rate λ; over-relaxed by ω its rate μ satisfies
    (μ + ω − 1)² = μ ω² λ, and ω* = 2/(1 + √(1 − λ)) is best (Young 1971, "Iterative Solution of Large Linear
    Systems", chapter 6). So each observed μ gives λ, and λ the next ω.
    """

    def __init__(self, limit: float) -> None:
        self.omega = 1.0
        self.finishing = False
        self.limit = limit
        self._resume = 1.0
        self._start = math.inf
        self._since = 0
        self._wait = 4
        self._patient = True

    def finish(self) -> None:
        """The error is small enough: plain sweeps now, so that it is measured with exact columns."""
        if not self.finishing:
            self._resume = self.omega
        self.omega, self.finishing = 1.0, True

    def adapt(self, error: float, sweeps: int) -> None:
        """Choose ω after `sweeps` more sweeps that ended at `error`."""
        if self.finishing:
            self.omega, self.finishing = self._resume, False
            self._restart(error)
            return
        self._since += sweeps
        if self.omega > 1.0 and error > max(LOST, 4.0 * self._start):
            self.fail(error)
            return
        if self._since < self._wait:
            return
        if error > 0.5 or not math.isfinite(self._start):
            self.omega = 1.0  # far from the solution the theory does not hold
        elif error >= self._start:
            if self._patient and error < 10.0 * self._start:
                self._wait, self._patient = 3 * self._wait, False
                return
            # Rounding is amplified by 1/(2 − ω): what no longer falls needs less relaxation, for good.
            self.limit = self.omega = _less(self.omega)
        else:
            self._relax((error / self._start) ** (1.0 / self._since))
        self._restart(error)

    def fail(self, error: float) -> None:
        """Over-relaxation led away: plain sweeps, which always lead back, and less of it for good."""
        self.limit, self.omega, self.finishing = _less(self.omega), 1.0, False
        self._restart(error)

    def _relax(self, mu: float) -> None:
        if mu > self.omega - 1.0:
            lam = min(1.0, (mu + self.omega - 1.0) ** 2 / (mu * self.omega**2))
            self.omega = min(self.limit, max(self.omega, 2.0 / (1.0 + math.sqrt(1.0 - lam))))

    def _restart(self, error: float) -> None:
        self._start, self._since, self._patient = error, 0, True
        # An over-relaxed error first rises: about 1/(2 − ω) sweeps pass before its rate shows.
        self._wait = 4 if self.omega == 1.0 else max(6, round(2.0 / (2.0 - self.omega)))


def _less(omega: float) -> float:
    return max(1.0, 2.0 * omega - 2.0)


def _solve_flat(
    cost: Cost, held: Tensor | None, a: Tensor, b: Tensor, eps: float, tol: float, max_sweeps: int, spent: int
) -> Solution:
    """Large ε: a few alternating transforms contract by tanh²(range/4ε) each."""
    turned, held_turned = cost.turned(), None if held is None else held.transpose(1, 2)
    f, g, error = torch.zeros_like(a), torch.zeros_like(b), math.inf
    for sweeps in range(spent, max_sweeps + 1):
        new = transform(cost, held, g, b, eps)
        if sweeps > spent:
            error = float((((f - new) / eps).expm1().abs() * a).sum(1).max())
            still = float((f - new).abs().max()) <= 4 * torch.finfo(a.dtype).eps * float(f.abs().max())
            if error <= tol and (still or sweeps - spent >= 40):  # the last digit flickers
                return Solution(f, g, error, sweeps)
        if sweeps < max_sweeps:
            f = new
            g = transform(turned, held_turned, f, a, eps)
    raise stopped(error, max_sweeps, tol)
