"""The method for tables: noisy marginals and scores are released once, and a model of the table is fitted to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privot.errors import UsageError
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedRelated, FittedTable
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.tabular.table_design import TableDesign


class TableMethod:
    """Noise at the counts of a table's cells, released once."""

    watched: ClassVar[str] = "loss of the label's model"
    designs: ClassVar[Any] = TableDesign
    fitted: ClassVar[type[FittedTable | FittedRelated]] = FittedTable
    follows: ClassVar[str] = "a table follows from its schema"

    def plan(self, config: SynthesisConfig, facts: Facts) -> Any:
        """The design for (ε, δ) and what the schemas say."""
        if any(given is not None for given in (config.shape, config.features, config.rules)) or config.options:
            raise UsageError(f"The release of {self.follows}: leave out all other options.")
        return self.designs.choose(config.codec, facts, config.epsilon, config.delta, config.seed)

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> Any:
        """The design that a job wrote down."""
        return self.designs.from_dict(fields, config.codec)

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay for the one release of the design and fit the models, which takes seconds and gives the same again.

        It is an outcome as soon as it is paid; there is no checkpoint.
        """
        design = run.design
        release, _ = run.payments.release(lambda: design.mechanism, design.check_release)
        outcome = Outcome(design, release.guarantee, release)
        run.paid(outcome)
        outcome.fitted = self.fitted(design.fit(release, run.progress))
        return outcome
