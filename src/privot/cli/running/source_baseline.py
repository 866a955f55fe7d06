"""Whether an adaptation helped: its classifier beside one trained on the public source alone, on labelled records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.adaptation import DomainAdapter
    from privot.data.loading import Dataset

SURE = 3.0
"""Standard deviations by which the source alone must be right more often before adaptation is called harmful."""


@dataclass(frozen=True)
class SourceComparison:
    """Shares of the test records that are right, with and without adaptation, and whether adaptation did harm."""

    adapted: float
    source_only: float
    harmed: bool


def compare_with_source(adapter: DomainAdapter, source: Any, held_out: Dataset | None) -> SourceComparison | None:
    """Train the same networks on the source alone and score both; None without labelled records to score on, and for a
    table, whose classifier weighs the source by itself.

    The same records are scored twice, so only those count on which the two disagree (McNemar 1947): adaptation did harm
    where the source alone is right on `SURE` standard deviations more of them than chance explains.
    """
    if held_out is None or getattr(adapter.design_, "table", None) is not None:
        return None
    alone = adapter.baseline(adapter.design_.facts, source)
    with_, without = (model.predict(held_out.x) == held_out.y for model in (adapter, alone))
    lost, won = int((without & ~with_).sum()), int((with_ & ~without).sum())
    harmed = lost - won > SURE * math.sqrt(max(lost + won, 1))
    return SourceComparison(float(with_.mean()), float(without.mean()), harmed)
