"""Releases noisy clipped gradients at generated points (DP-Sinkhorn); it shows nothing else of the records.

The records enter through G = ∇_X 2Ŵ(X, Y) alone, where Y is a fresh sample of them and X are public points that the
caller generated. Everything else of the semi-debiased loss is public and added afterwards by the training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privot.accounting.events import Event, Gaussian, Repeated, Sampled, repeated
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.common import arguments
from privot.common.devices import check_device
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.cuda_stream import Lane, refuse_recording
from privot.mechanisms.gradients.batches import Batches, Normals
from privot.mechanisms.mechanism import Answer, Facts, Needs, Records
from privot.noise import NoiseSource
from privot.noise.adding import check_ratio, grid_of
from privot.noise.adding_tensor import add_drawn, plain
from privot.release import Value

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class GradientQuery:
    """Public points x (rows, dim) in [−1, 1], their labels (rows,), whole numbers, None where there are no classes."""

    x: torch.Tensor
    labels: torch.Tensor | None = None


@dataclass(frozen=True)
class SanitizedGradient:
    """DP-Sinkhorn: the noisy clipped gradient G·min(1, C/‖G‖_F) + N(0, σ²), G = ∇_X 2Ŵ(X, Y), at public points X.

    The *whole* matrix is scaled to Frobenius norm at most C. Ŵ is the entropic transport cost of ‖x−y‖² + m‖x−y‖₁ on
    [x; 15·one-hot], between X and a sample Y of the records.

    Parameters
    ----------
    points
        How many public points X a group of a query has.
    sigma
        σ, the standard deviation of the noise (a multiplier σ_m means σ = σ_m·2C).
    clip
        C, the largest norm of the gradient.
    sampling
        Draws Y, and is what the accountant counts: `Poisson` under add-remove, `FixedSize` under replace-one.
    steps
        How many queries are answered for one charge.
    capacity
        At most so many records of a Poisson sample take part, since it has no fixed size; room that is not filled has
        weight 0. A fixed-size sample has its own.
    reg, mixture, square, sweeps
        Of Ŵ: its regularisation, m, the weight of ‖x−y‖², and how many sweeps are run.
    labels, label_weight
        Whether points and records have labels, and the weight of a one-hot label.
    balance
        Give each class of a sample the weight that it has among the points; points of a class that the sample lacks do
        not move. Otherwise mass would move between classes wherever a small sample has other class shares.
    low, high
        The public range of the records, which are scaled from it to [−1, 1] and clamped there.
    device
        "cpu" or "cuda".
    samples
        How many groups of `points` points a query has, one after another; every group has a sample, a clip and noise of
        its own. On a GPU that is hardly more work than one group; each group is charged as a release.

    Returns
    -------
    Stream
        Of the vault: `answer(GradientQuery(x, labels))` returns a tensor of the shape of x, (points·samples,
        dimension).

    Raises
    ------
    UsageError
        If a parameter is out of range, or does not fit the public facts of the records, before anything is paid; if a
        query has the wrong shape, before it uses up a step.
    MissingDependencyError
        If PyTorch is not installed.

    Notes
    -----
    Formal guarantees:
      * every value lies in the ball of radius C whatever Y is (empty, cut off, or one on which Ŵ breaks down, where
        G = 0), so two values differ by at most 2C under either adjacency: Δ = 2C;
      * that holds in floating point: the norm is taken in float64 and kept 1e-6 below C, which covers the rounding of
        the norm and of the grid on which noise is added (checked before anything is paid);
      * `points` is fixed and public; the number of operations, the shapes and the absence of exceptions do not depend
        on the sample: a fixed number of sweeps, no tolerance, no branch on values;
      * the sampler that runs and σ are those of the event that was charged; each step draws samples and noise anew;
      * a group's value is a function of its own sample and points, so a step of s samples is s releases, all of whose
        queries were chosen before the first: composition covers more than that.

    References
    ----------
    Cao, Bie, Vahdat, Fidler & Kreis 2021, "Don't Generate Me: training differentially private generative models with
    Sinkhorn divergence", with the noise and the clipping stated once.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from privot import Vault
    >>> from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
    >>> vault = Vault(np.eye(8), clip=1.0, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> mechanism = SanitizedGradient(points=3, sigma=2.0, clip=0.5, sampling=FixedSize(2, 8), steps=2, sweeps=5)
    >>> stream = vault.stream(mechanism, purpose="two steps")
    >>> tuple(stream.answer(GradientQuery(torch.zeros(3, 8))).value.shape)
    (3, 8)
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
    balance: bool = False
    low: float = 0.0
    high: float = 1.0
    device: str = "cpu"
    samples: int = 1

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name in ("points", "steps", "samples", "sweeps"):
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
                f"Expected a public range with low < high, got low = {self.low!r} and high = {self.high!r}."
            )
        check_device(self.device)
        if isinstance(self.sampling, FixedSize):
            set_(self, "capacity", self.sampling.batch)
        elif not isinstance(self.sampling, Poisson):
            raise UsageError("The sampling must be Poisson or FixedSize.")
        if self.capacity is None:
            raise UsageError("A Poisson sample has no fixed size: give its capacity, a public number.")
        set_(self, "capacity", arguments.whole("The capacity", self.capacity, 1))

    @property
    def needs(self) -> Needs:
        """Labels, where the points have them, and a batch's worth of records."""
        least = self.sampling.batch if isinstance(self.sampling, FixedSize) else 1
        return Needs(least_records=least, labels=self.labels, tensors=True)

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
        """What one step costs: a Gaussian mechanism with Δ = 2C, of a sample, as often as it has samples."""
        if isinstance(self.sampling, FixedSize) and self.sampling.records != facts.records:
            if facts.records is None:
                raise UsageError("Fixed-size samples are drawn from a public number of records: use replace-one.")
            raise UsageError(f"The sampling was made for {self.sampling.records} records, there are {facts.records}.")
        check_ratio(self.clip, self.sigma)
        # the grid moves k coordinates of each neighbour by g/2 at most
        if grid_of(self.sigma) * math.sqrt(self.points * facts.dim) > MARGIN * self.clip:
            raise UsageError(
                "Rounding could outgrow the margin with this much noise on this many numbers: use fewer points."
            )
        return repeated(Sampled(Gaussian(self.sigma, 2.0 * self.clip, facts.adjacency), self.sampling), self.samples)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Value, Mapping[str, Any]]:
        """Refused: every step answers a query."""
        raise UsageError("A sanitized gradient answers queries: call answer(query) on its stream.")

    def check(self, query: Any) -> Any:
        """A plain copy of the query, if it has points of the right shape, on the device of the mechanism."""
        refuse_recording()
        # no subclass: its code would run beside the records
        if type(query) is not GradientQuery:
            raise UsageError(f"Expected a GradientQuery, got {type(query).__name__}.")
        labels = None if query.labels is None else plain(query.labels, "A query")
        held = GradientQuery(plain(query.x, "A query"), labels)
        rows = self.points * self.samples
        if held.x.dim() != 2 or len(held.x) != rows or not held.x.dtype.is_floating_point:
            raise UsageError(f"The query must have {rows} points, got shape {tuple(held.x.shape)}.")
        if (held.labels is not None) != self.labels:
            raise UsageError("A query has labels exactly where the mechanism was made with labels=True.")
        if held.labels is not None and tuple(held.labels.shape) != (rows,):
            raise UsageError(f"The query must have {rows} labels.")
        if held.x.device.type != self.device:
            raise UsageError(f"The query lies on {held.x.device.type}, the mechanism works on {self.device}.")
        return held

    def begin(self, records: Records, noise: NoiseSource, event: Event) -> Answer:
        """The answers of one charge: records go to the device once, samples and noise are drawn for many steps."""
        sigma, clip, batches, lane = self._ready(records, noise, event)
        normals = Normals(noise, (self.samples, self.points, records.facts.dim), sigma, self.device)
        check_ratio(clip, sigma)

        def finish(gradients: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
            return add_drawn(clip_each(gradients, clip), drawn, sigma, clip).flatten(0, 1)

        public, solve = self._public(event), self._solver(batches, finish)

        def answer(step: int, query: GradientQuery) -> tuple[Value, Mapping[str, Any]]:
            own = batches.marks.new_zeros(len(query.x)) if query.labels is None else query.labels
            with lane.turn() as hand_over:
                (noisy,) = solve(query.x, own, batches.take(), normals.take())
                value: Any = hand_over(noisy)
            return value, {**public, "step": step}

        return answer

    def _ready(self, records: Records, noise: NoiseSource, event: Event) -> tuple[float, float, Batches, Lane]:
        """(σ, C, samples, the private stream), σ, C and the sampler read off the event that was charged."""
        release, charged = self._charged(event)
        assert self.capacity is not None
        lane = Lane(self.device)
        with lane.turn():
            batches = Batches(
                records,
                noise,
                release.sampling,
                room=self.capacity,
                steps=self.steps,
                each=self.samples,
                span=(self.low, self.high),
                labels=self.labels,
                device=self.device,
            )
        return charged.sigma, charged.sensitivity / 2.0, batches, lane

    def _charged(self, event: Event) -> tuple[Sampled, Gaussian]:
        """(one sample's release, what runs on it); refused unless a step was charged for as many samples as it has."""
        times, release = (event.times, event.event) if isinstance(event, Repeated) else (1, event)
        if times != self.samples or not isinstance(release, Sampled) or not isinstance(release.event, Gaussian):
            raise UsageError("A sanitized gradient runs on the event it made.")
        return release, release.event

    def _public(self, event: Event) -> dict[str, Any]:
        """What is public about every step."""
        release, charged = self._charged(event)
        return {
            "mechanism": "gradient",
            "points": self.points,
            "samples": self.samples,
            "clip": charged.sensitivity / 2.0,
            "sigma": charged.sigma,
            "sampling": release.sampling.to_dict(),
            "reg": self.reg,
            "mixture": self.mixture,
            "sweeps": self.sweeps,
            "balance": self.balance,
        }

    def _solver(self, batches: Batches, finish: Callable[..., torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
        """(x, its labels, which records, more) → finish(∇_X 2Ŵ(X, Y), more), group by group; recorded once on a GPU.

        Samples and noise are arguments, drawn for one step: the recorded code draws nothing.
        """
        from privot.common.cuda_graphs import Replayed
        from privot.transport._solvers.unrolled import unrolled_gradients

        def work(x: torch.Tensor, own: torch.Tensor, where: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor]:
            x, own = x.view(self.samples, self.points, -1), own.view(self.samples, self.points)
            y, marks, weights = batches.rows_at(where)
            same, weights = own[..., :, None] == marks[..., None, :], weights.to(x.dtype)
            present, weights = balanced(own, marks, weights) if self.balance else (None, weights)
            offset = self.cost * (~same).to(x.dtype)
            (found,) = unrolled_gradients(
                x, y.to(x.dtype), weights, self.reg, self.mixture, self.sweeps, self.square, offset, present, both=False
            )
            return (finish(2.0 * found, *more),)

        return Replayed(work)


def balanced(own: torch.Tensor, marks: torch.Tensor, there: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(weights of points, weights of a sample's rows): classes both sides have, each with the points' share of it.

    `own` (n,) and `marks` (M,) are labels, `there` (M,) is 1 for rows of the sample. A point weighs 1 if the sample has
    its class, and a row the number of points of its class over the number of the sample's rows of it. One more axis in
    front: as many samples, each by itself.
    """
    same, column = (own[..., :, None] == marks[..., None, :]).to(there.dtype), there[..., None]
    points = (same @ column)[..., 0].clamp(max=1.0)
    alike = ((marks[..., :, None] == marks[..., None, :]).to(there.dtype) @ column)[..., 0]
    return points, there * same.sum(-2) / alike.clamp(min=1.0)


def clip_whole(gradient: torch.Tensor, clip: float) -> torch.Tensor:
    """The whole tensor in float64 with norm at most C·(1 − 1e-6); zero if any entry is not finite."""
    return clip_each(gradient[None], clip)[0]


def clip_each(gradients: torch.Tensor, clip: float) -> torch.Tensor:
    """The same for every entry of the first axis by itself."""
    import torch

    held = gradients.to(torch.float64).flatten(1)
    # the norm of held/max: neither 1e200 overflows nor 1e-200 vanishes; whatever is not finite ends in a factor of 0
    top = held.abs().amax(1, keepdim=True)
    fine = torch.isfinite(top)
    held = torch.where(fine, torch.nan_to_num(held), torch.zeros_like(held))
    top = torch.where(fine & (top > 0.0), top, torch.ones_like(top))
    unit = held / top
    bound = clip * (1.0 - MARGIN)
    norm = torch.linalg.vector_norm(unit, dim=1, keepdim=True)
    return torch.where(norm * top > bound, unit * (bound / norm), held).view(gradients.shape)
