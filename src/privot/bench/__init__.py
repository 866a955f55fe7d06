"""Ours and the peers', timed in one run: the only place where speed is shown."""

from privot.common.extras import needing

with needing("Benchmarks need", "torch"):
    import torch  # noqa: F401 (every benchmark is of tensors)
