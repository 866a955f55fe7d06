"""Fused paths for CUDA: the same numbers as plain PyTorch within tolerance, in fewer passes over memory.

Nothing here is imported unless a CUDA tensor asks for it; without Triton the plain path is taken.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether Triton is installed; a CUDA device is the caller's business."""
    return find_spec("triton") is not None
