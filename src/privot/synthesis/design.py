"""What a synthesis decides before anything is paid: the protocol of a design, and what designs share.

A design is made by a method (`privot.synthesis.methods`) from a config and the public facts, written into a job's
`job.json`, and read back when the job is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import Event, of_standing
from privot.errors import DataError, UnprovenError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.jobs.run import Run
from privot.mechanisms import Facts
from privot.release import Release
from privot.synthesis.job_files import CHOICE, LABELS
from privot.synthesis.neural.after_training.relabelling import Labelling
from privot.synthesis.neural.after_training.warp_selection import WarpSelection
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.encoder_features import code_width, codes_among

NOT_PAID_FOR = "The release in this folder is not the one its job paid for: restore it from a backup."


class Design(Protocol):
    """What every design offers, whichever method made it."""

    @property
    def mechanism(self) -> Any:
        """What is released first: once, or by the steps of one block."""
        ...

    @property
    def seed(self) -> int:
        """The public seed."""
        ...

    @property
    def delta(self) -> float:
        """δ at which the noise was calibrated."""
        ...

    @property
    def facts(self) -> Facts:
        """The public facts that it was made for."""
        ...

    @property
    def parts(self) -> Mapping[str, Labelling | WarpSelection]:
        """What is released after the first release, by the names of a job's parts, in that order."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        ...

    def event(self, facts: Facts) -> Event:
        """All that will be charged."""
        ...

    @property
    def several(self) -> bool:
        """Whether it is charged more than once, and so has to reserve what it costs."""
        ...

    def due(self, run: Run) -> Event:
        """What `run` has still to be charged for."""
        ...

    def check(self, facts: Facts, epsilon: float, delta: float, device: str) -> None:
        """Refuse, before anything is paid, a job that would fail or cost too much afterwards."""
        ...

    def check_standing(self, allow_unproven: bool) -> None:
        """Refuse a calibration that no theorem covers, unless it is allowed."""
        ...

    def check_release(self, release: Release) -> None:
        """Refuse a first release from disk that this design does not pay for."""
        ...


@dataclass(frozen=True)
class GeneratorDesign:
    """What designs of generators share; a method adds how its first release is written, charged and checked."""

    mechanism: Any
    rules: Rules
    seed: int
    delta: float
    facts: Facts
    method: str

    def __post_init__(self) -> None:
        labelling = self.labelling
        if labelling is None or labelling.kind != "encoder":
            return
        known = codes_among(getattr(self.mechanism, "maps", ()))
        if known is None:
            raise UsageError("Labels by the codes of an encoder need the encoder: give it, or leave out the labelling.")
        width = known.width
        if labelling.encoder is not None:
            width = code_width(PublicEncoder.from_dict(labelling.encoder), known.shape)
        if width != labelling.columns:
            raise UsageError(
                f"The labelling is for codes of {labelling.columns} numbers, those of the encoder have {width}."
            )

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that are protected."""
        return self.facts.adjacency

    @property
    def labels(self) -> bool:
        """Whether records have classes, and samples therefore labels."""
        return self.facts.classes is not None

    @property
    def labelling(self) -> Labelling | None:
        """How samples get their labels, if a later release pays for it."""
        return Labelling.from_dict(self.rules.options.get("labelling"))

    @property
    def label_encoder(self) -> PublicEncoder | None:
        """The encoder whose codes label samples: the one that the labelling names, else that of the first release."""
        labelling = self.labelling
        if labelling is not None and labelling.encoder is not None:
            return PublicEncoder.from_dict(labelling.encoder)
        known = codes_among(getattr(self.mechanism, "maps", ()))
        return None if known is None else known.encoder

    @property
    def labels_leaves(self) -> bool:
        """Whether samples are drawn pictures whose labels a later release pays for (`generators.leaves`)."""
        return self.rules.generator.get("kind") == "leaves" and self.labelling is not None

    @property
    def warp_selection(self) -> WarpSelection | None:
        """How the warp of samples is selected, if a later release pays for it."""
        return WarpSelection.from_dict(self.rules.options.get("choosing"))

    @property
    def public(self) -> Mapping[str, Any] | None:
        """What the design says of public images, if there are some: which, and what is made of them."""
        said: Mapping[str, Any] | None = self.rules.options.get("public")
        return said

    @property
    def several(self) -> bool:
        """Whether there are later parts."""
        return bool(self.parts)

    @property
    def parts(self) -> dict[str, WarpSelection | Labelling]:
        """What is released after the first release, by the names of a job's parts, in that order."""
        found = {CHOICE: self.warp_selection, LABELS: self.labelling}
        return {name: part for name, part in found.items() if part is not None}

    def common_dict(self) -> dict[str, Any]:
        """What every design of a generator writes, as plain JSON types."""
        return {
            "method": self.method,
            "rules": self.rules.to_dict(),
            "seed": self.seed,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "facts": self.facts.plain(),
        }

    @staticmethod
    def common_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that `common_dict` wrote."""
        adjacency = Adjacency.parse(fields["adjacency"])
        return {
            "rules": Rules.from_dict(fields["rules"]),
            "seed": int(fields["seed"]),
            "delta": float(fields["delta"]),
            "facts": Facts.from_plain(fields["facts"], adjacency),
            "method": str(fields["method"]),
        }

    def due_parts(self, run: Run, first: bool) -> list[Event]:
        """The cost of the later parts without a file; of all of them if the `first` release is still to be paid."""
        later = dict(self.parts)
        for name in self.parts:
            if first or not run.has(name):
                break
            del later[name]
        return [self.part_cost(part, self.facts) for part in later.values()]

    def part_cost(self, part: WarpSelection | Labelling, facts: Facts) -> Event:
        """What a later part costs, as the vault charges it: with the standing of its map on the design's device."""
        device = str(getattr(self.mechanism, "device", ""))
        standing = part.standing_on(device) if isinstance(part, Labelling) else Standing.PROVEN
        return of_standing(facts.cost(part.event(facts.adjacency)), standing)


