"""Releases noisy clipped gradients at generated points (DP-Sinkhorn); it shows nothing else of the records.

The records enter through G = ∇_X 2Ŵ(X, Y) alone, where Y is a fresh sample of them and X are public points that the
caller generated. Everything else of the semi-debiased loss is public and added afterwards by whoever trains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privot.accounting.events import Event, Gaussian, Sampled
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.mechanism import Answer, Facts, Needs, Records
from privot.noise import NoiseSource, add_noise_tensor, arguments
from privot.noise.adding import check_ratio, grid_of
from privot.noise.adding_tensor import plain
from privot.release import Value

if TYPE_CHECKING:
    import torch

_AHEAD = 1 << 21
"""Normals drawn at once on a GPU: one keystream's worth serves many steps."""


@dataclass(frozen=True, eq=False)
class GradientQuery:
    """Public points x (n, dim) in [−1, 1] and their labels (n,), whole numbers, None where there are no classes."""

    x: torch.Tensor
    labels: torch.Tensor | None = None


@dataclass(frozen=True)
class SanitizedGradient:
    """G·min(1, C/‖G‖_F) + N(0, σ²) in every entry, G = ∇_X 2Ŵ(X, Y), for `points` public points X a step.

    Cao, Bie, Vahdat, Fidler & Kreis 2021, "Don't Generate Me", with the noise and the clipping stated once: the *whole*
    matrix is scaled to Frobenius norm at most C = `clip`, and `sigma` is the standard deviation of the noise (a
    multiplier σ_m means σ = σ_m·2C).

    Y is drawn by `sampling`, the object that is also counted: Poisson under add-remove, fixed size under replace-one.
    Its records are scaled from their public range [`low`, `high`] to [−1, 1] and clamped there. Ŵ is the entropic
    transport cost (regularisation `reg`) of ‖x−y‖² + m‖x−y‖₁ on [x; 15·one-hot], in `sweeps` sweeps. A Poisson sample
    has no fixed size: at most `capacity` of its records take part, and room that is not filled has weight 0.

    Formal guarantees:
      * every value lies in the ball of radius C whatever Y is (empty, cut off, or one on which Ŵ breaks down, where
        G = 0), so two values differ by at most 2C under either adjacency: Δ = 2C;
      * that holds in floating point: the norm is taken in float64 and kept 1e-6 below C, which covers the rounding of
        the norm and of the grid on which noise is added (checked before anything is paid);
      * `points` is fixed and public; the number of operations, the shapes and the absence of exceptions do not depend
        on the sample: a fixed number of sweeps, no tolerance, no branch on values;
      * the sampler that runs and σ are those of the event that was charged; each step draws sample and noise anew.
    """

    points: int
    sigma: float
    clip: float
    sampling: Sampling
    steps: int = 1
    capacity: int | None = None
    reg: float = 0.05
    mixture: float = 1.0
    square: float = 1.0
    sweeps: int = 100
    labels: bool = False
    label_weight: float = 15.0
    low: float = 0.0
    high: float = 1.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name in ("points", "steps", "sweeps"):
            set_(self, name, arguments.whole(f"The number of {name}", getattr(self, name), 1))
        set_(self, "sigma", arguments.sigma(self.sigma))
        for name in ("clip", "reg", "mixture", "square", "label_weight", "low", "high"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise UsageError(f"{name} must be a finite number, got {number!r}.")
        if self.clip <= 0.0 or self.reg <= 0.0 or min(self.mixture, self.square, self.label_weight) < 0.0:
            raise UsageError("clip and reg must be greater than 0, and no part of the cost may be negative.")
        if self.mixture == 0.0 and self.square == 0.0:
            raise UsageError("The cost needs a part: ‖x−y‖² (square), ‖x−y‖₁ (mixture), or both.")
        if not self.low < self.high or not 1e-300 < self.high - self.low < 1e300:
            raise UsageError(
                "The public range needs its low end below its high end, by a number that can be divided by."
            )
        if self.device != "cpu":
            raise UsageError(
                "Sanitized gradients run on the CPU for now: on a GPU answers would not wait for each other."
            )
        if isinstance(self.sampling, FixedSize):
            set_(self, "capacity", self.sampling.batch)
        elif not isinstance(self.sampling, Poisson):
            raise UsageError("The sampling must be Poisson or FixedSize.")
        if self.capacity is None:
            raise UsageError("A Poisson sample has no fixed size: say its capacity, a public number.")
        set_(self, "capacity", arguments.whole("The capacity", self.capacity, 1))

    @property
    def needs(self) -> Needs:
        """Labels, where the points have them, and a batch's worth of records."""
        least = self.sampling.batch if isinstance(self.sampling, FixedSize) else 1
        return Needs(least_records=least, labels=self.labels)

    @property
    def standing(self) -> Standing:
        """PROVEN: the event's own theorem is all it rests on."""
        return Standing.PROVEN

    @property
    def seed(self) -> None:
        """Nothing public is drawn here."""
        return None

    @property
    def cost(self) -> float:
        """What different labels add to the cost: ‖·‖² + m‖·‖₁ of the difference of two weighted one-hots."""
        return 2.0 * self.square * self.label_weight**2 + 2.0 * self.mixture * self.label_weight

    def event(self, facts: Facts) -> Event:
        """What one step costs: a Gaussian mechanism with Δ = 2C, of a sample."""
        if isinstance(self.sampling, FixedSize) and self.sampling.records != facts.records:
            if facts.records is None:
                raise UsageError("Fixed-size samples are drawn from a public number of records: use replace-one.")
            raise UsageError(f"The sampling was made for {self.sampling.records} records, there are {facts.records}.")
        check_ratio(self.clip, self.sigma)
        # the grid moves k coordinates of each neighbour by g/2 at most
        if grid_of(self.sigma) * math.sqrt(self.points * facts.dim) > MARGIN * self.clip:
            raise UsageError("So much noise on so many numbers leaves no room for rounding: use fewer points.")
        return Sampled(Gaussian(self.sigma, 2.0 * self.clip, facts.adjacency), self.sampling)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Value, Mapping[str, Any]]:
        """Refused: every step answers a query."""
        raise UsageError("A sanitized gradient answers queries: use a stream's ask.")

    def check(self, query: Any) -> GradientQuery:
        """A plain copy of the query, if it has points of the right shape, on the device of the mechanism."""
        # no subclass: its code would run beside the records
        if type(query) is not GradientQuery:
            raise UsageError("A sanitized gradient is asked with a GradientQuery.")
        labels = None if query.labels is None else plain(query.labels, "A query")
        held = GradientQuery(plain(query.x, "A query"), labels)
        if held.x.dim() != 2 or len(held.x) != self.points or not held.x.dtype.is_floating_point:
            raise UsageError(f"The query must have {self.points} points, got shape {tuple(held.x.shape)}.")
        if (held.labels is not None) != self.labels:
            raise UsageError("The points of a query have labels exactly where the records have.")
        if held.labels is not None and tuple(held.labels.shape) != (self.points,):
            raise UsageError(f"The query must have {self.points} labels.")
        if held.x.device.type != self.device:
            raise UsageError(f"The query lies on {held.x.device.type}, the mechanism works on {self.device}.")
        return held

    def begin(self, records: Records, noise: NoiseSource, event: Event) -> Answer:
        """The answers of one charge: records go to the device once, noise is drawn for many steps at a time."""
        charged = event.event if isinstance(event, Sampled) else None
        if not isinstance(event, Sampled) or not isinstance(charged, Gaussian):
            raise UsageError("A sanitized gradient runs on the event it made.")
        sigma, clip = charged.sigma, charged.sensitivity / 2.0
        sampling, dim = event.sampling, records.facts.dim
        batches = _Batches(self, records)
        normals = _Normals(noise, (self.points, dim), sigma, self.device)
        public = {
            "mechanism": "gradient",
            "points": self.points,
            "clip": clip,
            "sigma": sigma,
            "sampling": sampling.to_dict(),
            "reg": self.reg,
            "mixture": self.mixture,
            "sweeps": self.sweeps,
        }

        solve = self._solver(clip)

        def answer(step: int, query: GradientQuery) -> tuple[Value, Mapping[str, Any]]:
            y, marks, weights = batches.draw(sampling.draw(noise, records.count))
            x = query.x.detach()
            own = marks.new_zeros(self.points) if query.labels is None else query.labels
            (gradient,) = solve(x, own, y.to(x.dtype), marks, weights.to(x.dtype))
            value: Any = add_noise_tensor(gradient, noise, sigma, clip, normals.take())
            return value, {**public, "step": step}

        return answer

    def _solver(self, clip: float) -> Callable[..., tuple[torch.Tensor, ...]]:
        """(x, its labels, y, its labels, its weights) → ∇_X 2Ŵ(X, Y), clipped as a whole."""
        from privot.transport.replay import Replayed
        from privot.transport.unrolled import unrolled_gradients

        def work(
            x: torch.Tensor, own: torch.Tensor, y: torch.Tensor, marks: torch.Tensor, weights: torch.Tensor
        ) -> tuple[torch.Tensor]:
            offset = self.cost * (own[:, None] != marks[None, :]).to(x.dtype)
            found, _ = unrolled_gradients(x, y, weights, self.reg, self.mixture, self.sweeps, self.square, offset)
            return (clip_whole(2.0 * found, clip),)

        return Replayed(work)


