"""Domain adaptation with a private target: from a vault and a public source to a classifier; it sees releases only."""

from privot.common.extras import needing

with needing("Adaptation needs", "synthesis"):
    from privot.adaptation.adaptation_config import AdaptationConfig
    from privot.adaptation.adapter import DomainAdapter

__all__ = [
    "AdaptationConfig",
    "DomainAdapter",
]
