"""The protocol of an adaptation method; it knows no particular method.

A method is one module with its settings, a frozen `AdaptationConfig`; a class derived from `AdaptationMethod`, which
says what it releases of the target; and a learner, which says what it does with a release. It is one line in the
registry (`privot.adaptation.adaptation_methods.METHODS`). It sees releases and the public source, never the vault.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting import calibrate, embedding
from privot.accounting.events import Gaussian, repeated
from privot.adaptation.adaptation_config import AdaptationConfig, Sizes
from privot.adaptation.adaptation_design import AdaptationDesign, source_digest
from privot.adaptation.adaptation_terms import AdaptationTerms
from privot.adaptation.learner import TargetLearner
from privot.adaptation.networks import Committee, Networks, build
from privot.common.devices import usable_device
from privot.data.loading import checked_labels, checked_rows
from privot.errors import DataError, UnprovenError, UsageError
from privot.guarantee import Guarantee
from privot.kinds import Kind
from privot.mechanisms.mechanism import Facts, refuse_unit
from privot.synthesis.neural.features.fourier import public_range
from privot.transport.slice_directions import check_seed, fresh_seed


class AdaptationMethod(ABC):
    """What is released of a target, and how a classifier is trained on it; for records that are numbers.

    There is no word for a method that is proven: that is said by the mechanism that runs, and one that came with
    another distribution may not say it.
    """

    config: ClassVar[type[AdaptationConfig]]
    learner: ClassVar[Callable[..., TargetLearner]]
    """Makes what is trained, of (design, x, y, device, folder); the folder is that of the job, or None."""
    unproven: ClassVar[bool] = False
    """Whether no theorem covers what it releases, so that it must be allowed before anything is read."""
    sums: ClassVar[bool] = False
    """Whether it releases sums over all records of the target, and so can protect a unit."""
    follows: ClassVar[str] = "the classifier"
    """What follows from its releases, in the report's words."""
    beside_source: ClassVar[bool] = True
    """Whether its classifier is compared with one of the same networks that learned the source alone."""
    checks: ClassVar[Any] = None
    """The class of what was found before a stand-in was used, where there is one."""

    def network(self, image: bool) -> str:
        """The network that is used unless another is asked for."""
        return "digits" if image else "features"

    @abstractmethod
    def defaults(self, sizes: Sizes) -> AdaptationConfig:
        """The complete settings, from public facts."""

    def settings(self, asked: AdaptationConfig, sizes: Sizes) -> Any:
        """The complete settings: what is chosen, with what was asked for in place of it."""
        given = asked.given()
        odd = sorted(given.keys() - {f.name for f in fields(self.config)})
        if odd:
            raise UsageError(f"The method {asked.name} takes no {odd[0]} for these records: leave it out.")
        return self.config(**{**self.defaults(sizes).given(), **given})

    def sigma(self, settings: Any, size: int, facts: Facts, epsilon: float, delta: float) -> float | None:
        """σ for (ε, δ) and all releases together, None if there are none; `size` is the dimension of g's output."""
        return None

    def completed(self, design: AdaptationDesign, x: NDArray[Any], device: str, by_request: bool) -> AdaptationDesign:
        """`design` with what else is decided before anything is paid; `x` are the source's rows."""
        return design

    def plan(
        self, terms: AdaptationTerms, facts: Facts, x: NDArray[Any], y: NDArray[np.int64], *, by_request: bool
    ) -> AdaptationDesign:
        """What would be released and trained; `by_request` it is what an `AdaptationRequest` can ask for."""
        kind, (low, high) = terms.kind, terms.span
        if kind.whole_units:
            raise UsageError("An adaptation takes one table, and records of one kind: these are several tables.")
        device = usable_device(terms.device, auto=True)
        public_range(low, high, facts.dim)
        if x.shape[1] != facts.dim:
            raise DataError(f"The source has {x.shape[1]} columns, the target {facts.dim}: give both the same.")
        shape = None if kind.shape is None else [int(side) for side in kind.shape]
        if shape is not None and int(np.prod(shape)) != facts.dim:
            raise UsageError(f"An image of shape {tuple(shape)} has {np.prod(shape)} values, a record {facts.dim}.")
        network = terms.network or self.network(shape is not None)
        sizes = Sizes(shape is not None, facts.records or 1, network, device == "cuda")
        settings = self.settings(terms.asked, sizes)
        config = {"kind": network, "columns": facts.dim, "shape": shape, "classes": int(y.max()) + 1}
        seed = fresh_seed() if terms.seed is None else check_seed(terms.seed)
        budget = float(terms.epsilon), float(terms.delta)
        config |= {"low": low, "high": high}
        sigma = self.sigma(settings, build(config, seed).size, facts, *budget)
        design = AdaptationDesign(settings, config, sigma, *budget, seed, facts, source=source_digest(x, y))
        return self.completed(design, x, device, by_request)

    def check_allowed(self, allow_unproven: bool) -> None:
        """Refuse a method that no theorem covers, unless it is allowed."""
        if self.unproven and not allow_unproven:
            raise UnprovenError(
                f"The method {self.config.name} has no privacy proof: allow_unproven=True (--allow-unproven) uses it "
                "anyway."
            )

    def check(self, design: AdaptationDesign) -> None:  # noqa: B027 (most have nothing to add)
        """Refuse a design from a file that is not one of this method."""

    def paid_elsewhere(self, design: AdaptationDesign, paid: Guarantee, releases: int) -> AdaptationDesign:
        """`design` for the `releases` of a stream that somebody else paid for; refuses what it cannot learn from."""
        raise UsageError(f"The method {self.config.name} learns from no stream that somebody else paid for.")

    def source(self, source: Any, kind: Kind) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The public source as rows and labels."""
        return checked_source(source)

    def rows(self, records: Any, kind: Kind) -> NDArray[Any]:
        """Records to predict, as the networks take them."""
        return checked_rows(records)

    def networks(self, design: AdaptationDesign) -> Networks | Committee:
        """The networks that a model's weights belong to."""
        return build(design.networks, design.seed)

    def shown_records(self, facts: Facts) -> int:
        """The public number of records, for a method that shows or draws single ones: a unit is refused."""
        refuse_unit(facts, f"The method {self.config.name} shows or draws single records, so it")
        return public_count(facts)


