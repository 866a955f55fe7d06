"""What a synthesis decides before anything is paid, and how samples are shared out; it sees public facts only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import Composed, Event, repeated
from privot.errors import DataError, UnprovenError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.jobs.job import CHOICE, LABELS, RELEASE, Job
from privot.mechanisms import Facts, MeanEmbedding
from privot.release import Release
from privot.synthesis.defaults.embedding_defaults import Rules
from privot.synthesis.features.fourier import feature_map
from privot.synthesis.methods.dry_run import rehearse, rehearse_stream
from privot.synthesis.methods.streaming_method import Strategy
from privot.synthesis.refinement.relabelling import Labelling
from privot.synthesis.refinement.warp_selection import WarpSelection

METHODS = ("embedding", "sinkhorn", "sliced", "parameters")


@dataclass(frozen=True)
class SynthesisDesign:
    """Everything decided from public facts, before anything is paid."""

    mechanism: Any
    """What is released: a `MeanEmbedding` once, or the mechanism of one block of a stream."""
    rules: Rules
    seed: int
    delta: float
    adjacency: Adjacency
    facts: Facts
    method: str = "embedding"

    @property
    def labels(self) -> bool:
        """Whether records have classes, and samples therefore labels."""
        return self.facts.classes is not None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        common = {
            "method": self.method,
            "rules": self.rules.to_dict(),
            "seed": self.seed,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "facts": plain_facts(self.facts),
        }
        if self.method != "embedding":
            return {**common, "mechanism": strategy_of(self.method).write(self.mechanism)}
        held = {"sigma": self.mechanism.sigma, "labels": self.mechanism.labels}
        return {**common, **held, "features": self.mechanism.features.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], device: str) -> SynthesisDesign:
        """Read what `to_dict` wrote, for another device if need be."""
        try:
            method = str(fields["method"])
            adjacency = Adjacency.parse(fields["adjacency"])
            facts = Facts(adjacency=adjacency, **fields["facts"])
            mechanism: Any
            if method == "embedding":
                features = feature_map(fields["features"])
                mechanism = MeanEmbedding(features, fields["sigma"], bool(fields["labels"]), device=device)
            else:
                mechanism = strategy_of(method).read(fields["mechanism"], device)
            rules, seed, delta = Rules.from_dict(fields["rules"]), int(fields["seed"]), float(fields["delta"])
            return cls(mechanism, rules, seed, delta, adjacency, facts, method)
        except (KeyError, TypeError) as error:
            raise DataError(f"This does not describe a synthesis ({type(error).__name__}).") from None

    def check_facts(self, facts: Facts) -> None:
        """Refuse records about which other things are public than about those that this was designed for."""
        check_same_facts(self.facts, facts)

    @property
    def labelling(self) -> Labelling | None:
        """How samples get their labels, where a second release is for that."""
        return Labelling.from_dict(self.rules.options.get("labelling"))

    @property
    def choosing(self) -> WarpSelection | None:
        """How far samples are warped, where a later release is for that."""
        return WarpSelection.from_dict(self.rules.options.get("choosing"))

    @property
    def parts(self) -> dict[str, WarpSelection | Labelling]:
        """What is released after the first release, by the names of a job's parts, in that order."""
        found = {CHOICE: self.choosing, LABELS: self.labelling}
        return {name: part for name, part in found.items() if part is not None}

    def event(self, facts: Facts) -> Event:
        """All that will be charged: one release, or the steps of all blocks, and the later parts."""
        first = repeated(self.mechanism.event(facts), 1 if self.method == "embedding" else self.rules.steps)
        later = [part.event(facts.adjacency) for part in self.parts.values()]
        return Composed((first, *later)) if later else first

    def due(self, job: Job, spent: Callable[[str], int]) -> Event:
        """What of that is still to be charged for `job`: what has no file, and what is made from that."""
        later = dict(self.parts)
        first: list[Event] = []
        if self.method == "embedding":
            if not (job.folder / RELEASE).exists():
                first = [self.mechanism.event(self.facts)]
        else:
            count, size = self.blocks()
            left = count - int(spent(job.mark))
            first = [repeated(self.mechanism.event(self.facts), left * size)] if left > 0 else []
        for name in self.parts:
            if first or not (job.folder / f"{name}.npz").exists():
                break
            del later[name]
        events = (*first, *(part.event(self.facts.adjacency) for part in later.values()))
        # whoever asks is about to pay for something
        assert events
        return Composed(events)

    def block(self, facts: Facts) -> Event:
        """What one charge is for: one release, or one block."""
        return repeated(self.mechanism.event(facts), int(self.mechanism.steps))

    def blocks(self) -> tuple[int, int]:
        """Of a job that pays as it goes: how many charges there are, and the steps of each."""
        count, size = int(self.rules.options["blocks"]), int(self.mechanism.steps)
        if min(count, size) < 1 or count * size != self.rules.steps:
            raise DataError("This job's blocks do not fit its steps.")
        return count, size

    def check_standing(self, allow_unproven: bool) -> None:
        """Refuse a calibration that no theorem covers, unless it is allowed."""
        standing = account(self.block(self.facts), self.delta).standing
        if standing is not Standing.PROVEN and allow_unproven is not True:
            raise UnprovenError(
                f"The calibration that was chosen is {standing}, no theorem: say allow_unproven to use it nevertheless."
            )

    def check(self, facts: Facts, epsilon: float, delta: float, device: str) -> None:
        """Refuse, before anything is paid, what would be lost or cost too much afterwards."""
        self.check_facts(facts)
        if self.method == "embedding":
            classes = (facts.classes or 1) if self.mechanism.labels else 1
            rehearse(self.mechanism.features, self.rules, classes, device=device, seed=self.seed)
        else:
            self.blocks()
            rehearse_stream(self.rules, facts.classes or 1, facts.dim, device=device, seed=self.seed)
        check_cost(self.event(facts), self.delta, epsilon, delta)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose σ, feature map, weights or events are not those that this design pays for."""
        event = self.mechanism.event(self.facts)
        wanted = {
            "sigma": self.mechanism.sigma,
            "features": json.loads(json.dumps(self.mechanism.features.to_dict())),
            "count_weight": self.mechanism.count_weight,
            "classes": self.facts.classes if self.mechanism.labels else None,
            "records": self.facts.records,
        }
        found = {name: release.public.get(name) for name in wanted}
        events = [dict(e) for e in release.guarantee.events]
        if found != wanted or events != [event.to_dict()] or release.guarantee.at_delta != self.delta:
            raise DataError("The release in this folder is not the one its job paid for: restore it from a backup.")


def check_same_facts(wanted: Facts, found: Facts) -> None:
    """Refuse records about which other things are public than what was designed for."""
    if wanted != found:
        names = [name for name, value in vars(wanted).items() if value != getattr(found, name)]
        raise DataError(f"These are not the records this synthesis was designed for: their {names[0]} differs.")


def check_cost(event: Event, decided: float, epsilon: float, delta: float) -> None:
    """Refuse noise, decided on at δ = `decided`, that costs more than is asked for or is counted at another δ.

    The accountant remembers: what a release will say of its cost is worked out here, so that hardly a moment passes
    between the charge and the release on disk.
    """
    cost = account(event, decided)
    cost.to_dict()
    # written so that a NaN is refused; the slack is that of the search for σ
    if decided != delta or not cost.epsilon() <= epsilon * (1.0 + 1e-9):
        raise DataError(
            f"The noise that was decided on costs ε = {cost.epsilon():.6g} at δ = {decided:g}, not the "
            f"ε = {epsilon:g} at δ = {delta:g} that is asked for: nothing was paid."
        )


def plain_facts(facts: Facts) -> dict[str, Any]:
    """All but the adjacency, as plain JSON types."""
    return {name: value for name, value in vars(facts).items() if name != "adjacency"}


def strategy_of(method: str) -> Strategy:
    """How a method that pays as it goes does it."""
    if method == "sinkhorn":
        from privot.synthesis.methods.sinkhorn_training import SinkhornStrategy

        return SinkhornStrategy()
    if method == "sliced":
        from privot.synthesis.methods.sliced_training import SlicedStrategy

        return SlicedStrategy()
    if method == "parameters":
        from privot.synthesis.methods.sinkhorn_parameters import ParametersStrategy

        return ParametersStrategy()
    raise DataError(f"There is no method {method!r} that pays as it goes.")


def shares(counts: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """`n` labels in the proportion of `counts`, by largest remainders, in rising order."""
    exact = n * counts / counts.sum()
    whole = np.floor(exact).astype(np.int64)
    rest = n - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
    return np.repeat(np.arange(len(counts), dtype=np.int64), whole)


def usable_device(name: str) -> str:
    """`name`, with auto resolved."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"Unknown device {name!r}: say auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("There is no CUDA device here: use the device cpu.")
    return name


def facts_of(vault: Any) -> Facts:
    """What is public about the records in `vault`; refuses bare records, which nothing here may see."""
    try:
        facts = vault.facts
    except AttributeError:
        facts = None
    if not isinstance(facts, Facts):
        raise UsageError("What is learned from is a Vault, not the records: put them into one, with their budget.")
    return facts
