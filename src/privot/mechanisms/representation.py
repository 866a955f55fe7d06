"""Releases noisy projections of a public network's representation of the records (DP-SWD, Algorithm 2, made sound).

The network's weights come with the query: they are public, made of public data and earlier releases. The mechanism
computes g(x) itself; each row of the result depends on one record. The released value is a constant to the training:
no derivative of g at a record is ever formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Frame, Projection, Sampled
from privot.accounting.sampling import FixedSize
from privot.common import arguments
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.directions import draw_directions, fresh_seed
from privot.mechanisms.mechanism import Answer, Facts, Needs, Records
from privot.noise import NoiseSource
from privot.noise.adding import add_noise, check_ratio
from privot.noise.adding_tensor import plain
from privot.release import Value

if TYPE_CHECKING:
    from torch import Tensor

Weights = Mapping[str, "Tensor"]
BLOCK = 256
"""Rows that go through the network together, always the same number: another number may round a row differently."""


class Representation(Protocol):
    """A public function g of one record, given public weights."""

    @property
    def columns(self) -> int:
        """Numbers in a record."""
        ...

    @property
    def size(self) -> int:
        """Numbers in g(x): the dimension that is really projected."""
        ...

    @property
    def device(self) -> str:
        """Where it is computed: cpu or cuda."""
        ...

    def evaluate(self, weights: Weights, rows: Tensor) -> Tensor:
        """Evaluate g on every row of (rows, columns), float32, using `weights`: (rows, size), each row by itself."""
        ...


@dataclass(frozen=True, eq=False)
class RepresentationQuery:
    """The public weights at which the records are to be represented, by name."""

    weights: Weights


@dataclass(frozen=True, eq=False)
class ProjectedRepresentation:
    """(U, Z·U + V): Z = rows g(x) clipped to norm `clip`, U `slices` public directions, V i.i.d. N(0, `sigma`²).

    Rakotomamonjy & Ralaivola 2021, Algorithm 2, with the projections released instead of a gradient through them. With
    `batch` each of the `steps` shows that many records, drawn without replacement and in random order; without it, all.

    Formal guarantees, replace-one neighbours (add-remove is refused, since rows can be counted):
      * a row of Z depends on one record and on public weights, is finite (zero where g is not) and of norm at most C,
        so two values of it differ by at most 2C, whatever the weights: the event holds for every query;
      * the dimension that is counted is the one that is projected, the network's own `size`; the law of U is the
        counted one, drawn after the query is fixed, and new at every step;
      * the sampler that runs is the object that is counted, and so is σ.

    All of that assumes a g that treats records one by one. At every query, before a step is used up, g is tried on
    public rows beside different rows. That finds batch statistics, but proves nothing: use only code that you trust.
    """

    representation: Representation
    slices: int
    sigma: float
    clip: float = 0.5
    frame: Frame = "orthogonal"
    batch: int | None = None
    steps: int = 1

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "slices", arguments.whole("The number of slices", self.slices, 1))
        set_(self, "sigma", arguments.sigma(self.sigma))
        set_(self, "steps", arguments.whole("The number of steps", self.steps, 1))
        if isinstance(self.clip, bool) or not isinstance(self.clip, int | float) or not 1e-100 <= self.clip <= 1e100:
            raise UsageError(f"The clipping bound must be a number greater than 0, got {self.clip!r}.")
        arguments.check_frame(self.frame)
        if self.batch is not None:
            set_(self, "batch", arguments.whole("The batch", self.batch, 1))

    @property
    def needs(self) -> Needs:
        """Records of the network's columns, at least as many as one batch shows."""
        return Needs(dim=self.representation.columns, least_records=self.batch or 1, tensors=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the event's own theorem is all it rests on."""
        return Standing.PROVEN

    @property
    def seed(self) -> None:
        """Every step draws its own directions."""
        return None

    def event(self, facts: Facts) -> Event:
        """What one step costs: a projection in `size` dimensions with Δ = 2C, of a sample if there is a batch."""
        check_ratio(self.clip, self.sigma)
        projection = Projection(
            dim=self.representation.size,
            slices=self.slices,
            sigma=self.sigma,
            sensitivity=facts.adjacency.sensitivity(self.clip),
            adjacency=facts.adjacency,
            frame=self.frame,
        )
        if self.batch is None:
            return projection
        if facts.records is None:
            raise UsageError("A batch is drawn from a public number of records: use replace-one neighbours.")
        return Sampled(projection, FixedSize(self.batch, facts.records))

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Value, Mapping[str, Any]]:
        """Refused: every step answers a query."""
        raise UsageError("A projected representation answers queries: call answer(query) on its stream.")

    def check(self, query: Any) -> RepresentationQuery:
        """A plain copy of the query, if the network works with its weights and treats rows one by one."""
        # no subclass: its code would run beside the records
        if type(query) is not RepresentationQuery or not isinstance(query.weights, Mapping):
            raise UsageError(f"Expected a RepresentationQuery, got {type(query).__name__}.")
        held = RepresentationQuery({str(name): plain(t, "A weight") for name, t in query.weights.items()})
        try_representation(self.representation, held.weights)
        return held

    def begin(self, records: Records, noise: NoiseSource, event: Event) -> Answer:
        """The answers of one charge: records go to the device once."""
        import torch

        sampling = event.sampling if isinstance(event, Sampled) else None
        projection = event.event if isinstance(event, Sampled) else event
        if not isinstance(projection, Projection) or projection.adjacency is not Adjacency.REPLACE_ONE:
            raise UsageError("A projected representation runs on the event it made.")
        clip = projection.sensitivity / projection.adjacency.sensitivity(1.0)
        held = torch.from_numpy(single(records.rows())).to(self.representation.device)
        public = {
            "mechanism": "representation",
            "dim": projection.dim,
            "slices": projection.slices,
            "frame": projection.frame,
            "sigma": projection.sigma,
            "clip": clip,
            "batch": self.batch,
            "records": records.facts.records,
        }

        def answer(step: int, query: RepresentationQuery) -> tuple[Value, Mapping[str, Any]]:
            rows = held
            if sampling is not None:
                rows = held[torch.from_numpy(sampling.draw(noise, records.count)).to(held.device)]
            latent = clip_rows(represent(self.representation, query.weights, rows), clip)
            seed = fresh_seed()
            directions = draw_directions(projection.dim, projection.slices, projection.frame, seed, step)
            value = add_noise(latent @ directions, noise, projection.sigma)
            return value, {**public, "seed": seed, "step": step}

        return answer


