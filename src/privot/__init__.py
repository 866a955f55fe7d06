"""privot: private optimal transport. Compare, learn from and synthesise data you may not share.

The public names are imported when they are first used, so `import privot` loads neither NumPy nor PyTorch:

    Vault, Ledger, Release                   records, what they may spend, and what leaves the vault
    Count, Mean, Histogram, Quantiles        simple numbers of one column, released with their own ε
    Guarantee, Adjacency, Standing           what a release costs, between which data sets, and how firmly that stands
    load, Schema                             read records from a file; what is public about a table
    Synthesizer, DomainAdapter               learn a generator, or adapt a classifier, from releases
    sketch, compare_sketches                 private sketches, and distances between them
    audit                                    attack a mechanism: the package `privot.audit`, which can also be called

>>> from privot import Adjacency, Guarantee, audit
>>> Adjacency("replace-one")
<Adjacency.REPLACE_ONE: 'replace-one'>
>>> callable(audit), audit.Finding.__name__
(True, 'Finding')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.adaptation import DomainAdapter
    from privot.data.loading import load
    from privot.federation import compare_sketches, sketch
    from privot.guarantee import Adjacency, Guarantee, Standing
    from privot.ledger import Ledger
    from privot.mechanisms import Count, Histogram, Mean, Quantiles
    from privot.release import Release
    from privot.synthesis import Synthesizer
    from privot.tables import Schema
    from privot.vault import Vault

    from . import audit

__version__ = "0.1.0"

__all__ = [
    "Adjacency",
    "Count",
    "DomainAdapter",
    "Guarantee",
    "Histogram",
    "Ledger",
    "Mean",
    "Quantiles",
    "Release",
    "Schema",
    "Standing",
    "Synthesizer",
    "Vault",
    "audit",
    "compare_sketches",
    "load",
    "sketch",
]

# Imported when first asked for, so that `privot --help` and the accountant load nothing they do not use.
_HOMES = {
    "Adjacency": "privot.guarantee",
    "Count": "privot.mechanisms",
    "DomainAdapter": "privot.adaptation",
    "Guarantee": "privot.guarantee",
    "Histogram": "privot.mechanisms",
    "Ledger": "privot.ledger",
    "Mean": "privot.mechanisms",
    "Quantiles": "privot.mechanisms",
    "Release": "privot.release",
    "Schema": "privot.tables",
    "Standing": "privot.guarantee",
    "Synthesizer": "privot.synthesis",
    "Vault": "privot.vault",
    "compare_sketches": "privot.federation",
    "load": "privot.data.loading",
    "sketch": "privot.federation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "audit":
        return import_module("privot.audit")
    raise AttributeError(f"module 'privot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
