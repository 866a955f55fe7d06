"""Distances between organisations: what each sends, what the other side makes of it; no machine, no network here.

`sketch` is proven: one private release a party, compared for ever after by anybody (`compare_sketches`).
`fedwad` and `triangle` are as published, with corrections, and protect nobody: see each.
"""

from privot.federation.comparing import Comparison, compare_sketches, label_distance
from privot.federation.fedwad_rounds import fedwad
from privot.federation.sketching import Sketch, sketch
from privot.federation.triangle_round import triangle

__all__ = ["Comparison", "Sketch", "compare_sketches", "fedwad", "label_distance", "sketch", "triangle"]
