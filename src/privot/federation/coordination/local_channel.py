"""A channel within one process, for simulations and tests: each party is a function from bytes to bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping


class LocalChannel:
    """Parties by signing key, each a function from request bytes to answer bytes."""

    def __init__(self, desks: Mapping[str, Callable[[bytes], bytes]]) -> None:
        self._desks = desks

    def exchange(self, requests: Mapping[str, bytes], wait: float) -> Iterator[tuple[str, bytes | str]]:
        """Hand each request to its party, one after the other, and yield the answers."""
        for party, data in requests.items():
            if party in self._desks:
                yield party, self._desks[party](data)
