"""Noise at the counts of a table's columns, its label left out: a stand-in table, then a weighted linear classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.adaptation.adaptation_config import CHOSEN, AdaptationConfig, Sizes
from privot.adaptation.adaptation_design import AdaptationDesign, source_digest
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod, checked_source
from privot.adaptation.adaptation_terms import AdaptationTerms
from privot.adaptation.networks import Committee, build_committee
from privot.adaptation.stand_in.table_learner import TableLearner, release_of
from privot.adaptation.stand_in.table_rows import cell_rows, cell_width, labelled_rows, unlabelled_rows
from privot.adaptation.stand_in.weighted_training import TableChecks
from privot.data.loading import checked_rows
from privot.errors import UsageError
from privot.kinds import Kind
from privot.mechanisms.mechanism import Facts
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables.codec import TableCodec
from privot.transport.slice_directions import check_seed, fresh_seed


@dataclass(frozen=True, kw_only=True)
class TableStandIn(AdaptationConfig):
    """What is chosen of a stand-in for a table: how many rows are drawn."""

    name: ClassVar[str] = "stand-in"
    blocks: ClassVar[int] = 1

    samples: int = CHOSEN


class TableStandInMethod(AdaptationMethod):
    """What is released and the width of a row follow from the schema."""

    config = TableStandIn
    learner = TableLearner
    sums = True
    # its classifier weighs the source by itself
    beside_source = False
    follows = "generator, stand-in, checks and classifier"
    checks = TableChecks

    def network(self, image: bool) -> str:
        """A linear classifier of cells."""
        return "linear"

    def defaults(self, sizes: Sizes) -> TableStandIn:
        """Only the number of rows is chosen."""
        return TableStandIn(samples=20_000)

    def plan(
        self, terms: AdaptationTerms, facts: Facts, x: NDArray[Any], y: NDArray[np.int64], *, by_request: bool
    ) -> AdaptationDesign:
        """What a synthesis of the target's columns without the label would release."""
        codec, network = terms.kind.codec, self.network(False)
        settings = self.settings(terms.asked, Sizes(False, facts.records or 1, network))
        if terms.network not in (None, network):
            raise UsageError("A table has a linear classifier of its cells: leave out the network.")
        config = {"kind": network, "columns": cell_width(codec), "shape": None, "classes": codec.classes}
        config |= {"low": 0.0, "high": 1.0}
        seed = fresh_seed() if terms.seed is None else check_seed(terms.seed)
        budget = float(terms.epsilon), float(terms.delta)
        chosen = TableDesign.choose(TableCodec(codec.schema.without_label()), facts, *budget, seed)
        table = {"codec": codec.to_dict(), "release": chosen.to_dict()}
        # of the pairs' counts; what is released and charged is read from `table`
        sigma = float(table["release"]["sigma"][1])
        digest = source_digest(x, y)
        return AdaptationDesign(settings, config, sigma, *budget, seed, facts, table=table, source=digest)

    def check(self, design: AdaptationDesign) -> None:
        """Refuse a table that cannot be released."""
        release_of(design)

    def source(self, source: Any, kind: Kind) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Rows of cells and labels of a `Table`, or of a file."""
        return checked_source(labelled_rows(source, kind.codec))

    def rows(self, records: Any, kind: Kind) -> NDArray[Any]:
        """Rows of cells of a `Table`, whose label is not read; or such rows as they are."""
        if isinstance(records, Mapping):
            records = cell_rows(unlabelled_rows(records, kind.codec), kind.codec)
        return checked_rows(records)

    def networks(self, design: AdaptationDesign) -> Committee:
        """One linear classifier."""
        return build_committee(design.networks, design.seed, 1)
