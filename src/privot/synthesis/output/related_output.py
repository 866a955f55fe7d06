"""The output files of related tables, and their model back; it sees no record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from privot.kinds import Kind
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedRelated, FittedSynthesizer
from privot.synthesis.of_kind import Drawing
from privot.synthesis.tabular.related import related_folder as related
from privot.synthesis.tabular.related.related_model import RelatedModel
from privot.transport.slice_directions import fresh_seed


class RelatedOutput:
    """What a folder holds of related tables."""

    def made_files(self, kind: Kind) -> tuple[str, ...]:
        """The files of the tables."""
        return related.made_files(kind.codec)

    def restore(
        self, config: SynthesisConfig, learned: Mapping[str, Any], weights: Mapping[str, torch.Tensor]
    ) -> FittedRelated:
        """Fitted models of related tables from the parts of their folder."""
        return FittedRelated(RelatedModel.build(config.codec, learned, weights))

    def write_drawn(self, synthesizer: FittedSynthesizer, path: Path, drawing: Drawing) -> dict[str, int]:
        """A new folder with a file for each table."""
        codec, stated = synthesizer.kind_.codec, drawing.endings
        endings = dict.fromkeys(codec.names, related.ENDINGS[0]) | dict(stated if isinstance(stated, Mapping) else {})
        made = synthesizer.sample(**drawing.sampled, frame="table")
        return related.write_tables(path, made, codec, endings, drawing.spreadsheet_safe)

    def write_made(self, synthesizer: FittedSynthesizer, folder: Path, drawing: Drawing) -> dict[str, int]:
        """The tables, and the numbers behind their pictures."""
        # the pictures are of the same draw
        seed = fresh_seed() if drawing.seed is None else drawing.seed
        rows = self.write_drawn(synthesizer, folder, replace(drawing, seed=seed))
        related.write_figures(folder, synthesizer.model_, drawing.n, seed)
        return rows
