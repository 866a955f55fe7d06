"""Attacks what privot publishes: lower bounds on ε beside the claimed upper ones, on records the audit makes itself.

Nothing here reads anybody's data: data sets, neighbours and canaries are made for the occasion. What is handed in is a
mechanism's parameters, a guarantee, a release, a folder of synthetic data or the messages of a protocol.
"""

from privot.audit.attack import Attack, audit
from privot.audit.findings import Check, Claim, Finding
from privot.common.callable_package import make_callable

__all__ = ["Attack", "Check", "Claim", "Finding", "audit"]

# `from privot import audit` gives this package: a call of it is a call of the function
make_callable(__name__, audit)
