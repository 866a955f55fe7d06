"""Private synthesis: from a vault to a generator with a guarantee. It never sees a record, only releases."""

from privot.common.extras import needing, require

with needing("Synthesis needs", "synthesis"):
    # all of them now: that a report or weights cannot be written must be known before paying
    require("Synthesis needs", "synthesis", "torch", "safetensors", "jinja2")
    import privot.synthesis.neural.generators.image_generators  # noqa: F401 (makes its generators known)
    from privot.synthesis.method_configs import Embedding, Sinkhorn, SinkhornParameters, Sliced
    from privot.synthesis.methods.embedding_training import train
    from privot.synthesis.neural.defaults.problem_and_rules import Rules
    from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
    from privot.synthesis.neural.public.public_images import PublicImages
    from privot.synthesis.synthesizer import Synthesizer

__all__ = [
    "Embedding",
    "PublicEncoder",
    "PublicImages",
    "Rules",
    "Sinkhorn",
    "SinkhornParameters",
    "Sliced",
    "Synthesizer",
    "train",
]
