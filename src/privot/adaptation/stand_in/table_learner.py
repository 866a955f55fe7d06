"""From one release of a table's columns to a classifier of its rows: a stand-in table, then a weighted source.

A model of the target's columns is fitted to the release and draws the stand-in; a committee then learns the source,
weighted like the stand-in (`weighted_training`). Both follow from the release, the public source and the seed, and take
seconds, so a job that was killed runs them again and ends the same. Nothing here sees a private record.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.stand_in.single_release import STAND_IN, take_release
from privot.adaptation.stand_in.weighted_training import TableChecks, WeightedTraining
from privot.errors import DataError
from privot.mechanisms import Mechanism
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.fitted import FittedTable
from privot.synthesis.output.saved_model import write_model
from privot.vault.stream import Stream

Progress = Callable[[int, int, float], None]
"""Step, steps in all, loss."""
Keep = Callable[[bool], None]


class TableLearner:
    """The training of the method "stand-in" for tables; the release is kept, and all else follows from it."""

    keeps_release = True
    fitted = False

    def __init__(
        self,
        design: AdaptationDesign,
        x: NDArray[Any],
        y: NDArray[np.int64],
        device: str,
        folder: Path | None = None,
    ) -> None:
        self.design, self.folder, self.table = design, folder, design.table_release()
        self.training = WeightedTraining(design.networks, design.settings, design.seed, x, y, device)
        self.networks, self.change = self.training.networks, self.training.change
        self.done = 0
        self.release: Release | None = None
        self.generator: FittedTable | None = None
        self.checks: TableChecks | None = None

    @property
    def losses(self) -> list[float]:
        """The losses of training."""
        return self.training.losses

    @property
    def total(self) -> int:
        """Steps in all."""
        return self.training.total

    def mechanism(self) -> Mechanism:
        """The counts of the target's columns, from the design alone."""
        return self.table.mechanism

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse, before anything is paid, a schema that fails."""
        self.table.rehearse()

    def before(self, progress: Progress | None, keep: Keep | None) -> None:
        """Nothing: all of the training may use the release."""

    def run_block(
        self, stream: Stream | None, kept: Release | None, save: Callable[[Release], None], tell: Progress | None
    ) -> None:
        """Take the one release, or the one that was `kept`."""
        if kept is not None:
            self.table.check_release(kept)
        self.release, self.done = take_release(stream, kept, save), 1

    def after(self, progress: Progress | None, keep: Keep | None) -> None:
        """Fit the model of the table, draw the stand-in, train the committee."""
        if self.release is None:
            raise DataError("There is no release to learn from.")
        design = self.design
        self.generator = FittedTable(self.table.fit(self.release))
        drawn, _ = self.generator.model.sample_rows(design.settings.samples, design.seed)

        def tell(step: int, loss: float) -> None:
            if progress is not None:
                progress(step, self.total, loss)

        self.checks = self.training.run(self.table.codec.widen(drawn), tell)
        if self.folder is not None:
            self.write_stand_in(self.folder / STAND_IN)

    def write_stand_in(self, folder: Path) -> None:
        """The model of the table as `privot synth` leaves one: `privot sample` and `Synthesizer.load` read it."""
        assert self.generator is not None
        assert self.release is not None
        config = SynthesisConfig(self.design.epsilon, self.design.delta, codec=self.table.codec)
        write_model(folder, config, self.generator, self.release.guarantee, None)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The networks; `done` is 0, so that a job that goes on reads its kept release, which must be paid for."""
        return {f"networks.{n}": t for n, t in self.networks.state_dict().items()}, {"done": 0}

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Nothing: every stage follows from the release and is run again."""
