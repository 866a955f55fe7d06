"""How a guarantee is printed, how far a signature is trusted, and what is said where there is no privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privot.cli.printing.printed_answer import number

if TYPE_CHECKING:
    from privot.guarantee import Guarantee

NO_PRIVACY = "none: this is an exact answer about the records, so it is itself confidential"


def summary(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as every command that releases answers it."""
    written = guarantee.to_dict()
    return {
        "epsilon": guarantee.epsilon(),
        "delta": guarantee.at_delta,
        "adjacency": str(guarantee.adjacency),
        "unit": written["unit"],
        "standing": str(guarantee.standing),
        **{name: written[name] for name in ("sampling", "assumptions", "events")},
    }


def in_words(guarantee: Guarantee) -> str:
    """A guarantee on one line."""
    return (
        f"ε = {number(guarantee.epsilon(), 6)} at δ = {guarantee.at_delta:g}, "
        f"{guarantee.relation}, {guarantee.standing}"
    )


def vouched(trusted: bool) -> str:
    """What is known of the keys behind signatures."""
    return "trusted keys" if trusted else "unknown keys (--trust names the keys you trust)"
