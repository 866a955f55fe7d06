"""The sentence for an unexpected error: it names the type, never the message, which may quote a record."""

from __future__ import annotations

OUT_OF_MEMORY = "The machine ran out of memory: use smaller sizes, or a machine with more of it."
_ALLOCATORS = ("can't allocate memory", "not enough memory", "out of memory")
"""Parts of the plain RuntimeError that PyTorch raises when memory runs out."""


def unforeseen(error: Exception) -> str:
    """One sentence about `error`, to be printed with exit code 1.

    >>> unforeseen(ZeroDivisionError("record 17"))
    'internal error (ZeroDivisionError): run again with --debug and report it.'
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return OUT_OF_MEMORY
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _ALLOCATORS):
        return OUT_OF_MEMORY
    return f"internal error ({type(error).__name__}): run again with --debug and report it."
