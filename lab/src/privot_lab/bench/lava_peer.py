"""LAVA of opendataval, run by an interpreter that has it installed; this file imports nothing of privot.

    PYTHON lava_peer.py RECORDS.npz SCORES.npz --threads 2 --limit 1800

RECORDS holds x, y, v and w: records, their labels, and those of the validation set. SCORES gets one score per record,
high is harmful, the seconds by the clock and of processors, and the most memory it held.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

NOT_INSTALLED = 3
"""The exit code where the peer is not installed."""


def main() -> None:
    """Score the records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records")
    parser.add_argument("scores")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--limit", type=int, required=True, help="seconds of processor time, after which it is ended")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CPU, (chosen.limit, chosen.limit + 10))
    try:
        import torch
        from opendataval.dataval import LavaEvaluator
    except ImportError:
        sys.exit(NOT_INSTALLED)
    torch.set_num_threads(chosen.threads)
    with np.load(chosen.records) as file:
        x, v = (torch.tensor(file[name], dtype=torch.float32) for name in "xv")
        classes = int(max(file["y"].max(), file["w"].max())) + 1
        y, w = (torch.nn.functional.one_hot(torch.tensor(file[name]), classes).float() for name in "yw")
    began, busy = time.perf_counter(), time.process_time()
    lava = LavaEvaluator(random_state=0).input_data(x, y, v, w)
    # its values are high for useful records
    scores = -lava.train_data_values().evaluate_data_values()
    np.savez(
        chosen.scores,
        score=scores,
        seconds=time.perf_counter() - began,
        processor_seconds=time.process_time() - busy,
        mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


if __name__ == "__main__":
    main()
