"""Benchmarks of privot and other libraries, timed in one run, on random data or on none."""

from privot.common.extras import needing

with needing("Benchmarks need", "torch"):
    import torch  # noqa: F401 (every benchmark is of tensors)
