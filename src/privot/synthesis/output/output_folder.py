"""The output folder: what sampling needs, synthetic data, pictures and a report; it sees what was released only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.jobs.spending import write_spent
from privot.synthesis.fitted import FittedSynthesizer
from privot.synthesis.of_kind import output_of
from privot.synthesis.output.html_report import write_report

if TYPE_CHECKING:
    pass


def write_drawn(
    synthesizer: FittedSynthesizer,
    path: Path,
    n: int,
    seed: int | None,
    spreadsheet_safe: bool = False,
    progress: Callable[[int, int], None] | None = None,
    where: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    joined: float = 0.0,
) -> dict[str, int] | None:
    """`n` samples, as `path`'s ending says: arrays, or the columns and types of a table (see `write_table`).

    Without an ending it is a new folder of PNG files, by class name; `progress` hears (images written, in all).
    `where` states conditions on the rows of a table; `joined` is the share of images that are joined of two. Related
    tables become a new folder with a file for each, of the endings in `kinds` (.csv unless given); the number of rows
    of each is returned.
    """
    more: dict[str, Any] = {"spreadsheet_safe": spreadsheet_safe, "progress": progress, "where": where}
    return output_of(synthesizer.kind_).write_drawn(synthesizer, path, n, seed, **more, kinds=kinds, joined=joined)


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
    rows = output_of(synthesizer.kind_).write_made(synthesizer, folder, samples, seed, kind, spreadsheet_safe)
    synthesizer.save(folder)
    write_spent(folder, spent)
    write_report(folder)
    return rows
