"""What a finished adaptation leaves in its folder, and whether it helped: its classifier on labelled records, beside
one trained on the public source alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.adaptation.adaptation_methods import method_of
from privot.adaptation.adapter import DomainAdapter
from privot.adaptation.model_folder import write_evaluation, write_report
from privot.data.loading import Dataset
from privot.evaluation.classifiers import confusion
from privot.jobs.spending import write_spent

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
    if held_out is None or not method_of(adapter.design_).beside_source:
        return None
    alone = adapter.baseline(adapter.design_.facts, source)
    with_, without = (model.predict(held_out.x) == held_out.y for model in (adapter, alone))
    lost, won = int((without & ~with_).sum()), int((with_ & ~without).sum())
    harmed = lost - won > SURE * math.sqrt(max(lost + won, 1))
    return SourceComparison(float(with_.mean()), float(without.mean()), harmed)


def leave_model(
    adapter: DomainAdapter, out: Path, held_out: Dataset | None, spent: dict[str, Any] | None = None
) -> float | None:
    """Leave model, guarantee and report in `out`; the accuracy where there are labelled records to score on.

    `spent` is what the ledger says was spent on the job.
    """
    accuracy = None
    adapter.save(out)
    write_spent(out, spent)
    if held_out is not None:
        accuracy = adapter.score(held_out.x, held_out.y)
        write_evaluation(out, accuracy, len(held_out.x))
    write_report(out)
    return accuracy


def leave_comparison(
    adapter: DomainAdapter, out: Path, source: Any, held_out: Dataset | None
) -> SourceComparison | None:
    """Compare with the source alone, and add that and what was taken for what to the page that is not private."""
    if held_out is None or held_out.y is None:
        return None
    compared = compare_with_source(adapter, source, held_out)
    taken = confusion(held_out.y, adapter.predict(held_out.x))
    beside: dict[str, Any] = {} if compared is None else {"baseline": compared.source_only, "harmed": compared.harmed}
    write_evaluation(out, adapter.score(held_out.x, held_out.y), len(held_out.x), taken, **beside)
    write_report(out)
    return compared
