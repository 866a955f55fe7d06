"""What tests of several mechanisms are run on: records without a vault, and noise of zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from privot.common.block_sums import RowSums
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts


class Plain(RowSums):
    """Records without a vault around them; whoever asks for clipped ones is wrong."""

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        classes: int | None = None,
        clip: float = 1.0,
    ) -> None:
        self.x, self.y, self.count = x, y, len(x)
        public = len(x) if adjacency is Adjacency.REPLACE_ONE else None
        self.facts = Facts(x.shape[1], public, clip, adjacency, classes)

    def rows(self, indices: np.ndarray | None = None) -> np.ndarray:
        return self.x if indices is None else self.x[indices]

    def clipped(self, indices: np.ndarray | None = None) -> np.ndarray:
        raise AssertionError("this mechanism bounds what it computes itself")

    def labels(self, indices: np.ndarray | None = None) -> np.ndarray:
        assert self.y is not None
        return self.y if indices is None else self.y[indices]


class Silent:
    """Noise of zero, to see what it would cover; it writes down what it was asked."""

    standing = Standing.PROVEN
    assumptions = ()

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def normal(self, shape: Any, sigma: float) -> np.ndarray:
        self.asked.append((shape, sigma))
        return np.zeros(shape)


class Raw:
    """A map that bounds nothing: φ(x) = x. The mechanism must do the bounding."""

    rounding = 0.0

    def __init__(self, dim: int) -> None:
        self.dim = self.size = dim

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "raw"}


class Onlooker(TorchDispatchMode):
    """Sees every tensor, as counters and tracers do."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))
