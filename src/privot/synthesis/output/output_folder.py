"""The output folder: what sampling needs, synthetic data, pictures and a report; it sees what was released only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privot.jobs.spending import write_spent
from privot.synthesis.fitted import FittedSynthesizer
from privot.synthesis.of_kind import Drawing, output_of
from privot.synthesis.output.html_report import write_report


def write_drawn(synthesizer: FittedSynthesizer, path: Path, drawing: Drawing) -> dict[str, int] | None:
    """What is drawn, as `path`'s ending says: arrays, or the columns and types of a table (see `write_table`).

    Without an ending it is a new folder of PNG files, by class name. Related tables become a new folder with a file for
    each; the number of rows of each is returned.
    """
    return output_of(synthesizer.kind_).write_drawn(synthesizer, path, drawing)


def write_folder(
    synthesizer: FittedSynthesizer,
    folder: Path,
    samples: int,
    seed: int | None,
    kind: str | Mapping[str, str] | None = None,
    spent: Mapping[str, Any] | None = None,
    spreadsheet_safe: bool = False,
) -> dict[str, int] | None:
    """Everything that `privot synth` leaves behind; `kind` is the ending of a table's file, .csv unless given.

    Of related tables it gives the ending by name, and the number of rows of each is returned. `spent` is what the
    ledger holds (`spending`).
    """
    drawing = Drawing(samples, seed, kind, spreadsheet_safe)
    rows = output_of(synthesizer.kind_).write_made(synthesizer, folder, drawing)
    synthesizer.save(folder)
    write_spent(folder, spent)
    write_report(folder)
    return rows
