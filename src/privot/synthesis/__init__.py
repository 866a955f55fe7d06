"""Private synthesis: from a vault to a generator with a guarantee. It never sees a record, only releases."""

from privot.common.extras import needing, require

with needing("Synthesis needs", "synthesis"):
    # all of them now: that a report or weights cannot be written must be known before paying
    require("Synthesis needs", "synthesis", "torch", "safetensors", "jinja2")
    import privot.synthesis.neural.generators.image_generators  # noqa: F401 (makes its generators known)
    from privot.synthesis.methods.embedding_training import Target, train
    from privot.synthesis.neural.defaults.feature_defaults import choose_features
    from privot.synthesis.neural.defaults.generator_defaults import choose_rules
    from privot.synthesis.neural.defaults.problem_and_rules import Problem, Rules
    from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
    from privot.synthesis.neural.features.encoder_features import EncoderFeatures
    from privot.synthesis.neural.features.fourier import Fourier, Stack, feature_map
    from privot.synthesis.neural.features.hadamard import HadamardFourier
    from privot.synthesis.neural.generator_training.training_state import TrainingState
    from privot.synthesis.neural.generators.generator import Generator, build
    from privot.synthesis.neural.public.public_images import PublicImages
    from privot.synthesis.synthesizer import Synthesizer

__all__ = [
    "EncoderFeatures",
    "Fourier",
    "Generator",
    "HadamardFourier",
    "Problem",
    "PublicEncoder",
    "PublicImages",
    "Rules",
    "Stack",
    "Synthesizer",
    "Target",
    "TrainingState",
    "build",
    "choose_features",
    "choose_rules",
    "feature_map",
    "train",
]
