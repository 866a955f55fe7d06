"""Signed sketch files, as the commands read them, and the public design that one is made with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from privot.cli.parsing.typed_values import read_pair

if TYPE_CHECKING:
    import numpy as np

    from privot.federation import Sketch
    from privot.mechanisms import SketchDesign


def is_sketch(source: str) -> bool:
    """Whether `source` looks like a file that `privot sketch` wrote; its signature is checked later."""
    from privot.opening.archives import members_of

    return "signature.json" in members_of(source)


def read_sketches(sources: list[str] | list[Path], trust: list[Path] | None) -> tuple[list[Sketch], bool]:
    """Sketches with valid signatures, and whether those are by keys that `--trust` named."""
    from privot.federation import Sketch
    from privot.federation.wire.signing import read_public

    trusted = None if not trust else tuple(read_public(path) for path in trust)
    return [Sketch.load(source, trusted) for source in sources], trusted is not None


def check_one_design(
    prototypes: str | None, value_range: str | None, radius: float | None
) -> tuple[float, float] | None:
    """Refuse any number of public designs but one; the range of values, if that is the one."""
    from privot.errors import UsageError

    if sum(given is not None for given in (prototypes, value_range, radius)) != 1:
        raise UsageError(
            "A sketch needs exactly one of --prototypes FILE (public data), --range LOW,HIGH and --radius NUMBER."
        )
    return None if value_range is None else read_pair(value_range)


def public_design(
    dim: int, prototypes: np.ndarray | None, span: tuple[float, float] | None, radius: float | None, seed: int
) -> SketchDesign:
    """The design around public `prototypes`, or for a public range of values, or for a public radius."""
    from privot.mechanisms import SketchDesign

    if prototypes is not None:
        return SketchDesign.around(prototypes, seed=seed)
    if span is not None:
        return SketchDesign.box(dim, *span, seed=seed)
    assert radius is not None
    return SketchDesign.plain(dim, radius, seed=seed)
