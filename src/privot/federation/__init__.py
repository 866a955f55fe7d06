"""Organisations that may not share records: what each sends, and what is computed from it.

`sketch` is proven: each party releases one private sketch, and anybody may compare sketches (`compare_sketches`), at no
further privacy cost. `private_sliced` is proven too: DP-SWD, one distance for one release per side. `fedwad` and
`triangle` are published protocols, with corrections, and protect nobody: see each. `Federation` makes one release of
the records of many vaults, as if they lay in one; it is proven, and a simulation so far.
The functions here run in one process; `privot.federation.flower` carries the messages of distances between machines.
"""

from privot.federation.private_distance import private_sliced
from privot.federation.protocols.fedwad import fedwad
from privot.federation.protocols.triangle import triangle
from privot.federation.simulated_federation import Federation
from privot.federation.sketches.delivering import sketch
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.sketches.sketch_comparison import compare_sketches

__all__ = [
    "Federation",
    "Sketch",
    "compare_sketches",
    "fedwad",
    "private_sliced",
    "sketch",
    "triangle",
]
