"""Domain adaptation with a private target: from a vault and a public source to a classifier; it sees releases only."""

from privot.common.extras import needing

with needing("Adaptation needs", "synthesis"):
    from privot.adaptation.adaptation_methods.sliced_alignment import Sliced
    from privot.adaptation.adaptation_methods.stand_in_method import StandIn
    from privot.adaptation.adaptation_methods.transformed_source import Embedding
    from privot.adaptation.adapter import DomainAdapter

__all__ = [
    "DomainAdapter",
    "Embedding",
    "Sliced",
    "StandIn",
]
