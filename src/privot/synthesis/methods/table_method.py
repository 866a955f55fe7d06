"""The method for tables: noisy marginals and scores are released once, and a model of the table is fitted to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privot.errors import UsageError
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedTable
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables.codec import TableCodec


class TableMethod:
    """Noise at the counts of a table's cells, released once."""

    watched: ClassVar[str] = "loss of the label's model"

    def plan(self, config: SynthesisConfig, facts: Facts) -> TableDesign:
        """The design for (ε, δ) and the schema."""
        if config.shape is not None or config.features is not None or config.rules is not None or config.options:
            raise UsageError("The release of a table follows from its schema: leave out all other options.")
        assert isinstance(config.codec, TableCodec)
        return TableDesign.choose(config.codec, facts, config.epsilon, config.delta, config.seed)

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> TableDesign:
        """The design that a job wrote down."""
        assert isinstance(config.codec, TableCodec)
        return TableDesign.from_dict(fields, config.codec)

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay for the release and fit the model, which takes seconds and gives the same again: no checkpoint."""
        design: TableDesign = run.design
        release, _ = run.payments.release(lambda: design.mechanism, design.check_release)
        outcome = Outcome(design, release.guarantee, release)
        run.paid(outcome)
        outcome.fitted = FittedTable(design.fit(release, run.progress))
        return outcome
