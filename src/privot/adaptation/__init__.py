"""Domain adaptation with a private target: from a vault and a public source to a classifier; it sees releases only."""

from privot.extras import needing

with needing("Adaptation needs", "synthesis"):
    from privot.adaptation.adapter import DomainAdapter
    from privot.adaptation.settings import METHODS, Settings, choose

__all__ = ["METHODS", "DomainAdapter", "Settings", "choose"]
