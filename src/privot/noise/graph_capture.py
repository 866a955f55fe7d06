"""Tells whether tensor operations are captured for a later replay; code that adds noise refuses to run then."""

from __future__ import annotations


def is_captured() -> bool:
    """Whether a CUDA graph, a trace or a compiler captures operations now: each replay would repeat the same noise."""
    import torch

    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    tracing = torch.jit.is_tracing() or torch.compiler.is_compiling()  # type: ignore[attr-defined,no-untyped-call]
    return bool((started and torch.cuda.is_current_stream_capturing()) or tracing)
