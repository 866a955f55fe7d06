"""The frozen configuration of a synthesis: what was asked for, in public terms; it plans nothing and sees no record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privot.common.image_axes import image_axes
from privot.errors import DataError, PrivotError, UsageError
from privot.kinds import Kind, Vectors
from privot.kinds.kind import Span
from privot.kinds.kind_registry import kind_of_params
from privot.mechanisms.embedding import FeatureMap
from privot.mechanisms.mechanism import Facts
from privot.synthesis.method_configs import MethodConfig
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.public.public_images import PublicImages


@dataclass(frozen=True, eq=False)
class SynthesisConfig:
    """What was asked for, frozen: the parameters of a `Synthesizer`, explained there, and the kind of the records."""

    epsilon: float
    delta: float
    method: str = "embedding"
    kind: Kind = field(default_factory=Vectors)
    asked: MethodConfig = field(default_factory=MethodConfig)
    records: int | None = None
    device: str = "auto"
    seed: int | None = None
    allow_unproven: bool = False

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of an image."""
        return self.kind.shape

    @property
    def low(self) -> Span:
        """The lower end of the range of values."""
        return self.kind.low

    @property
    def high(self) -> Span:
        """The upper end."""
        return self.kind.high

    @property
    def codec(self) -> Any:
        """The codec of tables."""
        return self.kind.codec

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes."""
        return self.kind.class_names

    @property
    def rules(self) -> Rules | None:
        """The rules of training that were asked for."""
        return self.asked.rules

    @property
    def options(self) -> Mapping[str, Any] | None:
        """The options of the method."""
        return self.asked.options

    @property
    def features(self) -> FeatureMap | None:
        """The feature map that was asked for."""
        return self.asked.features

    @property
    def encoder(self) -> PublicEncoder | None:
        """The public encoder."""
        return self.asked.encoder

    @property
    def label_encoder(self) -> PublicEncoder | None:
        """The one that samples are labelled by."""
        return self.asked.label_encoder

    @property
    def public(self) -> PublicImages | None:
        """The public images."""
        return self.asked.public

    def to_dict(self) -> dict[str, Any]:
        """The public choices that sampling and reading back need, as plain JSON types."""
        # named only where there are some: without them everything is written as it always was
        some = {"public": self.public, "label_encoder": self.label_encoder}
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "method": self.method,
            **self.kind.to_params(),
            "records": self.records,
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "options": None if self.options is None else dict(self.options),
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
            told = {name: held.pop(name) for name in ("epsilon", "delta", "records", "method", "options")}
            if not isinstance(told["method"], str):
                raise DataError("The method of a synthesis must be a text.")
            asked = MethodConfig(options=told.pop("options"))
            return cls(**told, kind=kind_of_params(held), asked=asked, device=device)
        except PrivotError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"This is not the configuration of a synthesis ({type(error).__name__}).") from None

    def image_shape(self, facts: Facts) -> tuple[int, ...] | None:
        """The public shape of an image, if there is one, checked against the columns."""
        shape = self.shape
        if shape is None:
            return None
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
