"""Releases how many records each of a few public classifiers gets right; it shows nothing else.

The counts select one of the classifiers, which were trained on samples. A count needs little noise, so a small part of
a budget is enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Gaussian
from privot.common import arguments
from privot.common.block_sums import Totals
from privot.common.devices import usable_device
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.cuda_stream import refuse_recording
from privot.mechanisms.exact_sums import FeatureMap, try_map
from privot.mechanisms.mechanism import Facts, Needs, Once, Records
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma

if TYPE_CHECKING:
    import torch

_ROWS = 1024
_UP = 1.0 + 1e-12
"""The sensitivity is stated this much too large, which covers the rounding of a root."""


def correct_counts_event(sigma: float, classifiers: int, adjacency: Adjacency) -> Event:
    """The cost of counting the correct predictions of so many classifiers, N(0, `sigma`²) on each."""
    return Gaussian(sigma, math.sqrt(classifiers) * _UP, adjacency)


@dataclass(frozen=True, eq=False)
class CorrectCounts(Once):
    """K counts plus N(0, σ²) each: of the records (x, c) with s_c(x) > s_j(x) for every other class j.

    The scores s of a classifier are its first numbers, as many as there are classes. A tie counts as wrong.

    Formal guarantees:
      * a record adds 0 or 1 to each count, so adding, removing or replacing one moves them by −1, 0 or 1 each: Δ = √K;
      * that holds in floating point: a map must answer exactly (`rounding` 0, every row by itself), so whether a record
        counts does not depend on the records beside it; counts are whole numbers, and noise is added on a grid that
        holds them (`privot.noise.noisy_counts`);
      * scores that are not finite count as wrong; no record, and no number of records, can make the release fail.

    As of every map, that its rows do not influence each other is the map's promise; it is tried on public rows.
    """

    classifiers: tuple[FeatureMap, ...]
    sigma: float
    device: str = "cpu"
    made_from: str = ""
    """The name of the release that the classifiers were made from, if any; it is published with the counts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", arguments.sigma(self.sigma))
        object.__setattr__(self, "classifiers", tuple(self.classifiers))
        check_counting_sigma(self.sigma)
        if not self.classifiers or len({c.dim for c in self.classifiers}) != 1:
            raise UsageError("Name at least one classifier, all of them for the same number of columns.")
        if any(c.rounding != 0.0 for c in self.classifiers):
            raise UsageError(
                "Correct predictions are counted for classifiers whose scores do not depend, to the last bit, on the "
                "records beside a record."
            )

    @property
    def needs(self) -> Needs:
        """The columns the classifiers were made for, and labels."""
        return Needs(dim=self.classifiers[0].dim, labels=True, tensors=True, sums_only=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the Gaussian mechanism's own theorem is all it rests on."""
        return Standing.PROVEN

    def event(self, facts: Facts) -> Event:
        """One Gaussian release; all that can be refused is refused here, before anything is paid."""
        device = usable_device(self.device)
        refuse_recording()
        for classifier in self.classifiers:
            if facts.classes is None or facts.classes < 2 or classifier.size < facts.classes:
                raise UsageError("A classifier must have a score for every class of the records, of at least two.")
            try_map(classifier, device)
        return correct_counts_event(self.sigma, len(self.classifiers), facts.adjacency)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
        """The noisy counts, in the order of the classifiers, and what is public about them."""
        if event != correct_counts_event(self.sigma, len(self.classifiers), records.facts.adjacency):
            raise UsageError("Correct predictions are counted on the event they made.")
        assert isinstance(event, Gaussian)
        return add_noise_to_counts(self._count(records), noise, event.sigma), self.public(records.facts)

    def public(self, facts: Facts) -> dict[str, Any]:
        """What a release states beside its value; it follows from the design and from public facts."""
        return {
            "mechanism": "hits",
            "classifiers": [c.to_dict() for c in self.classifiers],
            "classes": facts.classes,
            "records": facts.records,
            "sigma": self.sigma,
            "made_from": self.made_from,
        }

    def _count(self, records: Records) -> NDArray[np.int64]:
        assert records.facts.classes is not None
        return records.sums(CorrectSums(self.classifiers, records.facts.classes, self.device))[0]


@dataclass(frozen=True, eq=False)
class CorrectSums:
    """How many records each of the `classifiers` gets right."""

    classifiers: tuple[FeatureMap, ...]
    classes: int
    device: str
    labels: bool = True
    tensors: ClassVar[bool] = True

    def zeros(self) -> Totals:
        """One number per classifier."""
        return (np.zeros(len(self.classifiers), dtype=np.int64),)

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Count one block of rows."""
        import torch

        assert labels is not None
        device = usable_device(self.device)
        with torch.no_grad():
            for start in range(0, len(rows), _ROWS):
                x = torch.from_numpy(np.ascontiguousarray(rows[start : start + _ROWS])).to(device)
                own = torch.from_numpy(np.ascontiguousarray(labels[start : start + _ROWS])).to(device)
                totals[0][:] += [int(_right(c.features(x)[:, : self.classes], own).sum()) for c in self.classifiers]


def _right(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Whether a row's own class has a score above all others, which are finite; by comparing alone."""
    import torch

    own = scores.gather(1, labels[:, None])
    others = torch.ones_like(scores, dtype=torch.bool).scatter_(1, labels[:, None], False)
    found: torch.Tensor = torch.where(others, scores < own, True).all(dim=1)
    return found & torch.isfinite(scores).all(dim=1)
