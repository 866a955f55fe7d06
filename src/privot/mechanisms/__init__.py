"""The only ways out of a vault: each says what it costs and needs, then runs; none sees the ledger."""

from privot.mechanisms.embedding import MeanEmbedding
from privot.mechanisms.gradients.dp_sgd import ClippedGradients
from privot.mechanisms.gradients.sinkhorn_gradient import SanitizedGradient
from privot.mechanisms.mechanism import Facts, Mechanism, Needs
from privot.mechanisms.projection import RandomProjection
from privot.mechanisms.sketching.sketch_design import SketchDesign
from privot.mechanisms.summaries.count import Count
from privot.mechanisms.summaries.histogram import Histogram
from privot.mechanisms.summaries.mean import Mean
from privot.mechanisms.summaries.quantiles import Quantiles

__all__ = [
    "ClippedGradients",
    "Count",
    "Facts",
    "Histogram",
    "Mean",
    "MeanEmbedding",
    "Mechanism",
    "Needs",
    "Quantiles",
    "RandomProjection",
    "SanitizedGradient",
    "SketchDesign",
]
