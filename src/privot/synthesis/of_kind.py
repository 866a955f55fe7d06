"""What synthesis does for each kind of records: how a fitted model is read back, and what its folder holds.

One file and one line in `OUTPUTS` for a kind; a kind that is made from another one has that one's. A kind of another
distribution is an entry point of the group `privot.synthesis_outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from privot.common.extras import Registry
from privot.errors import UsageError
from privot.kinds import Kind

if TYPE_CHECKING:
    import torch

    from privot.synthesis.config import SynthesisConfig
    from privot.synthesis.fitted import Fitted, FittedSynthesizer

_HERE = "privot.synthesis.output."
OUTPUTS = Registry(
    "kind of records for synthesis",
    {
        "vectors": _HERE + "numbers_output:NumbersOutput",
        "table": _HERE + "table_output:TableOutput",
        "related tables": _HERE + "related_output:RelatedOutput",
    },
    "privot.synthesis_outputs",
)


@dataclass(frozen=True)
class Drawing:
    """What is drawn from a fitted model, and how it is written.

    `endings` are those of a table's file, or of each related table's by its name, .csv unless given. `where` states
    conditions on the rows of a table, `joined` is the share of images that are joined of two, and `progress` hears
    (images written, in all).
    """

    n: int
    seed: int | None = None
    endings: str | Mapping[str, str] | None = None
    spreadsheet_safe: bool = False
    where: Sequence[str] | None = None
    joined: float = 0.0
    progress: Callable[[int, int], None] | None = None

    @property
    def sampled(self) -> dict[str, Any]:
        """What the model is asked."""
        return {"n": self.n, "seed": self.seed, "where": self.where or None, "joined": self.joined}


class KindOutput(Protocol):
    """What a kind needs of the folder that a synthesis leaves behind."""

    def made_files(self, kind: Kind) -> tuple[str, ...]:
        """Patterns of the files that a new job removes, beside those of every kind."""
        ...

    def restore(
        self, config: SynthesisConfig, learned: Mapping[str, Any], weights: Mapping[str, torch.Tensor]
    ) -> Fitted:
        """A fitted model from the parts of its folder."""
        ...

    def write_drawn(self, synthesizer: FittedSynthesizer, path: Path, drawing: Drawing) -> dict[str, int] | None:
        """What is drawn, at `path`; gives the number of rows of each of several tables."""
        ...

    def write_made(self, synthesizer: FittedSynthesizer, folder: Path, drawing: Drawing) -> dict[str, int] | None:
        """The samples of a whole folder, and the numbers behind its pictures."""
        ...


def output_of(kind: Kind) -> KindOutput:
    """What is registered for this kind, or for the nearest of those that it is made from."""
    name = next((name for name in kind.names if name in OUTPUTS), None)
    if name is None:
        raise UsageError(f"No synthesis is registered for the kind {kind.name}: derive it from one of the others.")
    made: KindOutput = OUTPUTS.load(name)()
    return made
