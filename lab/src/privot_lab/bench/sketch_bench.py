"""Times all pairs of many sketches: one real release of made-up records, its noise drawn anew for every party."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.errors import UsageError
from privot.federation import sketch
from privot.federation.sketches.sketch_matrix import distance_matrix
from privot.federation.wire.signing import seal
from privot.mechanisms import SketchDesign
from privot.vault import Vault

COLUMNS, RECORDS, PUBLIC = 784, 1000, 2000
EPSILON, DELTA, CLIP = 1.0, 1e-5, 14.0


def measure_sketches(count: int, seed: int = 0) -> dict[str, Any]:
    """Seconds, processor seconds and bytes per sketch, with prototypes (exact transport between cells) and without.

    Records are made up: ten Gaussians in a cube of 784 columns. What is timed does not depend on them, but for how many
    cells of prototypes are not empty.
    """
    if count < 2:
        raise UsageError(f"Expected at least two sketches, got {count}.")
    g = np.random.default_rng(seed)
    middle = np.clip(g.normal(0.3, 0.3, (10, COLUMNS)), 0.0, 1.0)

    def some(n: int) -> Any:
        return np.clip(middle[g.integers(0, 10, n)] + g.normal(0.0, 0.15, (n, COLUMNS)), 0.0, 1.0)

    records, public = some(RECORDS), some(PUBLIC)
    designs = {
        "with prototypes": SketchDesign.around(public, seed=1),
        "without public data": SketchDesign.box(COLUMNS, 0.0, 1.0, seed=1),
    }
    rows = []
    for name, design in designs.items():
        vault = Vault(records, clip=CLIP, adjacency="replace-one", budget=(EPSILON, DELTA))
        made = sketch(vault, epsilon=EPSILON, delta=DELTA, design=design)
        width = {part: made.public["sigma"] / made.public["weights"][part] for part in made.value}
        many = [
            replace(made, value={k: v + width[k] * g.standard_normal(v.shape) for k, v in made.value.items()})
            for _ in range(count)
        ]
        began, busy = time.perf_counter(), time.process_time()
        distance_matrix(many)
        rows.append(
            {
                "sketch": name,
                "seconds": time.perf_counter() - began,
                "processor_seconds": time.process_time() - busy,
                "bytes_per_sketch": len(seal(made.to_bytes(), Ed25519PrivateKey.generate())),
            }
        )
    pairs = count * (count - 1) // 2
    return {"count": count, "pairs": pairs, "load": os.getloadavg()[0], "cores": os.cpu_count(), "rows": rows}
