"""Scores of records by privot, in a process of its own, so that the memory it takes can be told.

    python -m privot_lab.bench.own_scores RECORDS.npz SCORES.npz

RECORDS and SCORES as in `lava_peer`.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np


def main() -> None:
    """Score the records."""
    from privot.valuation import score_by_records

    records, scores = sys.argv[1:]
    with np.load(records) as file:
        x, y, v, w = (file[name] for name in "xyvw")
    began, busy = time.perf_counter(), time.process_time()
    found = score_by_records((x, y), (v, w)).score
    np.savez(
        scores,
        score=found,
        seconds=time.perf_counter() - began,
        processor_seconds=time.process_time() - busy,
        mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


if __name__ == "__main__":
    main()
