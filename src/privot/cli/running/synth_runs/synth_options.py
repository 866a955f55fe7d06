"""The options of `privot synth`, as they were typed, and what is checked of them before anything is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli.parsing.typed_values import read_pair
from privot.cli.partitioned_input import PartitionOptions
from privot.cli.related_input import NO_CHILDREN, RelatedOptions
from privot.cli.table_input import NO_UNIT, UnitOptions

if TYPE_CHECKING:
    from privot.synthesis import PublicEncoder

BUILT_IN_FACTS: dict[str, dict[str, Any]] = {"digits": {"shape": (8, 8), "low": 0.0, "high": 1.0, "classes": 10}}
"""Public facts about built-in data."""


@dataclass(frozen=True)
class SynthOptions:
    """The options of `privot synth`, as they were typed."""

    data: str
    epsilon: float
    delta: float
    adjacency: str
    out: Path
    schema: Path | None
    method: str
    device: str
    ledger: Path | None
    resume: bool
    pay_again: bool
    new_records: bool
    classes: str | None
    shape: str | None
    value_range: str | None
    records: int | None
    samples: int
    spreadsheet_safe: bool
    steps: int | None
    settings: list[str] | None
    clip: float | None
    allow_unproven: bool
    checkpoint: float
    seed: int | None
    as_json: bool
    encoder: Path | None = None
    encoder_range: str | None = None
    encoder_size: int | None = None
    label_encoder: Path | None = None
    label_encoder_range: str | None = None
    label_encoder_size: int | None = None
    public: str | None = None
    partitions: PartitionOptions = field(default_factory=PartitionOptions)
    units: UnitOptions = NO_UNIT
    related: RelatedOptions = NO_CHILDREN


def check_options(options: SynthOptions) -> None:
    """Refuse numbers out of range, and a clip for a method that has none."""
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError

    check_epsilon(options.epsilon), check_delta(options.delta)
    if options.samples < 1:
        raise UsageError(f"--samples must be at least 1, got {options.samples}.")
    if not 0.0 <= options.checkpoint < float("inf"):
        raise UsageError(f"--set checkpoint must be a number of seconds, at least 0, got {options.checkpoint:g}.")
    if options.clip is not None and options.method != "sliced":
        raise UsageError("--set clip works with --method sliced only: the other methods bound what they release.")


def read_encoder(options: SynthOptions, name: str = "encoder") -> PublicEncoder | None:
    """The public encoder that the options name, if they do: "encoder", or "label_encoder"."""
    from privot.errors import UsageError

    path, typed, size = (getattr(options, name + part) for part in ("", "_range", "_size"))
    if path is None:
        if typed is not None or size is not None:
            raise UsageError(
                f"The settings {name}_range and {name}_size describe an encoder: give its file with "
                f"{'--encoder' if name == 'encoder' else '--set label_encoder'}."
            )
        return None
    from privot.synthesis import PublicEncoder

    return PublicEncoder(path, size, (0.0, 1.0) if typed is None else read_pair(typed, f"--set {name}_range"))
