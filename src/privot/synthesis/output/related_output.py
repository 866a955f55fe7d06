"""The output files of related tables, and their model back; it sees no record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from privot.kinds import Kind
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedRelated, FittedSynthesizer
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

    def write_drawn(
        self,
        synthesizer: FittedSynthesizer,
        path: Path,
        n: int,
        seed: int | None,
        *,
        spreadsheet_safe: bool = False,
        progress: Callable[[int, int], None] | None = None,
        where: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
        joined: float = 0.0,
    ) -> dict[str, int]:
        """A new folder with a file for each table, of the endings in `kinds` (.csv unless given)."""
        codec = synthesizer.kind_.codec
        endings = dict.fromkeys(codec.names, related.ENDINGS[0]) | dict(kinds or {})
        made = synthesizer.sample(n, seed=seed, where=where or None, frame="table", joined=joined)
        return related.write_tables(path, made, codec, endings, spreadsheet_safe)

    def write_made(
        self,
        synthesizer: FittedSynthesizer,
        folder: Path,
        samples: int,
        seed: int | None,
        kind: str | Mapping[str, str] | None,
        spreadsheet_safe: bool,
    ) -> dict[str, int]:
        """The tables, and the numbers behind their pictures."""
        # the pictures are of the same draw
        seed = fresh_seed() if seed is None else seed
        kinds = kind if isinstance(kind, Mapping) else None
        rows = self.write_drawn(synthesizer, folder, samples, seed, spreadsheet_safe=spreadsheet_safe, kinds=kinds)
        related.write_figures(folder, synthesizer.model_, samples, seed)
        return rows
