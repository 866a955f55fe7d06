"""Parameters of a synthesis as tests vary them, one by one, and as a `Synthesizer` takes them."""

from __future__ import annotations

from typing import Any

from privot.kinds import Images, Vectors
from privot.synthesis.methods import asked_of

OF_KIND = ("shape", "low", "high", "codec")
OF_METHOD = ("features", "encoder", "label_encoder", "public", "rules", "options")


def flat(**fields: Any) -> dict[str, Any]:
    """The same with a kind in place of what is public about records, and a method's own config."""
    told = dict(fields)
    kind = {name: told.pop(name) for name in OF_KIND if name in told}
    asked = {name: told.pop(name) for name in OF_METHOD if name in told}
    names, codec, shape = told.pop("class_names", None), kind.pop("codec", None), kind.pop("shape", None)
    if codec is not None:
        told["kind"] = codec
    elif shape is not None:
        told["kind"] = Images(shape, names, **kind)
    elif kind or names:
        told["kind"] = Vectors(names, **kind)
    if any(value is not None for value in asked.values()):
        told["method"] = asked_of(told.get("method", "embedding"), **asked)
    return told
