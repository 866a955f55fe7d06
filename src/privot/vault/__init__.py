"""The vault: holds the records, pays from a budget, and lets nothing out but paid-for releases."""

from privot.vault.vault import Vault

__all__ = [
    "Vault",
]
