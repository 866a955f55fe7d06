"""Releases a linear classifier on public features, tuned on all records by noisy gradient steps; it shows nothing else.

Every step adds the gradients of all records, clipped, and Gaussian noise (DP-SGD without sampling, Abadi et al. 2016).
The next step depends on what the earlier ones released and on nothing else of the records, so the T steps compose
adaptively, and exactly: T Gaussian mechanisms with noise σ√T are one with noise σ (Dong, Roth & Su 2022, Cor. 3.3).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Gaussian, Repeated, repeated
from privot.common import arguments
from privot.common.devices import usable_device
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.cuda_stream import refuse_recording
from privot.mechanisms.embedding import stated_assumptions, weakest_standing
from privot.mechanisms.exact_sums import MARGIN, MAX_RECORDS, FeatureMap, exact_root, try_map
from privot.mechanisms.mechanism import Facts, Needs, Once, Records
from privot.noise import NoiseSource
from privot.noise.adding import add_noise, grid_of

if TYPE_CHECKING:
    import torch

_ROWS = 1024
_UNIT = 2.0**-53
MAX_SIZE, MAX_FEATURE, _BITS = 2**15, 8.0, 16
"""2¹⁵ squares of multiples of 2⁻¹⁶ up to 8 add up below 2⁵³ units: a norm is exact before its root."""
_FINE, _MAX_WEIGHTS, _COARSE = 24, 2.0**10, 18
"""Features of norm 1 on a grid of 2⁻²⁴ times weights of norm 2¹⁰ on one of 2⁻¹⁸ stay below 2⁵² units: exact."""
_MOMENTUM = 0.8
_MAX_KEPT = 2**29
"""Features that are kept for all steps: 2 GB in float32."""


def tuning_event(sigma: float, rounds: int, adjacency: Adjacency) -> Event:
    """What `rounds` steps cost that together are a Gaussian mechanism with noise `sigma`."""
    return repeated(Gaussian(sigma * math.sqrt(rounds), adjacency.sensitivity(1.0), adjacency), rounds)


@dataclass(frozen=True, eq=False)
class TunedHead(Once):
    """W of shape (size, classes) after T steps down the noisy gradient of the records' cross-entropy.

    With g = φ(x) and p = softmax(gW), a record (x, c) has the gradient g ⊗ (p − e_c), e_c its class. A step releases
    S = Σ g ⊗ (p − e_c)·min(1, 1/‖p − e_c‖) + N(0, σ²T) over *all* records and goes v ← 0.8v + 0.2S, W ← W − rate·v,
    from `start`, T = `rounds`. Released is the mean of W over the last half of the steps. `rate` is per unit of the
    sum: for the mean's gradient, divide by a public or a released number of records.

    Formal guarantees:
      * a record enters a step through its own term only, whose norm is at most ‖g‖ ≤ 1 − 1e-5: so neighbours differ by
        at most 1 (add-remove) or 2 (replace-one) in every step;
      * that holds in floating point: the map must answer exactly (`rounding` 0, every row by itself); g is clipped by
        an exact norm and put on a grid, W on another, so that gW is exact. What is left, the softmax and the sum over
        the records, is rounded by less than the margin of 1e-5, or the release is refused;
      * features that are not finite count as zero.

    As of every map, that its rows do not influence each other is the map's promise; it is tried on public rows. A map
    that rests on more says so, and so does the release: by its standing on this device, and by its assumptions.
    """

    features: FeatureMap
    start: NDArray[np.float64]
    sigma: float
    rounds: int
    rate: float
    device: str = "cpu"

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "sigma", arguments.sigma(self.sigma))
        set_(self, "rounds", arguments.whole("The number of steps", self.rounds, 1))
        start = np.array(self.start, dtype=np.float64)
        start.setflags(write=False)
        set_(self, "start", start)
        if start.ndim != 2 or len(start) != self.features.size or not np.isfinite(start).all():
            raise UsageError(f"The first weights must be finite numbers, {self.features.size} for every class.")
        if not 0.0 < self.rate < math.inf:
            raise UsageError(f"The rate must be a number above 0, got {self.rate!r}.")
        if self.features.rounding != 0.0 or self.features.size > MAX_SIZE:
            raise UsageError(
                f"Tuning needs a feature map of at most {MAX_SIZE} numbers that are the same to the last bit, "
                "whatever records stand beside a record."
            )

    @property
    def needs(self) -> Needs:
        """The columns the map was made for, and labels."""
        return Needs(dim=self.features.dim, labels=True, tensors=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the event's own theorem is all it rests on; unless the map says less of itself on this device."""
        return weakest_standing((self.features,), self.device)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee rests on because of the map: that a public encoder did not see these records before."""
        return stated_assumptions((self.features,))

    def event(self, facts: Facts) -> Event:
        """T Gaussian mechanisms; all that can be refused is refused here, before anything is paid."""
        device = usable_device(self.device)
        refuse_recording()
        if facts.classes != self.start.shape[1]:
            raise UsageError(f"The first weights are for {self.start.shape[1]} classes, the records have others.")
        try_map(self.features, device)
        self._check(facts.records or 1)
        return tuning_event(self.sigma, self.rounds, facts.adjacency)

    def _check(self, records: int) -> None:
        size, classes = self.start.shape
        check_rounding(records, size, classes, self.sigma, self.rounds)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, Any]]:
        """The tuned weights, and what it takes to use them."""
        one, rounds = (event.event, event.times) if isinstance(event, Repeated) else (event, 1)
        facts = records.facts
        if not isinstance(one, Gaussian) or (one.sensitivity, rounds) != (
            facts.adjacency.sensitivity(1.0),
            self.rounds,
        ):
            raise UsageError("A classifier is tuned on the event it made.")
        if facts.adjacency is Adjacency.ADD_REMOVE:
            # cannot be checked before paying, since the number is private; beyond 6·10⁶ records (`docs/sharp-edges.md`)
            self._check(records.count)
        seen = _Blocks(lambda first: self._block(records, first), records.count, self.features.size)
        weights, speed = self.start.copy(), np.zeros_like(self.start)
        last, kept = rounds // 2, np.zeros_like(self.start)
        for number in range(rounds):
            slope = add_noise(self._slope(seen, weights), noise, one.sigma)
            speed = _MOMENTUM * speed + (1.0 - _MOMENTUM) * slope
            weights = weights - self.rate * speed
            if number >= last:
                kept += weights / (rounds - last)
        return {"weights": kept}, self.public(facts)

    def public(self, facts: Facts) -> dict[str, Any]:
        """What a release states beside its value; it follows from the design and from public facts."""
        return {
            "mechanism": "tuning",
            "features": self.features.to_dict(),
            "start": hashlib.sha256(self.start.astype("<f8").tobytes()).hexdigest(),
            "classes": facts.classes,
            "records": facts.records,
            "sigma": self.sigma,
            "rounds": self.rounds,
            "rate": self.rate,
        }

    def _block(self, records: Records, first: int) -> tuple[torch.Tensor, torch.Tensor]:
        """g and labels of the records of a block, from the record `first` on.

        In float32, which holds multiples of 2⁻²⁴ below 1 as they are.
        """
        import torch

        indices = np.arange(first, min(first + _ROWS, records.count))
        with torch.no_grad():
            # in float64 whatever was given: maps are exact, and alike in any company, in that type only
            rows = np.ascontiguousarray(records.rows(indices), dtype=np.float64)
            x = torch.from_numpy(rows).to(usable_device(self.device))
            return bounded(self.features.features(x)).float(), torch.from_numpy(records.labels(indices)).to(x.device)

    def _slope(self, seen: Iterable[tuple[torch.Tensor, torch.Tensor]], weights: NDArray[np.float64]) -> Any:
        """Σ g ⊗ (p − e_c)·min(1, 1/‖p − e_c‖), in float64."""
        import torch

        held = torch.from_numpy(on_grid(weights))
        total = torch.zeros_like(held)
        for kept, labels in seen:
            g, held, total = kept.double(), held.to(kept.device), total.to(kept.device)
            off = torch.softmax(g @ held, dim=1)
            off[torch.arange(len(off), device=off.device), labels] -= 1.0
            off /= off.square().sum(dim=1, keepdim=True).sqrt().clamp(min=1.0)
            total += g.T @ off
        return total.cpu().numpy()


class _Blocks:
    """Blocks of records' features for every step, as `make` makes them from a first record.

    The first 2²⁹ numbers are kept, since a map may be slow; the others are made anew for every step, so that memory
    does not grow with the records. A map that is exact makes the same numbers every time.
    """

    def __init__(self, make: Callable[[int], tuple[torch.Tensor, torch.Tensor]], count: int, size: int) -> None:
        self._make, self._count = make, count
        self._keep = _MAX_KEPT // max(1, size)
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for first in range(0, self._count, _ROWS):
            block = self._kept.get(first) or self._make(first)
            if first + len(block[0]) <= self._keep:
                self._kept[first] = block
            yield block


def check_rounding(records: int, size: int, classes: int, sigma: float, rounds: int) -> None:
    """Refuse unless everything that a step rounds, for both neighbours, stays below the margin.

    With u = 2⁻⁵³ and k classes a record's p − e_c is off by at most (2k + 32)u; a sum of terms of norm 1 in blocks of r
    rows by r·u per record within a block, in any order, and by u for every block added later.
    """
    each = (2 * classes + 32 + _ROWS + -(-records // _ROWS)) * _UNIT
    grid = grid_of(sigma * math.sqrt(rounds)) * math.sqrt(size * classes)
    if not (records < MAX_RECORDS and 2.0 * records * each + grid <= MARGIN):
        raise UsageError(
            "Rounding could outgrow the margin that keeps this release private: use fewer records, "
            "a map with fewer numbers, or less noise."
        )


def bounded(phi: torch.Tensor) -> torch.Tensor:
    """Features with norm at most 1 − MARGIN on a grid of 2⁻²⁴, each row by exact sums of its own numbers alone."""
    import torch

    phi = phi.to(torch.float64)
    # an infinity or NaN anywhere: the whole row counts as zero
    phi = torch.where(torch.isfinite(phi).all(dim=1, keepdim=True), phi, 0.0)
    whole = torch.round(phi.clamp(-MAX_FEATURE, MAX_FEATURE) * 2.0**_BITS)
    norms = exact_root(whole.square().sum(dim=1, keepdim=True)) * 2.0**-_BITS
    most = 1.0 - MARGIN
    share = torch.where(norms > most, most / norms, 1.0)
    # towards zero, so that no norm grows
    return torch.trunc(whole * (share * 2.0 ** (_FINE - _BITS))) * 2.0**-_FINE


def on_grid(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Public weights as a step uses them: norm at most 2¹⁰ per class, on a grid of 2⁻¹⁸."""
    norms = np.linalg.norm(weights, axis=0)
    with np.errstate(divide="ignore"):
        held = weights * np.minimum(1.0, (1.0 - 1e-9) * _MAX_WEIGHTS / norms)
    out: NDArray[np.float64] = np.ldexp(np.trunc(np.ldexp(np.nan_to_num(held), _COARSE)), -_COARSE)
    return out
