"""Checks the arguments of a vault before it takes them; it keeps none of them, and its refusals quote no record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import check_delta, check_epsilon
from privot.common.privacy_unit import DEFAULT_ROWS, RECORD, Unit
from privot.data.loading import checked_labels
from privot.errors import UsageError
from privot.kinds import Kind, Vectors, as_kind
from privot.kinds.related_records import RelatedTables
from privot.partitions.source import PartitionedSource

CLIP_RANGE = (1e-100, 1e100)
"""Bounds on norms for which neither a squared norm nor σ leaves the floats."""


def check_clip(clip: Any) -> None:
    """Refuse a clip that is not a number in `CLIP_RANGE`."""
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not CLIP_RANGE[0] <= clip <= CLIP_RANGE[1]:
        raise UsageError(f"The clip must be a number from {CLIP_RANGE[0]:g} to {CLIP_RANGE[1]:g}, got {clip!r}.")


def stated_kind(
    kind: Any, clip: float | None, classes: int | None, columns: Sequence[Any], labelled: bool
) -> tuple[Kind, Any, int | None, Sequence[Any]]:
    """What the records are, with the clip, the number of classes and the columns: from the kind where it says them."""
    if kind is None:
        return Vectors(), clip, classes, columns
    found = as_kind(kind)
    if found.codec is not None and any(given is not None for given in (clip, classes)):
        raise UsageError("A schema says the clip and the classes of a table: leave out clip, classes, shape.")
    if clip is not None and found.clip not in (None, clip):
        raise UsageError("The clip is said twice, and differently: leave it to the kind.")
    known = (found.count if labelled else None) if classes is None else classes
    return found, found.clip if clip is None else clip, known, columns or found.columns


def checked_budget(budget: Any) -> tuple[float, float]:
    """The pair (ε, δ) of a budget."""
    try:
        epsilon, delta = budget
    except (TypeError, ValueError):
        raise UsageError(f"Expected a budget (ε, δ), a pair of numbers, got {type(budget).__name__}.") from None
    return check_epsilon(epsilon), check_delta(delta)


def protected_unit(
    x: Any, y: Any, units: Any, unit: str | None, per_unit: int | None
) -> tuple[str | None, Unit | None]:
    """The name by which a ledger knows whose the records `x` are, and the unit that is protected (None: one record)."""
    if isinstance(x, RelatedTables):
        if y is not None or units is not None or unit not in (None, x.codec.key) or per_unit is not None:
            raise UsageError("Related tables have their own labels and key: leave out y, classes and units.")
        return x.codec.key, x.codec.unit
    source = x if isinstance(x, PartitionedSource) else None
    if source is not None:
        unit = _checked_source_unit(source, units, unit)
    given = units is not None or (source is not None and source.unit is not None)
    return unit, _checked_unit(given, unit, per_unit)


def _checked_source_unit(source: PartitionedSource, units: Any, unit: str | None) -> str | None:
    """The name of the unit of partitions, which say themselves whose each record is; refuses another one."""
    if units is not None:
        raise UsageError("Partitions say themselves whose each record is: open them with a unit, and leave units out.")
    if unit is not None and unit != source.unit:
        raise UsageError(
            f"These partitions were opened for one {source.unit or RECORD}, and not for one {unit}: open them with "
            "that unit."
        )
    return source.unit


def _checked_unit(given: bool, name: str | None, rows: int | None) -> Unit | None:
    """The unit that is protected; None for single records."""
    if not given:
        if name is not None or rows is not None:
            raise UsageError("A unit needs units: say whose record each is, or leave out unit and per_unit.")
        return None
    return Unit("unit" if name is None else name, DEFAULT_ROWS if rows is None else rows)


def checked_classes(y: Any, classes: int | None, records: int) -> NDArray[np.int64] | None:
    """The labels, if there are any, each from 0 to `classes` − 1."""
    if (y is None) != (classes is None):
        raise UsageError(
            "Labels y and the number of classes must be given together: the number is public, never read from labels."
        )
    if y is None or classes is None:
        return None
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise UsageError(f"The number of classes must be a whole number of at least 1, got {classes!r}.")
    return checked_labels(y, records, classes)
