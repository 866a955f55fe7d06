"""The ledger: what a data set may spend and has spent, written down before any release; it never sees a record.

Vaults use it as follows:

    ledger = Ledger.create("clinic.ledger")
    data = ledger.fingerprint({"x": x})
    ledger.set_budget(data, epsilon=1.0, delta=1e-5, adjacency="replace-one", label="clinic 2024")
    ledger.charge(data, event, "sketch for the partner")  # raises BudgetError, or returns once it is on disk
"""

from privot.ledger.ledger import Ledger

__all__ = [
    "Ledger",
]
