"""The output files of a synthetic table, and its model back; it sees no record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from privot.kinds import Kind
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedSynthesizer, FittedTable
from privot.synthesis.of_kind import Drawing
from privot.synthesis.tabular import table_folder as tables
from privot.synthesis.tabular.restricted_rows import restricted_rows
from privot.synthesis.tabular.table_model import TableModel
from privot.tables.frames.frame_form import FrameForm

_JUDGED = 10_000
"""Synthetic rows that links of columns are judged by, at least."""


class TableOutput:
    """What a folder holds of a table."""

    def made_files(self, kind: Kind) -> tuple[str, ...]:
        """None beside those of every kind."""
        return ()

    def restore(
        self, config: SynthesisConfig, learned: Mapping[str, Any], weights: Mapping[str, torch.Tensor]
    ) -> FittedTable:
        """A fitted model of a table from the parts of its folder."""
        form = learned.get("frame")
        model = TableModel.build(config.codec, learned, weights)
        return FittedTable(model, form=None if form is None else FrameForm.from_dict(form))

    def write_drawn(self, synthesizer: FittedSynthesizer, path: Path, drawing: Drawing) -> None:
        """The columns and types of the table, as the path's ending says."""
        x, _ = synthesizer.sample(**drawing.sampled, frame="table")
        tables.write_drawn(path, x, synthesizer.kind_.codec, drawing.spreadsheet_safe)

    def write_made(self, synthesizer: FittedSynthesizer, folder: Path, drawing: Drawing) -> None:
        """The table, the numbers behind its pictures, and what noise drowned."""
        made, _ = synthesizer.sample(**drawing.sampled, frame="table")
        codec = synthesizer.kind_.codec
        file = folder / f"{tables.SYNTHETIC}{drawing.endings or '.csv'}"
        tables.write_drawn(file, made, codec, drawing.spreadsheet_safe)
        # pictures of the rows that are handed on, and of no others
        rows_made, labels = codec.encode(made, compact=True)
        judged = rows_made
        if drawing.n < _JUDGED:
            judged, _ = restricted_rows(synthesizer.model_, _JUDGED, drawing.seed or 0)
        drowned = tables.drowned_of(synthesizer.design_, synthesizer.release_, judged)
        tables.write_figures(folder, rows_made, labels, codec, drowned)
