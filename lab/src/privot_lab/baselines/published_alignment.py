"""Releases the gradient of a smoothed sliced distance as DP-SWD published it: UNPROVEN, for comparison only.

The gradient flows through the private side too, so un-noised derivatives of the network at private records enter what
leaves; adding noise to projections does not cover those. `ProjectedRepresentation` is the sound version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privot.accounting import FixedSize, Sampled
from privot.accounting.events import Event, Frame, Projection
from privot.common import arguments
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms import Facts, Needs
from privot.mechanisms.directions import draw_directions, fresh_seed
from privot.mechanisms.mechanism import Answer, Records
from privot.mechanisms.representation import Representation, Weights, single
from privot.noise import NoiseSource
from privot.noise.adding_tensor import plain
from privot.release import Value

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class AlignmentQuery:
    """Public weights by name, and as many public source rows (batch, columns) as a private batch has."""

    weights: Weights
    source: Tensor


@dataclass(frozen=True, eq=False)
class PublishedAlignment:
    """∇_θ DP_σSWD(g(x_s), g(x_t)) of a batch, as in Rakotomamonjy & Ralaivola 2021, Algorithm 2, lines 8 to 13.

    Both sides are divided by twice the largest norm of their own batch, which depends on the records; the stated
    event is what the authors count, a sampled projection with Δ = 1 in the latent dimension. UNPROVEN for both reasons.
    """

    representation: Representation
    slices: int
    sigma: float
    batch: int
    steps: int = 1
    frame: Frame = "independent"

    def __post_init__(self) -> None:
        for name in ("slices", "batch", "steps"):
            object.__setattr__(self, name, arguments.whole(f"The number of {name}", getattr(self, name), 1))
        object.__setattr__(self, "sigma", arguments.sigma(self.sigma))

    @property
    def needs(self) -> Needs:
        """Records of the network's columns, at least a batch."""
        return Needs(dim=self.representation.columns, least_records=self.batch, tensors=True)

    @property
    def standing(self) -> Standing:
        """UNPROVEN: no theorem covers a gradient through the private side."""
        return Standing.UNPROVEN

    @property
    def seed(self) -> None:
        """Every step draws its own directions."""
        return None

    def event(self, facts: Facts) -> Event:
        """What the authors count for one step."""
        if facts.records is None:
            raise UsageError("A batch is drawn from a public number of records: use replace-one neighbours.")
        one = Projection(self.representation.size, self.slices, self.sigma, 1.0, facts.adjacency, self.frame)
        return Sampled(one, FixedSize(self.batch, facts.records))

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Value, Mapping[str, Any]]:
        """Refused: every step answers a query."""
        raise UsageError("A published alignment answers queries: call answer(query) on its stream.")

    def check(self, query: Any) -> AlignmentQuery:
        """A plain copy of the query."""
        if type(query) is not AlignmentQuery or not isinstance(query.weights, Mapping):
            raise UsageError(f"Expected an AlignmentQuery, got {type(query).__name__}.")
        source = plain(query.source, "The source rows")
        if tuple(source.shape) != (self.batch, self.representation.columns):
            raise UsageError(f"The query must have {self.batch} source rows of {self.representation.columns} columns.")
        return AlignmentQuery({str(n): plain(t, "A weight") for n, t in query.weights.items()}, source)

    def begin(self, records: Records, noise: NoiseSource, event: Event) -> Answer:
        """The answers of one charge."""
        import torch

        if not isinstance(event, Sampled) or not isinstance(event.event, Projection):
            raise UsageError("A published alignment runs on the event it made.")
        sampling, projection = event.sampling, event.event
        held = torch.from_numpy(single(records.rows())).to(self.representation.device)

        def answer(step: int, query: AlignmentQuery) -> tuple[Value, Mapping[str, Any]]:
            rows = held[torch.from_numpy(sampling.draw(noise, records.count)).to(held.device)]
            drawn = draw_directions(projection.dim, projection.slices, projection.frame, fresh_seed(), step)
            directions = torch.from_numpy(drawn).to(held)
            weights = {n: t.clone().requires_grad_(t.dtype.is_floating_point) for n, t in query.weights.items()}
            moved = []
            for side in (query.source, rows):
                latent = self.representation.evaluate(weights, side)
                latent = latent / (2.0 * torch.linalg.vector_norm(latent, dim=1).max().clamp(min=1e-12))
                shape = (len(side), projection.slices)
                fuzz = noise.normal_tensor(shape, projection.sigma, held.device, torch.float32)
                moved.append((latent @ directions + fuzz).sort(dim=0).values)
            loss = (moved[0] - moved[1]).square().mean()
            wanted = [n for n, t in weights.items() if t.requires_grad]
            found = torch.autograd.grad(loss, [weights[n] for n in wanted], allow_unused=True)
            value: Any = {
                n: torch.zeros_like(weights[n]) if g is None else torch.nan_to_num(g)
                for n, g in zip(wanted, found, strict=True)
            }
            return value, {"mechanism": "published alignment", "sigma": projection.sigma, "step": step}

        return answer
