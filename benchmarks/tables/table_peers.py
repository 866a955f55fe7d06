"""AIM and MST of `dpmm` on the cells that `table_comparison.py` wrote; run it where dpmm is installed.

    python benchmarks/tables/table_peers.py CELLS.npz SAMPLE.npz --method aim --epsilon 1 --delta 1e-6 --seed 0

CELLS holds `cells` (records, columns), one whole number each, and `sizes`. SAMPLE gets as many synthetic rows.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline

MODEL_SIZE = 80
"""Megabytes, AIM's own recommendation for comparisons."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells")
    parser.add_argument("sample")
    parser.add_argument("--method", choices=["aim", "mst"], required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="seconds of processor time, after which it is ended")
    chosen = parser.parse_args()
    if chosen.limit is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (chosen.limit, chosen.limit + 10))
    with np.load(chosen.cells) as file:
        cells, sizes = file["cells"], file["sizes"]
    names = [f"c{i}" for i in range(len(sizes))]
    table = pd.DataFrame({name: cells[:, i].astype(int) for i, name in enumerate(names)})
    domain: Any = {name: int(size) for name, size in zip(names, sizes, strict=True)}
    pipeline = {"aim": AIMPipeline, "mst": MSTPipeline}[chosen.method](
        epsilon=chosen.epsilon, delta=chosen.delta, max_model_size=MODEL_SIZE, n_jobs=1, disable_processing=True
    )
    start = time.process_time()
    pipeline.fit(table, domain=domain, random_state=chosen.seed)
    drawn = pipeline.generate(n_records=len(cells), random_state=chosen.seed)
    seconds = time.process_time() - start
    np.savez_compressed(chosen.sample, cells=drawn[names].to_numpy(), seconds=seconds)
    print(f"{chosen.method} ε = {chosen.epsilon:g} seed {chosen.seed}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
