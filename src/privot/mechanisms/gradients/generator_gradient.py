"""Releases noisy clipped gradients of a generator's parameters (DP-Sinkhorn's ablation); it shows nothing else.

Records enter through ∇_θ 2Ŵ(G_θ(z), Y) alone, Y a fresh sample of them; z, labels and θ are public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privot.accounting.events import Event
from privot.common import arguments
from privot.errors import UsageError
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.cuda_stream import refuse_recording
from privot.mechanisms.gradients.batches import Normals
from privot.mechanisms.gradients.sinkhorn_gradient import SanitizedGradient, clip_whole
from privot.mechanisms.mechanism import Answer, Facts, Records
from privot.noise import NoiseSource
from privot.noise.adding import check_ratio, grid_of
from privot.noise.adding_tensor import add_noise_tensor, plain
from privot.release import Value

if TYPE_CHECKING:
    import torch
    from torch import nn


class Handle:
    """The public generator whose parameter gradient is released; the training sets it and changes its weights.

    It runs beside the records, like every public function of a mechanism: use only a generator that you trust. Its
    inputs are public, and its Jacobian is multiplied by a private gradient.
    """

    def __init__(self) -> None:
        self._generator: Any = None

    def use(self, generator: nn.Module) -> None:
        """Use `generator`, (z, labels) → points in [0, 1], from now on."""
        self._generator = generator

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(p.numel() for p in self._parameters())

    @property
    def has_backward_hooks(self) -> bool:
        """Whether a backward hook would see the gradient that passes through the generator, before noise is added."""
        from torch.nn.modules import module

        known: list[Any] = [module._global_backward_hooks, module._global_backward_pre_hooks]
        for part in self._generator.modules():
            known += [part._backward_hooks, part._backward_pre_hooks]
        known += [p._backward_hooks for p in self._parameters()]
        return any(known)

    def points(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Points in [−1, 1], to be differentiated."""
        made: torch.Tensor = 2.0 * self._generator(z, labels) - 1.0
        return made

    def pull(self, x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        """(∂x/∂θ)ᵀ·slope as one vector."""
        import torch

        parts = torch.autograd.grad(x, self._parameters(), slope.to(x.dtype), allow_unused=True)
        held = [torch.zeros_like(p) if g is None else g for p, g in zip(self._parameters(), parts, strict=True)]
        return torch.cat([g.flatten() for g in held])

    def _parameters(self) -> list[torch.Tensor]:
        if self._generator is None:
            raise UsageError("Call use() with the generator before the first query.")
        return list(self._generator.parameters())


@dataclass(frozen=True, eq=False)
class ParameterQuery:
    """Public z (rows, latent) and labels (rows,) of the points; the first `points` of them are moved."""

    z: torch.Tensor
    labels: torch.Tensor


@dataclass(frozen=True)
class SanitizedParameters(SanitizedGradient):
    """g·min(1, C/‖g‖) + N(0, σ²) in every coordinate, g = ∇_θ 2Ŵ(G_θ(z)[0:n], Y), for n = `points` points per step.

    Everything else is as in `SanitizedGradient`; what is clipped and noised is the vector of `parameters` numbers.

    Formal guarantees. Ŵ is not a sum over records: one record changes the transport plan of all, so the sensitivity C
    of per-example DP-SGD does not apply. A vector clipped as a whole has another sensitivity:
      * every value lies in the ball of radius C whatever Y is, so two values differ by at most 2C: Δ = 2C under
        add-remove and under replace-one alike;
      * a step is a Gaussian mechanism with that Δ on a sample: Poisson under add-remove (Zhu, Dong & Wang 2022, Theorem
        11), fixed size under replace-one (Balle, Barthe & Gaboardi 2018, Theorem 9);
      * the norm is kept 1e-6 below C, which covers rounding; what is not finite counts as 0.
    """

    parameters: int = 1
    handle: Handle = field(default_factory=Handle, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples != 1:
            raise UsageError(f"Sanitized parameters have one sample per step, got {self.samples}.")
        object.__setattr__(self, "parameters", arguments.whole("The number of parameters", self.parameters, 1))

    def event(self, facts: Facts) -> Event:
        """What one step costs: a Gaussian mechanism with Δ = 2C, of a sample."""
        event = super().event(facts)
        check_ratio(self.clip, self.sigma)
        if grid_of(self.sigma) * math.sqrt(self.parameters) > MARGIN * self.clip:
            raise UsageError(
                "Rounding could outgrow the margin with this much noise on this many numbers: use a smaller generator."
            )
        return event

    def check(self, query: Any) -> Any:
        """A plain copy of the query, if it has enough points, on the device of the mechanism."""
        refuse_recording()
        if type(query) is not ParameterQuery:
            raise UsageError(f"Expected a ParameterQuery, got {type(query).__name__}.")
        held = ParameterQuery(plain(query.z, "A query"), plain(query.labels, "A query"))
        if held.z.dim() != 2 or len(held.z) < self.points or held.labels.shape != held.z.shape[:1]:
            raise UsageError(f"The query must have at least {self.points} rows of z, and as many labels.")
        if {held.z.device.type, held.labels.device.type} != {self.device}:
            raise UsageError(f"The query must lie on {self.device}, where the mechanism works.")
        if self.handle.size != self.parameters:
            raise UsageError(f"Expected a generator of {self.parameters} parameters, got one of {self.handle.size}.")
        if self.handle.has_backward_hooks:
            raise UsageError("The generator has backward hooks, which would see gradients without noise: remove them.")
        return held

    def begin(self, records: Records, noise: NoiseSource, event: Event) -> Answer:
        """The answers of one charge; points are made anew beside the records, so that all work stays on one stream."""
        import torch

        sigma, clip, batches, lane = self._ready(records, noise, event)
        normals = Normals(noise, (self.parameters,), sigma, self.device)
        public, solve = {**self._public(event), "mechanism": "parameters"}, self._solver(batches, lambda g: g)

        def answer(step: int, query: ParameterQuery) -> tuple[Value, Mapping[str, Any]]:
            own = query.labels[: self.points] if self.labels else torch.zeros_like(query.labels[: self.points])
            with lane.turn() as hand_over:
                with torch.enable_grad():
                    x = self.handle.points(query.z, query.labels)
                (found,) = solve(x.detach()[: self.points].clone(), own, batches.take())
                slope = torch.zeros_like(x)
                slope[: self.points] = found[0]
                pulled = clip_whole(self.handle.pull(x, slope).detach(), clip)
                noisy = hand_over(add_noise_tensor(pulled, noise, sigma, clip, normals.take()))
            value: Any = noisy
            return value, {**public, "step": step}

        return answer