def represent(representation: Representation, weights: Weights, rows: Tensor) -> NDArray[np.float64]:
    """g of every row, in blocks of one size; a row on which g is not finite becomes zero."""
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            padded = torch.nn.functional.pad(block, (0, 0, 0, BLOCK - len(block)))
            found = representation.evaluate(weights, padded)
            if tuple(found.shape) != (BLOCK, representation.size):
                raise UsageError("The network must give as many numbers per row as its size says: correct either.")
            parts.append(found[: len(block)].double().cpu().numpy())
    out = np.concatenate(parts)
    out[~np.isfinite(out).all(axis=1)] = 0.0
    return out


def single(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """Rows in float32, without the overflow warning, which would reveal that a record leaves its range."""
    with np.errstate(all="ignore"):
        return rows.astype(np.float32)


def try_representation(representation: Representation, weights: Weights) -> None:
    """Refuse a network that fails, or that gives fixed public rows other values beside other rows, or at a later call.

    Other rows stand before, between and after the fixed ones, since a recurrent layer only looks back. Their values
    have all sizes and signs, since a network that clamps to a distant range would not tell rows apart. The first rows
    come again at the end, since a network may remember the others.
    """
    import torch

    dice = np.random.default_rng(0)
    shape = BLOCK, representation.columns
    kept = dice.permutation(BLOCK) < BLOCK // 2
    ends = [0, -1]
    kept[ends] = False
    wide, other = (dice.choice([-1.0, 1.0], size=shape) * 10.0 ** dice.uniform(-9.0, 12.0, size=shape) for _ in "12")
    other[ends] = 1e12
    rows = np.where(dice.uniform(size=(BLOCK, 1)) < 0.5, wide, dice.uniform(size=shape))
    blocks = [single(np.where(kept[:, None], rows, company)) for company in (0.0, other, -other, 0.0)]
    try:
        found = [
            represent(representation, weights, torch.from_numpy(b).to(representation.device))[kept] for b in blocks
        ]
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"The network cannot be evaluated on public rows with these weights ({type(error).__name__})."
        ) from None
    if not all(np.array_equal(found[0], again) for again in found[1:]):
        raise UsageError(
            "The network gives a row another representation when other rows stand beside it or came before: put it "
            "into evaluation mode, let it keep nothing, and use group in place of batch statistics."
        )
