"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.alignment import AlignmentQuery, PublishedAlignment
from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.embedding import FeatureMap, MeanEmbedding
from privot.mechanisms.gradient import GradientQuery, SanitizedGradient
from privot.mechanisms.mechanism import Answering, Facts, Mechanism, Needs, Records
from privot.mechanisms.parameters import ClippedGradients, PublishedGradients, Query
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.representation import ProjectedRepresentation, Representation, RepresentationQuery

__all__ = [
    "AlignmentQuery",
    "Answering",
    "ClippedGradients",
    "Facts",
    "FeatureMap",
    "GradientQuery",
    "MeanEmbedding",
    "Mechanism",
    "Needs",
    "ProjectedRepresentation",
    "PublishedAlignment",
    "PublishedGradients",
    "Query",
    "RandomProjection",
    "Records",
    "Representation",
    "RepresentationQuery",
    "SanitizedGradient",
    "directions_of",
    "draw_directions",
]
