"""Plans the one private release of a table: which marginals, and how much noise a budget asks for.

Everything here follows from the schema and the budget; no record is seen.
"""

from __future__ import annotations

import math

from privot.accounting import account, calibrate
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts, GroupedMarginals, GroupRule
from privot.synthesis.tables.codec import TableCodec

FINE_SHARE = 0.25
"""Of the budget (in 1/σ², which is what adds up) that goes to the fine one-way counts."""
LEAST_SCALE = 2.0**-9
"""Less noise cannot be added to counts safely; no budget anybody grants asks for so little."""
MOST_CLASSES = 4
"""With more labels, pairs of columns are not counted by class: the sum over classes would carry too much noise."""


def table_mechanism(
    codec: TableCodec,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str,
    compact: bool = True,
    rule: GroupRule | None = None,
    fine_share: float = FINE_SHARE,
) -> GroupedMarginals:
    """The mechanism that spends (ε, δ) on this schema's marginals: give it to `Vault.release`.

    The two parts get σ₁ = s·Δ₁/√f and σ₂ = s·Δ₂/√(1 − f) with f = `fine_share`, so that their composition is one
    Gaussian mechanism of noise s per unit of sensitivity; s is calibrated to the budget. `compact` says which layout of
    rows the vault holds.
    """
    adjacency = Adjacency.parse(adjacency)
    if not 0.0 < fine_share < 1.0:
        raise UsageError("The share of the fine counts must lie between 0 and 1.")
    axes = codec.axes(compact)
    by_class = codec.classes is not None and codec.classes <= MOST_CLASSES
    dim = len(codec.features) if compact else codec.dim
    facts = Facts(
        dim, 2 if adjacency is Adjacency.REPLACE_ONE else None, codec.bound(compact), adjacency, codec.classes
    )
    pairs = math.comb(len(axes), 2)
    share = fine_share if pairs else 1.0

    def make(scale: float) -> GroupedMarginals:
        fine = scale * math.sqrt(len(axes) / share)
        coarse = scale * math.sqrt(pairs / (1.0 - share)) if pairs else scale
        return GroupedMarginals(axes, codec.classes, (fine, coarse), by_class, rule or GroupRule())

    if account(make(LEAST_SCALE).event(facts), delta).epsilon() <= epsilon:
        return make(LEAST_SCALE)
    return make(calibrate(lambda s: make(max(s, LEAST_SCALE)).event(facts), epsilon=epsilon, delta=delta))
