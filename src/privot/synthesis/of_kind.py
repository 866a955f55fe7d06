"""What synthesis does for each kind of records: how a fitted model is read back, and what its folder holds.

One file and one line in `OUTPUTS` for a kind; a kind that is made from another one has that one's. A kind of another
distribution is an entry point of the group `privot.synthesis_outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    ) -> dict[str, int] | None:
        """`n` samples at `path`; gives the number of rows of each of several tables."""
        ...

    def write_made(
        self,
        synthesizer: FittedSynthesizer,
        folder: Path,
        samples: int,
        seed: int | None,
        kind: str | Mapping[str, str] | None,
        spreadsheet_safe: bool,
    ) -> dict[str, int] | None:
        """The samples of a whole folder, and the numbers behind its pictures."""
        ...


def output_of(kind: Kind) -> KindOutput:
    """What is registered for this kind, or for the nearest of those that it is made from."""
    name = next((name for name in kind.names if name in OUTPUTS), None)
    if name is None:
        raise UsageError(f"No synthesis is registered for the kind {kind.name}: derive it from one of the others.")
    made: KindOutput = OUTPUTS.load(name)()
    return made
