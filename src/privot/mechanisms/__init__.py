"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.embedding import FeatureMap, MeanEmbedding
from privot.mechanisms.gradient import GradientQuery, SanitizedGradient
from privot.mechanisms.interpolation import Interpolation
from privot.mechanisms.mechanism import Answering, Facts, Identified, Mechanism, Needs, Records
from privot.mechanisms.parameters import ClippedGradients, PublishedGradients, Query
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.sketch import PrivateSketch
from privot.mechanisms.sketch_design import SketchDesign

__all__ = [
    "Answering",
    "ClippedGradients",
    "Facts",
    "FeatureMap",
    "GradientQuery",
    "Identified",
    "Interpolation",
    "MeanEmbedding",
    "Mechanism",
    "Needs",
    "PrivateSketch",
    "PublishedGradients",
    "Query",
    "RandomProjection",
    "Records",
    "SanitizedGradient",
    "SketchDesign",
    "directions_of",
    "draw_directions",
]
