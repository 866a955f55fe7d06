"""Releases noisy sums of bounded public features per class, once (mean embeddings); it shows nothing else.

The release is one Gaussian mechanism, without sampling and without composition (Harder, Adamczewski & Park 2021).
Everything after it, a generator's whole training included, is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Gaussian
from privot.common import arguments
from privot.common.block_sums import Totals
from privot.common.declared import declared
from privot.common.devices import usable_device
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.cuda_stream import refuse_recording
from privot.mechanisms.exact_sums import (
    MARGIN,
    MAX_RECORDS,
    FeatureMap,
    Sums,
    clip_features,
    float_sums,
    rounding_per_record,
    try_map,
)
from privot.mechanisms.mechanism import Facts, Needs, Once, Records
from privot.mechanisms.phase_sums import PhaseMap, PhaseSums, has_phases, try_phases
from privot.noise import NoiseSource
from privot.noise.adding import add_noise, grid_of

__all__ = [
    "MARGIN",
    "FeatureMap",
    "MeanEmbedding",
    "clip_features",
    "count_share",
    "stated_assumptions",
    "weakest_standing",
]

_BLOCK_ROWS = 1024
_BLOCK_NUMBERS = 1 << 24
"""Features held at once: 128 MiB as float64, and a few temporaries of that size."""


def count_share(size: int) -> float:
    """The weight b of the count beside features of weight a, a² + b² = 1: b² = 1/(1 + √size).

    It minimises size/a² + 1/b², the variance of all noise together once the weights are divided out, and is a
    public rule: it knows only how many numbers are released.
    """
    return math.sqrt(1.0 / (1.0 + math.sqrt(size)))


def weakest_standing(maps: Sequence[FeatureMap], device: str) -> Standing:
    """Of releases with all of `maps` on `device`; a map that says nothing of it rests on nothing that needs a proof.

    A map says it by `standing_on(device)`, or by `standing` where the device does not matter.
    """
    said = [each.standing_on(device) for each in maps if hasattr(each, "standing_on")]
    said += [each.standing for each in maps if hasattr(each, "standing")]
    return Standing.weakest([Standing.PROVEN, *said])


def stated_assumptions(maps: Sequence[FeatureMap]) -> tuple[str, ...]:
    """What releases with `maps` rest on because of them: that a public encoder did not see these records before."""
    return tuple(dict.fromkeys(said for each in maps for said in getattr(each, "assumptions", ())))


@declared(features="feature map", common="?feature map", count_weight="?number", common_share="number", device="word")
@dataclass(frozen=True)
class MeanEmbedding(Once):
    """For each class the noisy sum of bounded public features of its records, and their noisy number: one Gaussian
    release.

    A record (x, c) adds the vector (a·φ(x), b) to the row of its class c, a² + b² = 1, so the counts are paid for with
    the sums. With a `common` map χ and its share s it adds (a·√(1 − s)·φ(x), b) there and a·√s·χ(x) to one more row
    that all classes share: the mean of all records has as much noise as that of one class, and C times the records.

    Parameters
    ----------
    features
        φ, a public feature map with ‖φ(x)‖ ≤ 1: rows of shape (records, `features.dim`) → (records, `features.size`).
    sigma
        σ, the standard deviation of the noise.
    labels
        Whether the vault's classes are kept apart; without it there is one class.
    count_weight
        b, strictly between 0 and 1; `count_share` of the size unless given.
    device
        "cpu" or "cuda", where the features are computed; those of whole-number phases always are on the CPU.
    common, common_share
        χ, a public map like φ, and s, strictly between 0 and 1; None and 0 for no such row.

    Returns
    -------
    Release
        Of the vault: `sums` of shape (classes, size) and `counts` of shape (classes,) with the weights divided out, so
        that their noise is σ/a√(1 − s) and σ/b; `common` of shape (`common.size`,) with noise σ/a√s, if asked for.

    Raises
    ------
    UsageError
        If a parameter is out of range, the map fails on public rows or lets rows influence each other, or rounding
        could outgrow its margin: before anything is paid.
    MissingDependencyError
        If PyTorch is not installed.

    Notes
    -----
    Formal guarantees:
      * each record adds a vector of norm at most 1, to one row or to two, whatever the record and the maps say, since
        a²(1 − s) + a²s + b² = 1: features are clipped, and a row of features that are not finite counts as zero; of a
        map that gives whole-number phases (`phase_sums.PhaseMap`), features are taken from a table whose entries are
        the bound;
      * so neighbours differ by at most 1 (add-remove) or 2 (replace-one) over all classes together;
      * that holds in floating point: features are computed in float64, and the rounding of features, of the sums
        and of the grid on which noise is added stays below a margin of 1e-5 that the clipping leaves, or the
        release is refused.

    All of that assumes a map whose rows do not influence each other beyond its stated `rounding`. The map promises
    this. It is tried on a few public rows, alone and beside different rows, before anything is paid; that finds a
    network left in training mode (batch normalisation, dropout) but proves nothing. Use only maps that you trust.

    References
    ----------
    Harder, Adamczewski & Park 2021, "DP-MERF: differentially private mean embeddings with random features for practical
    privacy-preserving data generation".

    Examples
    --------
    >>> import torch
    >>> from privot import Vault
    >>> class Halves:  # φ(x) = x/2: of norm at most 1 where the rows' is at most 2
    ...     dim = size = 2
    ...     rounding = 0.0
    ...     def features(self, x):
    ...         return x / 2
    ...     def to_dict(self):
    ...         return {"kind": "halves"}
    >>> vault = Vault(np.eye(2), [0, 1], classes=2, clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    >>> release = vault.release(MeanEmbedding(Halves(), sigma=4.0, labels=True), purpose="class means")
    >>> release.value["sums"].shape, release.value["counts"].shape
    ((2, 2), (2,))
    """

    stable_name: ClassVar[str] = "privot.mechanisms.embedding.MeanEmbedding"

    features: FeatureMap
    sigma: float
    labels: bool = False
    count_weight: float | None = None
    device: str = "cpu"
    common: FeatureMap | None = None
    common_share: float = 0.0

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "sigma", arguments.sigma(self.sigma))
        if self.common is None and self.common_share != 0.0:
            raise UsageError("A share for the mean of all records needs a map for it.")
        if self.common is not None:
            if not 0.0 < self.common_share < 1.0:
                raise UsageError(
                    f"The share of the mean of all records must lie strictly between 0 and 1, got "
                    f"{self.common_share!r}."
                )
            if self.common.dim != self.features.dim:
                raise UsageError("Both maps must be made for the same number of columns.")
        if self.count_weight is None:
            set_(self, "count_weight", count_share(self.features.size))
        if not 0.0 < self._b < 1.0:
            raise UsageError(f"The weight of the count must lie strictly between 0 and 1, got {self.count_weight!r}.")

    @property
    def _b(self) -> float:
        assert self.count_weight is not None
        return self.count_weight

    @property
    def _all(self) -> float:
        """The weight of φ and χ together."""
        return math.sqrt((1.0 - self._b) * (1.0 + self._b))

    @property
    def _a(self) -> float:
        """The weight of φ."""
        return self._all * math.sqrt(1.0 - self.common_share) if self.common_share else self._all

    @property
    def _a_common(self) -> float:
        """The weight of χ."""
        return self._all * math.sqrt(self.common_share)

    @property
    def weights(self) -> tuple[float, float, float]:
        """a√(1 − s), a√s and b, that released numbers are multiplied by to have noise σ."""
        return self._a, self._a_common, self._b

    @property
    def maps(self) -> tuple[FeatureMap, ...]:
        """φ, and χ if there is one."""
        return (self.features,) if self.common is None else (self.features, self.common)

    @property
    def needs(self) -> Needs:
        """The columns that the map was made for, and labels if sums are per class."""
        return Needs(dim=self.features.dim, labels=self.labels, tensors=True, sums_only=True, shareable=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: the event's own theorem is all it rests on; unless a map says less of itself on this device."""
        return weakest_standing(self.maps, self.device)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee rests on because of the map: that a public encoder did not see these records before."""
        return stated_assumptions(self.maps)

    def identity(self) -> bytes:
        """The map to the last bit, and every other choice; refuses a map without `exact_bytes`."""
        said = b""
        for each in self.maps:
            exact = getattr(each, "exact_bytes", None)
            if exact is None:
                raise UsageError(
                    "This feature map has no exact_bytes(), which says what it is to the last bit: "
                    "use release in place of release_once."
                )
            held: bytes = exact()
            # with its length, so that no two pairs of maps say the same
            said += held if self.common is None else len(held).to_bytes(8, "big") + held
        shared = () if self.common is None else (self.common_share,)
        return said + repr((self.sigma, self.labels, self._b, self.device, *shared)).encode()

    def event(self, facts: Facts) -> Event:
        """A Gaussian mechanism with sensitivity 1 or 2.

        The map is tried on public rows before anything is paid, so a map that fails, or that lets rows influence each
        other, is refused. Whatever the map draws is drawn here too, which keeps the time between charge and release
        short: a kill in that time loses both. Noise whose rounding would be refused for any number of records is
        refused here, and so is a mode of PyTorch that receives every tensor, because it would see records.
        """
        device = usable_device(self.device, need="Embeddings need")
        refuse_recording()
        for each in self.maps:
            try_map(each, device)
            if has_phases(each):
                try_phases(cast(PhaseMap, each))
        self._check_rounding(facts.records or 1, self._classes(facts))
        return Gaussian(self.sigma, facts.adjacency.sensitivity(1.0), facts.adjacency)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, Any]]:
        """The noisy sums and counts, and what it takes to use them."""
        if not isinstance(event, Gaussian) or event.sensitivity != event.adjacency.sensitivity(1.0):
            raise UsageError("A mean embedding runs on the event it made.")
        facts = records.facts
        classes = self._classes(facts)
        if facts.adjacency is Adjacency.ADD_REMOVE:
            # cannot be checked before paying, since the number is private; beyond 10⁸ records (`docs/sharp-edges.md`)
            self._check_rounding(records.count, classes)
        held = [summand.floats(records.sums(summand)) for summand in self.summands(facts)]
        sums, counts = held[0]
        joint = np.concatenate([self._a * sums, (1.0 - MARGIN) * self._b * counts[:, None]], axis=1)
        shape, rows = joint.shape, joint.size
        if self.common is not None:
            joint = np.concatenate([joint.ravel(), self._a_common * held[1][0].ravel()])
        joint = add_noise(joint, noise, event.sigma)
        by_class = joint.ravel()[:rows].reshape(shape)
        value = {"sums": by_class[:, :-1] / self._a, "counts": by_class[:, -1] / self._b}
        if self.common is not None:
            value["common"] = joint[rows:] / self._a_common
        return value, self.public(facts, event.sigma)

    def summands(self, facts: Facts) -> list[FeatureSums | PhaseSums]:
        """What the pass over the records adds up: by class, then over all records."""
        found = [self._summand(self.features, self._classes(facts), self.labels)]
        return found if self.common is None else [*found, self._summand(self.common, 1, False)]

    def _summand(self, features: FeatureMap, classes: int, labels: bool) -> FeatureSums | PhaseSums:
        if has_phases(features):
            return PhaseSums(cast(PhaseMap, features), classes, labels)
        return FeatureSums(features, classes, labels, self.device)

    def public(self, facts: Facts, sigma: float) -> dict[str, Any]:
        """What a release states beside its value; it follows from the design and from public facts."""
        shared: dict[str, Any] = {}
        if self.common is not None:
            shared = {
                "common": self.common.to_dict(),
                "common_share": self.common_share,
                "common_sigma": sigma / self._a_common,
            }
        return {
            "mechanism": "embedding",
            "features": self.features.to_dict(),
            "classes": facts.classes if self.labels else None,
            "records": facts.records,
            "sigma": sigma,
            "sums_sigma": sigma / self._a,
            "counts_sigma": sigma / self._b,
            "count_weight": self._b,
            **shared,
        }

    def _classes(self, facts: Facts) -> int:
        return facts.classes or 1 if self.labels else 1

    def _check_rounding(self, records: int, classes: int) -> None:
        """Refuse unless everything that is rounded, for both neighbours, stays below the margin.

        In units of the norm: each of n records by the sum of `rounding_per_record` of the maps, whose weights are below
        1, and k coordinates by the grid, g·√k.
        """
        shared = 0 if self.common is None else self.common.size
        grid = grid_of(self.sigma) * math.sqrt(classes * (self.features.size + 1) + shared)
        each = sum(rounding_per_record(features) for features in self.maps)
        if not (records < MAX_RECORDS and 2.0 * records * each + grid <= MARGIN):
            raise UsageError(
                "Rounding could outgrow the margin that keeps this release private: use fewer records, "
                "a map with fewer numbers, or less noise."
            )


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Σ φ by class in two parts of whole numbers (`exact_sums.Sums`), and the number of records of each class."""

    features: FeatureMap
    classes: int
    labels: bool
    device: str
    tensors: ClassVar[bool] = True

    def zeros(self) -> Totals:
        """Two arrays (classes, size), and one of length `classes`."""
        shape = (self.classes, self.features.size)
        return np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(self.classes, np.int64)

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Add the features of one block of rows, a few at a time."""
        import torch

        device = usable_device(self.device, need="Embeddings need")
        if labels is None:
            labels = np.zeros(len(rows), dtype=np.int64)
        sums = Sums(self.classes, self.features.size, device)
        step = max(1, min(_BLOCK_ROWS, _BLOCK_NUMBERS // self.features.size))
        with torch.no_grad():
            for start in range(0, len(rows), step):
                # in float64 whatever was given: maps are exact, and alike in any company, in that type only
                x = torch.from_numpy(np.ascontiguousarray(rows[start : start + step], dtype=np.float64)).to(device)
                own = torch.from_numpy(np.ascontiguousarray(labels[start : start + step])).to(device)
                sums.add(*clip_features(self.features.features(x)), own)
        whole, rest = sums.parts()
        totals[0][:] += whole
        totals[1][:] += rest
        totals[2][:] += np.bincount(labels, minlength=self.classes)

    def floats(self, totals: Totals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Σ φ, rounded twice, and the number of records of each class."""
        return float_sums(totals[0], totals[1]), totals[2].astype(np.float64)
