"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.axes import LABEL, Axis
from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.grouped import GroupedMarginals
from privot.mechanisms.grouping import GroupRule
from privot.mechanisms.marginals import Marginals
from privot.mechanisms.mechanism import Facts, Mechanism, Needs, Records
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.scores import ScoredMarginals
from privot.mechanisms.weighing import WeightRule

__all__ = [
    "LABEL",
    "Axis",
    "Facts",
    "GroupRule",
    "GroupedMarginals",
    "Marginals",
    "Mechanism",
    "Needs",
    "RandomProjection",
    "Records",
    "ScoredMarginals",
    "WeightRule",
    "directions_of",
    "draw_directions",
]
