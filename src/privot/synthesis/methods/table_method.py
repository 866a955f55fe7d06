"""The method for tables: noisy marginals and scores are released once, and a model of the table is fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from privot.errors import UsageError
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import Fitted, FittedTable
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.tabular.table_design import TableDesign


def has_options(config: SynthesisConfig) -> bool:
    """Whether something is asked for that a table has no use for."""
    return any(given is not None for given in (config.shape, config.features, config.rules)) or bool(config.options)


def run_once(run: SynthesisRun, fitted: Callable[[Any], Fitted]) -> Outcome:
    """Pay for the one release of a design and fit what it fits: it is an outcome as soon as it is paid."""
    design = run.design
    release, _ = run.payments.release(lambda: design.mechanism, design.check_release)
    outcome = Outcome(design, release.guarantee, release)
    run.paid(outcome)
    outcome.fitted = fitted(design.fit(release, run.progress))
    return outcome


class TableMethod:
    """Noise at the counts of a table's cells, released once."""

    watched: ClassVar[str] = "loss of the label's model"

    def plan(self, config: SynthesisConfig, facts: Facts) -> TableDesign:
        """The design for (ε, δ) and the schema."""
        if has_options(config):
            raise UsageError("The release of a table follows from its schema: leave out all other options.")
        return TableDesign.choose(config.codec, facts, config.epsilon, config.delta, config.seed)

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> TableDesign:
        """The design that a job wrote down."""
        return TableDesign.from_dict(fields, config.codec)

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay for the release and fit the model, which takes seconds and gives the same again: no checkpoint."""
        return run_once(run, FittedTable)
