"""From one release of a table's columns to a classifier of its rows: a stand-in table, then a weighted source.

A model of the target's columns is fitted to the release and draws the stand-in; an additive model then learns the
source, weighted like the stand-in (`weighted_training`). Both follow from the release, the public source and the seed,
and take seconds, so a job that was killed runs them again and ends the same. Nothing here sees a private record.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.alignment.transformations import transformation
from privot.adaptation.learner import Keep, Progress
from privot.adaptation.networks import build_committee
from privot.adaptation.stand_in.single_release import STAND_IN, SingleRelease
from privot.adaptation.stand_in.table_rows import cell_rows
from privot.adaptation.stand_in.weighted_training import STEPS, fit_weighted
from privot.errors import DataError
from privot.kinds import as_kind
from privot.mechanisms import Mechanism
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedTable
from privot.synthesis.output.saved_model import write_model
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables.codec import TableCodec
from privot.vault.stream import Stream


def release_of(design: AdaptationDesign) -> TableDesign:
    """What is released of a table: its columns without the label."""
    if design.table is None or not isinstance(design.table.get("release"), dict):
        raise DataError("This does not describe the adaptation to a table.")
    return TableDesign.from_dict(design.table["release"], TableCodec(design.kind.codec.schema.without_label()))


class TableLearner(SingleRelease):
    """The training of the method "stand-in" for tables; the release is kept, and all else follows from it."""

    def __init__(
        self,
        design: AdaptationDesign,
        x: NDArray[Any],
        y: NDArray[np.int64],
        device: str,
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self.design, self.folder, self.table = design, folder, release_of(design)
        columns, classes = int(design.networks["columns"]), int(design.networks["classes"])
        self.networks = build_committee(design.networks, design.seed, 1).to(device)
        self.change = transformation(None, columns, classes)
        self._x, self._y, self._classes = x, y, classes

    @property
    def total(self) -> int:
        """Steps in all: fits of the classifier, and one of the table."""
        return STEPS + 1

    def mechanism(self) -> Mechanism:
        """The counts of the target's columns, from the design alone."""
        return self.table.mechanism

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is paid, a schema that fails."""
        self.table.rehearse()

    def run_block(
        self, stream: Stream | None, kept: Release | None, save: Callable[[Release], None], tell: Progress | None
    ) -> None:
        """Take the one release, or the one that was `kept`."""
        if kept is not None:
            self.table.check_release(kept)
        super().run_block(stream, kept, save, tell)

    def after(self, progress: Progress | None, keep: Keep | None) -> None:
        """Fit the model of the table, draw the stand-in, fit the classifier."""
        design = self.design
        self.generator = FittedTable(self.table.fit(self.released()))
        settings: Any = design.settings
        drawn, _ = self.generator.model.sample_rows(settings.samples, design.seed)

        def tell(done: int) -> None:
            if progress is not None:
                progress(1 + done, self.total, float("nan"))

        tell(0)
        rows = cell_rows(drawn, self.table.codec)
        made = fit_weighted(self._x, self._y, self._classes, design.seed, rows, tell)
        self.checks = made.checks
        linear = self.networks.members[0].get_submodule("h")
        linear.load_state_dict({"weight": torch.as_tensor(made.theta.T), "bias": torch.as_tensor(made.bias)})
        if self.folder is not None:
            self.write_stand_in(self.folder / STAND_IN)

    def write_stand_in(self, folder: Path) -> None:
        """The model of the table as `privot synth` leaves one: `privot sample` and `Synthesizer.load` read it."""
        assert self.generator is not None
        assert self.release is not None
        config = SynthesisConfig(self.design.epsilon, self.design.delta, kind=as_kind(self.table.codec))
        write_model(folder, config, self.generator, self.release.guarantee, None)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The networks; `done` is 0, so that a job that goes on reads its kept release, which must be paid for."""
        return {f"networks.{n}": t for n, t in self.networks.state_dict().items()}, {"done": 0}

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Nothing: every stage follows from the release and is run again."""
