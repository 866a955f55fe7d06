"""Generators trained without privacy, on arrays: the baselines of private methods, for open data only.

Never pass private records here: every loss sees them without noise. No vault, no ledger and no guarantee takes part,
and what is trained cannot be saved as a private generator can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.common.cuda_graphs import adam, recorded
from privot.common.devices import usable_device
from privot.errors import ConvergenceError, DataError, UsageError
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.defaults.streaming_defaults import generator_config, sinkhorn_options, sliced_options
from privot.synthesis.neural.generators.generator import Generator, build, one_hot

OPEN_METHODS = ("embedding", "sinkhorn", "sliced")
FREQUENCIES = 500
SWEEPS = 30
"""Sinkhorn iterations per step; the loss is unrolled through them."""


@dataclass(frozen=True, eq=False)
class _Loss:
    """A loss of generated and real rows, both with their labels beside them."""

    of: Callable[[Tensor, Tensor], Tensor]
    draw: Callable[[], object] = lambda: None
    """Fills its buffers of random numbers before every step: a step that is recorded draws none."""


@dataclass(frozen=True, eq=False)
class OpenGenerator:
    """A generator of open data: it draws samples, and protects nothing."""

    generator: Generator
    low: float
    high: float
    labelled: bool
    steps: int
    loss: float
    """That of the last step."""

    def sample(self, n: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64] | None]:
        """`n` rows, the classes in equal shares, and their labels where there are classes."""
        where = next(self.generator.parameters()).device
        random = torch.Generator().manual_seed(seed)
        labels = torch.arange(n) % self.generator.classes
        rows = []
        self.generator.eval()
        with torch.no_grad():
            for at in range(0, n, 2000):
                part = labels[at : at + 2000]
                z = torch.randn(len(part), self.generator.latent, generator=random)
                rows.append(self.generator(z.to(where), part.to(where)).cpu())
        x = self.low + (self.high - self.low) * torch.cat(rows).numpy().astype(np.float32)
        return x, labels.numpy() if self.labelled else None


def train_generator_openly(
    x: Any,
    y: Any = None,
    *,
    method: str = "sliced",
    classes: int = 0,
    shape: tuple[int, ...] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    steps: int | None = None,
    batch: int = 200,
    slices: int = 200,
    mixture: float = 0.0,
    learning_rate: float = 1e-3,
    generator: str | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> OpenGenerator:
    """Train a generator on open records without any privacy.

    Parameters
    ----------
    x, y
        Open records (n, d), and labels 0 … classes − 1 where there are classes.
    method
        "sliced": SW₂² along random directions; "sinkhorn": the Sinkhorn divergence of batches; "embedding": the squared
        distance of means of random Fourier features of several bandwidths, per class. Labels stand beside the records.
    classes, shape, low, high
        Number of classes (0: none), shape of an image, range of the values.
    steps, batch, slices, learning_rate
        Of the training by Adam; 2,000 steps unless given.
    mixture
        The weight m of ‖x − y‖₁ beside ‖x − y‖² in the cost of "sinkhorn" (Cao et al. 2021).
    generator
        The kind of network; that of the private method unless given.
    device, seed
        Where it is trained, and the seed of everything that is drawn.

    Returns
    -------
    OpenGenerator

    Raises
    ------
    UsageError, DataError
        If the method is unknown or the records do not fit the other arguments.
    ConvergenceError
        If the loss became non-finite.

    References
    ----------
    Deshpande, Zhang & Schwing 2018 (sliced); Genevay, Peyré & Cuturi 2018, Cao et al. 2021 (Sinkhorn); Li, Swersky &
    Zemel 2015 (means of features).

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(0.4, 0.6, (200, 2))
    >>> made = train_generator_openly(x, steps=5)
    >>> made.sample(10)[0].shape
    (10, 2)
    """
    rows = np.asarray(x, dtype=np.float32)
    if method not in OPEN_METHODS:
        raise UsageError(f"Unknown open baseline {method!r}: use {', '.join(OPEN_METHODS)}.")
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all() or not low < high:
        raise DataError("An open baseline needs at least two records of finite numbers, and a range LOW below HIGH.")
    if steps is not None and steps < 1:
        raise UsageError(f"The number of steps must be at least 1, got {steps}.")
    if not (math.isfinite(mixture) and mixture >= 0.0):
        raise UsageError(f"The weight of the L1 cost must be finite and not negative, got {mixture:g}.")
    labels = None if classes < 1 or y is None else np.asarray(y).astype(np.int64)
    if labels is not None and (labels.shape != (len(rows),) or labels.min() < 0 or labels.max() >= classes):
        raise DataError(f"Labels must be whole numbers from 0 to {classes - 1}, one per record.")
    where = usable_device(device, auto=True)
    total = 2000 if steps is None else steps
    problem = Problem(rows.shape[1], max(1, classes), 0.0, len(rows), shape, where)
    given = {} if generator is None else {"generator": generator}
    # without warps: samples are compared with records as they are
    options = (sinkhorn_options if method == "sinkhorn" else sliced_options)(problem, {**given, "warp": 0.0})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build(generator_config(problem, options)).to(where)
    held = torch.as_tensor((rows - low) / (high - low), device=where)
    marks = None if labels is None else torch.as_tensor(labels, device=where)
    random = torch.Generator(device=where).manual_seed(seed + 1)
    optimizer = adam(network, learning_rate)
    size = min(batch, len(rows))
    z = torch.zeros(size, network.latent, device=where)
    chosen = torch.zeros(size, dtype=torch.int64, device=where)
    wanted = torch.arange(size, device=where) % network.classes
    value = torch.zeros((), device=where)
    loss = _loss(method, rows.shape[1] + (classes if labels is not None else 0), slices, mixture, where, random)

    def work() -> None:
        found = loss.of(
            _beside(network(z, wanted), wanted if marks is not None else None, classes),
            _beside(held[chosen], None if marks is None else marks[chosen], classes),
        )
        found.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        value.copy_(found.detach())

    step = None
    for _ in range(total):
        z.normal_(generator=random)
        chosen.random_(len(held), generator=random)
        loss.draw()
        step = recorded(network, optimizer, work) if step is None else step
        step()
    last = float(value)
    if not math.isfinite(last):
        raise ConvergenceError(f"The loss became non-finite within {total} steps: use a smaller learning rate.")
    return OpenGenerator(network.eval(), low, high, marks is not None, total, last)


def _beside(rows: Tensor, labels: Tensor | None, classes: int) -> Tensor:
    """Rows with their one-hot labels, as long as half a typical record, so that classes are matched too."""
    if labels is None:
        return rows
    return torch.cat([rows, 0.5 * math.sqrt(rows.shape[1]) * one_hot(labels, classes, rows)], dim=1)


def _loss(method: str, dim: int, slices: int, mixture: float, device: str, random: torch.Generator) -> _Loss:
    if method == "sliced":
        directions = torch.zeros(dim, slices, device=device)

        def sliced(made: Tensor, real: Tensor) -> Tensor:
            u = directions / torch.linalg.vector_norm(directions, dim=0)
            gap = (made @ u).sort(dim=0).values - (real @ u).sort(dim=0).values
            distance: Tensor = dim * gap.square().mean()
            return distance

        return _Loss(sliced, lambda: directions.normal_(generator=random))
    if method == "sinkhorn":
        return _Loss(partial(_sinkhorn_divergence, mixture=mixture))
    draw = torch.randn(dim, FREQUENCIES, generator=random, device=device)
    # bandwidths around the length of a typical difference
    widths = math.sqrt(dim) * torch.logspace(-1.5, 0.5, FREQUENCIES, device=device)
    frequencies = draw / widths

    def embedding(made: Tensor, real: Tensor) -> Tensor:
        means = [
            torch.cat([torch.cos(z @ frequencies), torch.sin(z @ frequencies)], dim=1).mean(0) for z in (made, real)
        ]
        return (means[0] - means[1]).square().sum()

    return _Loss(embedding)


def _sinkhorn_divergence(made: Tensor, real: Tensor, *, mixture: float = 0.0) -> Tensor:
    """OT_ε(x, y) − ½ OT_ε(x, x) − ½ OT_ε(y, y), as many x as y, with ε 5 % of the mean cost, in so many `SWEEPS`.

    By the envelope theorem its slope in x is that of Σ P_ij c(x_i, y_j) − ½ Σ Q_ij c(x_i, x_j), the plans P and Q being
    held. It is written down here: the slope of distances by the library takes most of a step on a GPU.
    """
    with torch.no_grad():
        costs = torch.stack([_cost(a, b, mixture) for a, b in ((made, real), (made, made), (real, real))])
        plans = _plans(costs, 0.05 * costs[0].mean().clamp(min=1e-12))
        cross, own, others = (plans * costs).sum(dim=(1, 2))
        # x is on both sides of its own cost
        both = 0.5 * (plans[1] + plans[1].T)
        slope = _slope(made, real, plans[0], mixture) - _slope(made, made, both, mixture)
    value: Tensor = cross - 0.5 * own - 0.5 * others + ((made - made.detach()) * slope).sum()
    return value


def _cost(a: Tensor, b: Tensor, mixture: float) -> Tensor:
    square = torch.cdist(a, b).square()
    return square + mixture * torch.cdist(a, b, p=1.0) if mixture else square


def _slope(a: Tensor, b: Tensor, plan: Tensor, mixture: float) -> Tensor:
    """Of Σ P_ij·(‖a_i − b_j‖² + m·‖a_i − b_j‖₁) in a."""
    found = 2.0 * (plan.sum(dim=1, keepdim=True) * a - plan @ b)
    if mixture:
        found += mixture * torch.einsum("ij,ijd->id", plan, torch.sign(a[:, None] - b[None]))
    return found


def _plans(costs: Tensor, reg: Tensor) -> Tensor:
    """Of several costs at once, of shape (costs, n, m)."""
    _, n, m = costs.shape
    scaled = -costs / reg
    g = torch.zeros_like(scaled[:, :1])
    for _ in range(SWEEPS):
        f = -torch.logsumexp(scaled + g - math.log(m), dim=2, keepdim=True)
        g = -torch.logsumexp(scaled + f - math.log(n), dim=1, keepdim=True)
    return torch.exp(scaled + f + g - math.log(n * m))
