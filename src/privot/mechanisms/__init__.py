"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.interpolation import Interpolation
from privot.mechanisms.mechanism import Facts, Mechanism, Needs, Records
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.sketch import PrivateSketch
from privot.mechanisms.sketch_design import SketchDesign

__all__ = [
    "Facts",
    "Interpolation",
    "Mechanism",
    "Needs",
    "PrivateSketch",
    "RandomProjection",
    "Records",
    "SketchDesign",
    "directions_of",
    "draw_directions",
]
