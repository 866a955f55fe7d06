"""privot: private optimal transport. Compare, learn from and synthesise data you may not share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.guarantee import Adjacency, Guarantee, Standing
    from privot.ledger import Ledger
    from privot.release import Release
    from privot.vault import Vault

__version__ = "0.1.0"

__all__ = ["Adjacency", "Guarantee", "Ledger", "Release", "Standing", "Vault", "__version__"]

# Imported when first asked for, so that `privot --help` and the accountant load nothing they do not use.
_HOMES = {
    "Adjacency": "privot.guarantee",
    "Guarantee": "privot.guarantee",
    "Standing": "privot.guarantee",
    "Ledger": "privot.ledger",
    "Release": "privot.release",
    "Vault": "privot.vault",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'privot' has no attribute {name!r}")
