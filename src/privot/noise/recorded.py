"""Tells whether tensors are computed now or only written down, to be computed again; code that adds noise asks it."""

from __future__ import annotations


def is_recorded() -> bool:
    """Whether a CUDA graph, a trace or a compiled function takes down what is done now: each replay would repeat it."""
    import torch

    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    tracing = torch.jit.is_tracing() or torch.compiler.is_compiling()  # type: ignore[attr-defined,no-untyped-call]
    return bool((started and torch.cuda.is_current_stream_capturing()) or tracing)
