"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.directions import directions_of, draw_directions
from privot.mechanisms.embedding import FeatureMap, MeanEmbedding
from privot.mechanisms.gradients.dp_sgd import ClippedGradients
from privot.mechanisms.gradients.generator_gradient import Handle, ParameterQuery, SanitizedParameters
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery, SanitizedGradient
from privot.mechanisms.mechanism import Answering, Facts, Identified, Mechanism, Needs, PublicColumn, Records
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.representation import ProjectedRepresentation, Representation, RepresentationQuery
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.mechanisms.sketching.sketch_design import SketchDesign
from privot.mechanisms.summaries.array_columns import ArrayColumn
from privot.mechanisms.summaries.count import Count
from privot.mechanisms.summaries.histogram import Histogram
from privot.mechanisms.summaries.mean import Mean
from privot.mechanisms.summaries.quantiles import Quantiles
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.cell_tree import TreeRule
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import Marginals
from privot.mechanisms.table_counts.pair_weights import WeightRule
from privot.mechanisms.table_counts.related_marginals import RelatedMarginals
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.mechanisms.unproven.interpolation import Interpolation
from privot.mechanisms.unproven.published_alignment import AlignmentQuery, PublishedAlignment
from privot.mechanisms.unproven.published_gradients import PublishedGradients

__all__ = [
    "LABEL",
    "AlignmentQuery",
    "Answering",
    "ArrayColumn",
    "Axis",
    "ChosenCells",
    "ClippedGradients",
    "Count",
    "Facts",
    "FeatureMap",
    "FurtherScores",
    "GradientQuery",
    "GroupRule",
    "GroupedMarginals",
    "Handle",
    "Histogram",
    "Identified",
    "Interpolation",
    "Marginals",
    "Mean",
    "MeanEmbedding",
    "Mechanism",
    "Needs",
    "ParameterQuery",
    "PrivateSketch",
    "ProjectedRepresentation",
    "PublicColumn",
    "PublishedAlignment",
    "PublishedGradients",
    "Quantiles",
    "Query",
    "RandomProjection",
    "Records",
    "RelatedMarginals",
    "Representation",
    "RepresentationQuery",
    "SanitizedGradient",
    "SanitizedParameters",
    "ScoredMarginals",
    "SketchDesign",
    "TreeRule",
    "WeightRule",
    "directions_of",
    "draw_directions",
]