class ReleasedOnce:
    """What designs of tables share: one release pays for everything, and it is proven."""

    several = False

    @property
    def parts(self) -> dict[str, Any]:
        """None: one release pays for everything."""
        return {}

    def event(self: Design, facts: Facts) -> Event:
        """All that will be charged: the one release."""
        return facts.cost(self.mechanism.event(facts))

    def due(self: Design, run: Run) -> Event:
        """The same: it is called only when the release has to be paid."""
        return self.event(self.facts)

    def check_standing(self, allow_unproven: bool) -> None:
        """Nothing to allow: counts and scores with Gaussian noise are proven."""

    def check_paid(self: Design, release: Release, same: bool) -> None:
        """Refuse a release that is not the `same` as the design's, or whose guarantee is of another event or δ."""
        events = [dict(e) for e in release.guarantee.events]
        same = same and release.guarantee.at_delta == self.delta
        if not same or events != [self.event(self.facts).to_dict()]:
            raise DataError(NOT_PAID_FOR)


def check_standing(event: Event, delta: float, allow_unproven: bool) -> None:
    """Refuse a calibration that no theorem covers, unless it is allowed."""
    standing = account(event, delta).standing
    if standing is not Standing.PROVEN and allow_unproven is not True:
        raise UnprovenError(
            f"The calibration, or the feature map, is {standing}, no theorem covers it: allow_unproven lets it through."
        )


def check_same_facts(wanted: Facts, found: Facts) -> None:
    """Refuse records whose public facts differ from those that a design was made for."""
    if wanted != found:
        names = [name for name, value in vars(wanted).items() if value != getattr(found, name)]
        raise DataError(f"These are not the records this synthesis was designed for: their {names[0]} differs.")


def check_cost(event: Event, decided: float, epsilon: float, delta: float) -> None:
    """Refuse noise, calibrated at δ = `decided`, that costs more than (ε, δ) or is counted at another δ.

    The accountant caches its results: the cost of the release is computed here, so that the time between the charge and
    the release on disk is short.
    """
    cost = account(event, decided)
    cost.to_dict()
    # written so that a NaN is refused; the slack is that of the search for σ
    if decided != delta or not cost.epsilon() <= epsilon * (1.0 + 1e-9):
        raise DataError(
            f"The noise that was decided on costs ε = {cost.epsilon():.6g} at δ = {decided:g}, not the "
            f"ε = {epsilon:g} at δ = {delta:g} that were requested: nothing was paid."
        )


def shares(counts: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """`n` labels in the proportion of `counts`, by largest remainders, in rising order."""
    exact = n * counts / counts.sum()
    whole = np.floor(exact).astype(np.int64)
    rest = n - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
    return np.repeat(np.arange(len(counts), dtype=np.int64), whole)


def facts_of(vault: Any) -> Facts:
    """The public facts of `vault`; refuses bare records, which no code here may see."""
    try:
        facts = vault.facts
    except AttributeError:
        facts = None
    if not isinstance(facts, Facts):
        raise UsageError(f"Expected a Vault, got {type(vault).__name__}: put the records into a vault with a budget.")
    return facts
