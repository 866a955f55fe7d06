"""Linear scores of classes on the features of a public map; they label samples, and see no record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.synthesis.neural.features.network_features import digest_of_arrays


class ClassifiedMap(Protocol):
    """A feature map that a `LinearClassifier` reads samples with."""

    @property
    def dim(self) -> int:
        """Columns of a record."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The public shape of an image."""
        ...

    @property
    def size(self) -> int:
        """Numbers in φ(x)."""
        ...

    def blocks(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        """The features of some rows at a time, so that little memory is held."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """A description with a digest that identifies the map."""
        ...

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its constants, in float64."""
        ...


class LinearClassifier(ABC):
    """Scores φ(x)·W + b of classes; the largest says the class. Subclasses say which map φ is."""

    kind: ClassVar[str]

    def __init__(
        self, features: ClassifiedMap, weights: NDArray[np.float64], offsets: NDArray[np.float64] | None = None
    ) -> None:
        self.map, self.weights = features, np.array(weights, dtype=np.float64)
        if self.weights.ndim != 2 or len(self.weights) != features.size or not np.isfinite(self.weights).all():
            raise UsageError(f"The weights of a classifier must be finite numbers, {features.size} for every class.")
        self.offsets = np.zeros(self.weights.shape[1]) if offsets is None else np.array(offsets, dtype=np.float64)
        if self.offsets.shape != self.weights.shape[1:] or not np.isfinite(self.offsets).all():
            raise UsageError("The offsets of a classifier must be finite numbers, one for every class.")

    @classmethod
    @abstractmethod
    def read_map(cls, fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> ClassifiedMap:
        """The map that its `to_dict` and `tensors` wrote."""

    @property
    def dim(self) -> int:
        """Columns of a record."""
        return self.map.dim

    @property
    def shape(self) -> tuple[int, ...]:
        """The public shape of an image."""
        return self.map.shape

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.weights.shape[1])

    def with_offsets(self, offsets: NDArray[np.float64]) -> Self:
        """The same classifier with other offsets b."""
        return type(self)(self.map, self.weights, offsets)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, classes) from (rows, dim); the largest says the class. Only their order has a meaning."""
        weights, offsets = (torch.as_tensor(held).to(x) for held in (self.weights, self.offsets))
        parts = [phi @ weights + offsets for phi in self.map.blocks(x)]
        return torch.cat(parts) if parts else x.new_zeros((0, self.classes))

    def to_dict(self) -> dict[str, Any]:
        """A description with a digest; the arrays lie in a file (`tensors`)."""
        return {"kind": self.kind, "features": self.map.to_dict(), "digest": digest_of_arrays(self._own())}

    def _own(self) -> dict[str, torch.Tensor]:
        """Weights, and offsets where there are any: files of before they were known stay readable."""
        held = {"weights": torch.from_numpy(self.weights.copy())}
        return {**held, "offsets": torch.from_numpy(self.offsets.copy())} if self.offsets.any() else held

    def tensors(self) -> dict[str, torch.Tensor]:
        """The constants of the map and the weights, in float64."""
        return {**self.map.tensors(), **self._own()}

    @classmethod
    def from_tensors(cls, fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Self:
        """The classifier that `to_dict` and `tensors` wrote, to the last bit."""
        features = cls.read_map(fields.get("features", {}), tensors)
        try:
            made = cls(
                features, tensors["weights"].numpy(), tensors["offsets"].numpy() if "offsets" in tensors else None
            )
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise DataError(f"This is not a classifier that privot wrote ({type(error).__name__}).") from None
        if made.to_dict() != dict(fields):
            raise DataError("This classifier is not the one that was released.")
        return made