class SumsMethod(AdaptationMethod):
    """A method that releases mean embeddings of the target.

    Formal guarantee: a mean embedding is a sum over all records, so a unit of k records moves it by at most k times
    what one record moves it (`privot.accounting.for_unit`), and σ is found for that. Other methods show a row per
    record, or draw samples of records: no theorem here covers a unit of them, and a unit is refused.
    """

    sums = True

    def sigma(self, settings: Any, size: int, facts: Facts, epsilon: float, delta: float) -> float | None:
        """σ of every release."""
        total = settings.releases
        if facts.unit is not None:
            reach = facts.adjacency.sensitivity(1.0)
            return calibrate(
                lambda sigma: repeated(facts.cost(Gaussian(sigma, reach, facts.adjacency)), total),
                epsilon=epsilon,
                delta=delta,
            )
        public_count(facts)
        return embedding(adjacency=facts.adjacency, delta=delta, epsilon=epsilon, releases=total).sigma


def public_count(facts: Facts) -> int:
    """The number of records, which is public where no unit is protected."""
    if facts.records is None:
        raise UsageError(
            "Without a unit, adaptation counts under replace-one neighbours, where the number of records is public."
        )
    return facts.records


def checked_source(source: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Public rows and labels 0, 1, …; refuses a source that cannot be trained on."""
    try:
        x, y = source
    except (TypeError, ValueError):
        raise UsageError("The source must be a pair (x, y) of rows and labels.") from None
    if y is None:
        raise DataError("The source has no labels: name them y.")
    rows = checked_rows(x)
    labels = checked_labels(y, len(rows))
    if labels.min() < 0 or labels.max() > 10_000 or labels.max() < 1:
        raise DataError("The source's labels must be whole numbers from 0, of at least two classes.")
    return rows, labels
