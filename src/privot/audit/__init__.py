"""Attacks what privot publishes: a measured lower bound on ε beside the claimed upper bound.

The audit reads no user's data: it makes its own data sets, neighbours and canaries. Its input is a mechanism and public
facts, a guarantee, a release, a folder of synthetic data, or the messages of a protocol. `audit` is the public way in;
the attack classes are for audits with parameters of your own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privot.common.callable_package import make_callable

if TYPE_CHECKING:
    from privot.audit.attacks.counts_attack import CountsAttack
    from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
    from privot.audit.attacks.embedding_attack import EmbeddingAttack
    from privot.audit.attacks.gradient_attack import GradientAttack
    from privot.audit.attacks.learned_attack import LearnedAttack
    from privot.audit.attacks.projection_attack import ProjectionAttack
    from privot.audit.attacks.sketch_attack import SketchAttack
    from privot.audit.findings import Finding
    from privot.audit.mechanism_audit import audit

__all__ = [
    "CountsAttack",
    "DPSGDAttack",
    "EmbeddingAttack",
    "Finding",
    "GradientAttack",
    "LearnedAttack",
    "ProjectionAttack",
    "SketchAttack",
    "audit",
]

# Imported on first use: an attack loads its mechanism, and checks of files need neither.
_HOMES = {
    "CountsAttack": "attacks.counts_attack",
    "DPSGDAttack": "attacks.dp_sgd_attack",
    "EmbeddingAttack": "attacks.embedding_attack",
    "Finding": "findings",
    "GradientAttack": "attacks.gradient_attack",
    "LearnedAttack": "attacks.learned_attack",
    "ProjectionAttack": "attacks.projection_attack",
    "SketchAttack": "attacks.sketch_attack",
    "audit": "mechanism_audit",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"privot.audit.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'privot.audit' has no attribute {name!r}")


def _audit(*args: Any, **more: Any) -> Any:
    from privot.audit.mechanism_audit import audit

    return audit(*args, **more)


# `from privot import audit` gives this package: a call of it is a call of the function
make_callable(__name__, _audit)
