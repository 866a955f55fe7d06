"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.embedding import FeatureMap, MeanEmbedding
from privot.mechanisms.gradient import GradientQuery, SanitizedGradient
from privot.mechanisms.mechanism import Answering, Facts, Mechanism, Needs, Records
from privot.mechanisms.parameters import ClippedGradients, PublishedGradients, Query
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.pulled import Handle, ParameterQuery, SanitizedParameters

__all__ = [
    "Answering",
    "ClippedGradients",
    "Facts",
    "FeatureMap",
    "GradientQuery",
    "Handle",
    "MeanEmbedding",
    "Mechanism",
    "Needs",
    "ParameterQuery",
    "PublishedGradients",
    "Query",
    "RandomProjection",
    "Records",
    "SanitizedGradient",
    "SanitizedParameters",
    "directions_of",
    "draw_directions",
]
