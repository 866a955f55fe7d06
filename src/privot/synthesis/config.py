"""The frozen configuration of a synthesis: what was asked for, in public terms; it plans nothing and sees no record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privot.common.image_axes import image_axes
from privot.errors import DataError, PrivotError, UsageError
from privot.mechanisms.embedding import FeatureMap
from privot.mechanisms.mechanism import Facts
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.public.public_images import PublicImages
from privot.tables.codec import TableCodec
from privot.tables.related_codec import RelatedCodec, codec_from_dict


@dataclass(frozen=True, eq=False)
class SynthesisConfig:
    """The parameters of a `Synthesizer`, frozen; they are explained there."""

    epsilon: float
    delta: float
    method: str = "embedding"
    shape: Sequence[int] | None = None
    low: float | Sequence[float] = 0.0
    high: float | Sequence[float] = 1.0
    records: int | None = None
    features: FeatureMap | None = None
    encoder: PublicEncoder | None = None
    label_encoder: PublicEncoder | None = None
    public: PublicImages | None = None
    rules: Rules | None = None
    options: Mapping[str, Any] | None = None
    codec: TableCodec | RelatedCodec | None = None
    class_names: Sequence[str] | None = None
    device: str = "auto"
    seed: int | None = None
    allow_unproven: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The public choices that sampling and reading back need, as plain JSON types."""
        # named only where there are some: without them everything is written as it always was
        some = {"public": self.public, "label_encoder": self.label_encoder}
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "method": self.method,
            "shape": None if self.shape is None else [int(s) for s in self.shape],
            "low": np.asarray(self.low, dtype=np.float64).tolist(),
            "high": np.asarray(self.high, dtype=np.float64).tolist(),
            "records": self.records,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "options": None if self.options is None else dict(self.options),
            "codec": None if self.codec is None else self.codec.to_dict(),
            "class_names": None if self.class_names is None else [str(name) for name in self.class_names],
            **{name: given.to_dict() for name, given in some.items() if given is not None},
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], device: str = "auto") -> SynthesisConfig:
        """Read what `to_dict` wrote."""
        try:
            held = dict(fields)
            # features are not evaluated any more; a labeller that needs the encoder names it itself (`saved_model`)
            for name in ("encoder", "label_encoder"):
                _check_encoder(held.pop(name, None))
            # nor are public images needed any more
            held.pop("public", None)
            codec, names = held.pop("codec"), held.get("class_names")
            if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
                raise DataError("The class names of a synthesis must be a list of texts.")
            if not isinstance(held.get("method", ""), str):
                raise DataError("The method of a synthesis must be a text.")
            shape = held.get("shape")
            if shape is not None and not (isinstance(shape, list) and all(type(side) is int for side in shape)):
                raise DataError("The shape of a synthesis must be a list of whole numbers.")
            return cls(**held, codec=None if codec is None else codec_from_dict(codec), device=device)
        except PrivotError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"This is not the configuration of a synthesis ({type(error).__name__}).") from None

    def image_shape(self, facts: Facts) -> tuple[int, ...] | None:
        """The public shape of an image, if there is one, checked against the columns."""
        if self.shape is None:
            return None
        shape = tuple(int(s) for s in self.shape)
        image_axes(shape)
        if int(np.prod(shape)) != facts.dim:
            raise UsageError(f"An image of shape {shape} has {np.prod(shape)} values, a record has {facts.dim}.")
        return shape


def _check_encoder(fields: Any) -> None:
    """Refuse what `PublicEncoder.to_dict` cannot have written; a page shows it."""
    if fields is None:
        return
    digest, size, (low, high) = fields["digest"], fields["size"], fields["range"]
    if not isinstance(digest, str) or not (size is None or type(size) is int):
        raise DataError("An encoder of a synthesis is described by its digest, its size and its range.")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise DataError("The range of an encoder must be two numbers.")
