"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.mechanism import Facts, Mechanism, Needs, Records
from privot.mechanisms.parameters import ClippedGradients, PublishedGradients, Query
from privot.mechanisms.projection import RandomProjection

__all__ = [
    "ClippedGradients",
    "Facts",
    "Mechanism",
    "Needs",
    "PublishedGradients",
    "Query",
    "RandomProjection",
    "Records",
    "directions_of",
    "draw_directions",
]
