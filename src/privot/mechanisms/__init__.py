"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.alignment import AlignmentQuery, PublishedAlignment
from privot.mechanisms.axes import LABEL, Axis
from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.embedding import FeatureMap, MeanEmbedding
from privot.mechanisms.gradient import GradientQuery, SanitizedGradient
from privot.mechanisms.grouped import GroupedMarginals
from privot.mechanisms.grouping import GroupRule
from privot.mechanisms.interpolation import Interpolation
from privot.mechanisms.marginals import Marginals
from privot.mechanisms.mechanism import Answering, Facts, Identified, Mechanism, Needs, Records
from privot.mechanisms.parameters import ClippedGradients, PublishedGradients, Query
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.pulled import Handle, ParameterQuery, SanitizedParameters
from privot.mechanisms.representation import ProjectedRepresentation, Representation, RepresentationQuery
from privot.mechanisms.scores import ScoredMarginals
from privot.mechanisms.sketch import PrivateSketch
from privot.mechanisms.sketch_design import SketchDesign
from privot.mechanisms.weighing import WeightRule

__all__ = [
    "LABEL",
    "AlignmentQuery",
    "Answering",
    "Axis",
    "ClippedGradients",
    "Facts",
    "FeatureMap",
    "GradientQuery",
    "GroupRule",
    "GroupedMarginals",
    "Handle",
    "Identified",
    "Interpolation",
    "Marginals",
    "MeanEmbedding",
    "Mechanism",
    "Needs",
    "ParameterQuery",
    "PrivateSketch",
    "ProjectedRepresentation",
    "PublishedAlignment",
    "PublishedGradients",
    "Query",
    "RandomProjection",
    "Records",
    "Representation",
    "RepresentationQuery",
    "SanitizedGradient",
    "SanitizedParameters",
    "ScoredMarginals",
    "SketchDesign",
    "WeightRule",
    "directions_of",
    "draw_directions",
]
