"""Says, before anything is paid, that a budget cannot carry the data; by public or stated facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from privot.cli.running.synth_runs.synth_options import SynthOptions


def warn_of_noise(options: SynthOptions, design: Any, records: int | None) -> None:
    """Say, before anything is paid, that the budget cannot carry the data; by public or stated facts alone.

    Under add-remove the number of records is private: then the number needed is said, and not compared.
    """
    from privot.cli.parsing.typed_values import read_options
    from privot.cli.printing.command_warnings import warn
    from privot.mechanisms import MeanEmbedding
    from privot.synthesis.neural.defaults.problem_and_rules import ASSUMED_RECORDS
    from privot.synthesis.neural.defaults.rows_needed import rows_needed

    o = options
    # whoever asks for them knows; noise may then hide nothing
    if getattr(design, "labels_leaves", False) and "leaves" not in read_options(o.settings):
        warn(
            f"At ε = {o.epsilon:g} noise hides what these images look like: samples will be drawn discs and boxes "
            "whose labels are tuned on the records, to train classifiers with, not to look at (--set leaves=0 learns "
            "pictures all the same; a larger ε, more records or --encoder make better ones)."
        )
    need = rows_needed(design, o.epsilon, o.delta)
    if need is None:
        return
    hidden = f"noise of ±{need.noise:.3g} on every count hides {need.what} below about {need.records} records"
    if records is not None and records < need.records:
        warn(
            f"{records} records are too few for ε = {o.epsilon:g}: {hidden}, so expect samples that say "
            f"little about the data; about ε = {need.epsilon_for(records):.2g} would carry them."
        )
    elif records is None:
        sized = f" Features and generator are made for {ASSUMED_RECORDS:,} records until then."
        typer.echo(
            f"At ε = {o.epsilon:g} {hidden}; how many there are is private under add-remove and not looked at "
            "(--set records=N states about how many, if that is public)."
            f"{sized if isinstance(getattr(design, 'mechanism', None), MeanEmbedding) else ''}",
            err=True,
        )
