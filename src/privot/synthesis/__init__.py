"""Private synthesis: from a vault to a generator with a guarantee. It never sees a record, only releases."""

from privot.synthesis.embedding import Target, Training, train
from privot.synthesis.features import Fourier, Stack, feature_map
from privot.synthesis.generators import Generator, build
from privot.synthesis.rules import Problem, Rules, choose_features, choose_rules
from privot.synthesis.synthesizer import Synthesizer

__all__ = [
    "Fourier",
    "Generator",
    "Problem",
    "Rules",
    "Stack",
    "Synthesizer",
    "Target",
    "Training",
    "build",
    "choose_features",
    "choose_rules",
    "feature_map",
    "train",
]
