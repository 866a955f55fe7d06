"""The order for one sketch: its design, its price and its adjacency. It opens no vault and knows no message format."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from privot.common.arguments import check_delta, check_epsilon
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign


@dataclass(frozen=True, eq=False)
class Order:
    """An order for a sketch of this design, at (ε, δ), under one adjacency.

    Raises `DataError` if ε or δ is out of range: orders arrive from other organisations.
    """

    design: SketchDesign
    epsilon: float
    delta: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        try:
            check_epsilon(self.epsilon)
            check_delta(self.delta)
        except UsageError as error:
            raise DataError(str(error)) from None

    def digest(self) -> str:
        """A SHA-256 that names the order: the design to the last bit, and its price."""
        terms = f"{self.epsilon!r} {self.delta!r} {self.adjacency}\n".encode()
        return hashlib.sha256(terms + self.design.exact_bytes()).hexdigest()
