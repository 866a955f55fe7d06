"""One peer of table synthesis, run by another interpreter that has it installed; this file imports nothing of privot.

    PYTHON table_peer.py CELLS.npz SAMPLE.npz --method mst --epsilon 1 --delta 1e-6 --seed 0 --limit 1800

CELLS holds `cells` (records, columns), one whole number each, and `sizes`. SAMPLE gets as many synthetic rows and the
seconds of processor time. MST and AIM are those of `dpmm`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

import numpy as np

MODEL_SIZE = 80
"""Megabytes, AIM's own recommendation for comparisons."""
NOT_INSTALLED = 3
"""The exit code where the peer is not installed."""


def main() -> None:
    """Fit the method to the cells and draw from it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cells")
    parser.add_argument("sample")
    parser.add_argument("--method", choices=["aim", "mst"], required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, required=True, help="seconds of processor time, after which it is ended")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CPU, (chosen.limit, chosen.limit + 10))
    try:
        import pandas
        from dpmm.pipelines import AIMPipeline, MSTPipeline
    except ImportError:
        sys.exit(NOT_INSTALLED)
    with np.load(chosen.cells) as file:
        cells, sizes = file["cells"], file["sizes"]
    names = [f"c{i}" for i in range(len(sizes))]
    table = pandas.DataFrame({name: cells[:, i].astype(int) for i, name in enumerate(names)})
    domain: Any = {name: int(size) for name, size in zip(names, sizes, strict=True)}
    pipeline = {"aim": AIMPipeline, "mst": MSTPipeline}[chosen.method](
        epsilon=chosen.epsilon, delta=chosen.delta, max_model_size=MODEL_SIZE, n_jobs=1, disable_processing=True
    )
    start = time.process_time()
    pipeline.fit(table, domain=domain, random_state=chosen.seed)
    drawn = pipeline.generate(n_records=len(cells), random_state=chosen.seed)
    np.savez_compressed(chosen.sample, cells=drawn[names].to_numpy(), seconds=time.process_time() - start)


if __name__ == "__main__":
    main()
