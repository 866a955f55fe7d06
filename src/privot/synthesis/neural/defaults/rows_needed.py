"""From how many records on a budget carries the data of a design rather than its noise; it knows public facts alone.

For a table: the coarsest picture of two columns together has four cells, each with noise σ. Its total variation from
the truth is ½·4·E|N(0, σ²)|/n = 1.6·σ/n in expectation, which should stay below a tenth: n ≥ 16·σ. A table of one
column has two cells: n ≥ 8·σ. For an embedding: the noise on the mean of a class of n_c records has the norm
σ·√size/n_c, and the mean itself at most 1: n_c ≥ σ·√size, with as few features as the rules ever choose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privot.accounting.laws import gaussian
from privot.mechanisms.embedding import MeanEmbedding
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals

FEWEST_FEATURES = 1000
"""Features of an embedding where noise is the limit: 500 frequencies, a cosine and a sine each."""
_PAIR, _SINGLE = 16.0, 8.0


@dataclass(frozen=True)
class RowsNeeded:
    """`records` from which on (ε, δ) carries the data; `noise` is σ of one count, `what` says what it hides."""

    records: int
    noise: float
    what: str
    epsilon: float
    delta: float

    def epsilon_for(self, records: int) -> float:
        """About the ε at which so many records would do: noise falls as the shift of the Gaussian mechanism grows."""
        shift = gaussian.largest_shift(self.epsilon, self.delta) * self.records / records
        return float(gaussian.epsilon(shift, self.delta))


def rows_needed(design: Any, epsilon: float, delta: float) -> RowsNeeded | None:
    """What the design of a table or an embedding needs; None for a design that pays for its training step by step."""
    mechanism = getattr(design, "mechanism", None)
    if isinstance(mechanism, ScoredMarginals | FurtherScores | ChosenCells):
        mechanism = mechanism.marginals
    if isinstance(mechanism, GroupedMarginals):
        fine, coarse = mechanism.sigma
        alone = len(mechanism.axes) == 1
        what = "the shares of a column" if alone else "how two columns go together"
        least = _SINGLE * fine if alone else _PAIR * coarse
        return RowsNeeded(math.ceil(least), fine if alone else coarse, what, epsilon, delta)
    if isinstance(mechanism, MeanEmbedding):
        # the weight of the sums beside the counts and the mean of all records, as the mechanism divides it out
        sigma, what = mechanism.sigma / mechanism.weights[0], "the mean of each class"
        if getattr(design, "labels_leaves", False):
            # labels are what the records tell there, and most of the budget is theirs
            sigma, what = design.labelling.sigma, "what tells the classes apart"
        classes = design.facts.classes or 1 if mechanism.labels else 1
        least = classes * sigma * math.sqrt(min(mechanism.features.size, FEWEST_FEATURES))
        return RowsNeeded(math.ceil(least), sigma, what, epsilon, delta)
    return None