class _Batches:
    """Samples in a fixed shape, from records that lie on the device, scaled to [−1, 1]."""

    def __init__(self, mechanism: SanitizedGradient, records: Records) -> None:
        import torch

        assert mechanism.capacity is not None
        self._room, self._device = mechanism.capacity, mechanism.device
        rows = (records.rows() - mechanism.low) * (2.0 / (mechanism.high - mechanism.low)) - 1.0
        # room that is not filled is filled with a public row of zeros: no record takes part unsampled
        rows = np.vstack([np.clip(np.nan_to_num(rows), -1.0, 1.0), np.zeros((1, rows.shape[1]))])
        self._rows = torch.from_numpy(rows).to(torch.float32).to(mechanism.device)
        marks = records.labels() if mechanism.labels else np.zeros(records.count, dtype=np.int64)
        self._marks = torch.from_numpy(np.append(marks, 0)).to(mechanism.device)

    def draw(self, indices: np.ndarray[Any, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(rows, labels, weights) of a sample: `capacity` rows, those beyond the sample with weight 0."""
        import torch

        held = np.zeros((2, self._room), dtype=np.int64)
        held[0] = len(self._rows) - 1
        taken = min(len(indices), self._room)
        held[0, :taken] = indices[:taken]
        held[1, :taken] = 1
        where, there = torch.from_numpy(held).to(self._device)
        return self._rows[where], self._marks[where], there.to(torch.float32)


class _Normals:
    """Noise for one step after another, each number of it handed out once."""

    def __init__(self, noise: NoiseSource, shape: tuple[int, int], sigma: float, device: str) -> None:
        self._noise, self._shape, self._sigma, self._device = noise, shape, sigma, device
        self._ahead = max(1, _AHEAD // (shape[0] * shape[1])) if device == "cuda" else 1
        self._held: list[torch.Tensor] = []

    def take(self) -> torch.Tensor:
        """Noise of one step."""
        import torch

        if not self._held:
            drawn = self._noise.normal_tensor((self._ahead, *self._shape), self._sigma, self._device, torch.float64)
            self._held = list(drawn)
        return self._held.pop()


def clip_whole(gradient: torch.Tensor, clip: float) -> torch.Tensor:
    """The whole matrix in float64 with Frobenius norm at most C·(1 − 1e-6); zero if any entry is not finite."""
    import torch

    held = gradient.to(torch.float64)
    # the norm of held/max: neither 1e200 overflows nor 1e-200 vanishes; whatever is not finite ends in a factor of 0
    top = held.abs().amax()
    fine = torch.isfinite(top)
    held = torch.where(fine, torch.nan_to_num(held), torch.zeros_like(held))
    top = torch.where(fine & (top > 0.0), top, torch.ones_like(top))
    unit = held / top
    bound = clip * (1.0 - MARGIN)
    norm = torch.linalg.vector_norm(unit)
    return torch.where(norm * top > bound, unit * (bound / norm), held)
