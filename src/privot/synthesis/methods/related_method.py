"""The method for related tables: noisy marginals of all of them are released once, and a model is fitted to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privot.errors import UsageError
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedRelated
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.methods.table_method import has_options, run_once
from privot.synthesis.tabular.related.related_design import RelatedDesign


class RelatedMethod:
    """Noise at the counts of the cells of several tables, released once."""

    watched: ClassVar[str] = "loss of the labels' models"

    def plan(self, config: SynthesisConfig, facts: Facts) -> RelatedDesign:
        """The design for (ε, δ) and the schemas."""
        if has_options(config):
            raise UsageError("The release of related tables follows from their schemas: leave out all other options.")
        return RelatedDesign.choose(config.codec, facts, config.epsilon, config.delta, config.seed)

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> RelatedDesign:
        """The design that a job wrote down."""
        return RelatedDesign.from_dict(fields, config.codec)

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay for the release and fit the models, which takes seconds and gives the same again: no checkpoint."""
        return run_once(run, FittedRelated)
