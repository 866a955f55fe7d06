"""Distances between organisations: what each sends, what the other side makes of it; no machine, no network here.

`sketch` is proven: one private release a party, compared for ever after by anybody (`compare_sketches`).
`fedwad` and `triangle` are as published, with corrections, and protect nobody: see each.
"""

from privot.federation.protocols.fedwad import fedwad
from privot.federation.protocols.triangle import triangle
from privot.federation.sketches.signed_sketch import Sketch, sketch
from privot.federation.sketches.sketch_comparison import SketchComparison, compare_sketches, label_distance

__all__ = ["Sketch", "SketchComparison", "compare_sketches", "fedwad", "label_distance", "sketch", "triangle"]
