"""What every engine promises: map a function over partitions, each result once; it sees no ledger and no noise.

A third engine is one class with a `map`: see `docs/design/decisions/0006-partitions-and-engines.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.partitions.partition import Partition

T = TypeVar("T")
Task = Callable[[Partition], T]
"""A function of one partition that can be pickled and called any number of times."""


class Engine(Protocol):
    """Runs one task per partition, wherever its workers are.

    Formal promises: each partition's result is yielded exactly once, whatever workers die, are slow or start again; a
    task that keeps failing ends in an error that names its partition. A task may run more than once, so it must have no
    effect but its result. Workers are inside the trust boundary: they read records and send sums without noise.
    """

    @property
    def workers(self) -> int:
        """How many partitions are read at once."""
        ...

    def map(self, task: Task[T], partitions: Sequence[Partition]) -> Iterator[tuple[int, T]]:
        """(place, result) of every partition, in whatever order they come."""
        ...


def failure_of(error: Exception) -> tuple[type[PrivotError], str] | None:
    """The class and sentence of one of privot's own errors, which quote no record; None for any other."""
    return (type(error), str(error)) if isinstance(error, PrivotError) else None


def arithmetic_mark(readers: Sequence[str] = (), tensors: bool = False) -> str:
    """Tells apart machines that may make other numbers of the same records: versions, and a digest of public numbers.

    All workers must read and compute alike: a record's contribution may not depend on the machine that other records
    lie on. It compares the versions of privot, Python, NumPy and of the `readers` of the partitions, and how NumPy
    rounds a few functions, not all; with `tensors` also PyTorch's version, settings and rounding.

    >>> arithmetic_mark(("pillow",)).split("; ")[2].split(" ")[0], arithmetic_mark().count("pillow")
    ('numpy', 0)
    """
    versions = [f"{name} {reader_version(name)}" for name in ("privot", "python", "numpy", *readers)]
    if tensors:
        versions.append(f"torch {reader_version('torch')}")
    return "; ".join([*versions, f"arithmetic {_arithmetic(tensors)}"])


def differing_mark(here: str, there: str) -> str:
    """What two marks differ in, in words.

    >>> differing_mark("privot 1.0; pillow 13.0", "privot 1.0; pillow 12.1")
    'pillow 12.1 where this process has pillow 13.0'
    """
    pairs = zip(here.split("; "), there.split("; "), strict=False)
    found = next(((mine, theirs) for mine, theirs in pairs if mine != theirs), (here, there))
    if found[0].startswith("arithmetic"):
        return "a processor or settings that round otherwise than here"
    return f"{found[1]} where this process has {found[0]}"


_MODULES = {"pillow": "PIL", "python": "platform"}


@lru_cache(maxsize=64)
def reader_version(name: str) -> str:
    """The version of a package that is imported here, with that of the libraries it decodes by; "none" without it."""
    try:
        module = import_module(_MODULES.get(name, name))
        if name == "python":
            return str(module.python_version())
        version = str(module.__version__)
        if name == "pillow":
            # decoders of JPEG differ in the last bit of a pixel
            features = import_module("PIL.features")
            version += f" (jpeg {features.version('jpg')}, turbo {features.version('libjpeg_turbo')})"
        return version
    except ImportError:
        return "none"


def _arithmetic(tensors: bool) -> str:
    """A digest of what this process makes of a few numbers."""
    line = np.linspace(-30.0, 30.0, 1537)
    square = line.reshape(29, 53)
    parts = [np.exp(line), np.log1p(np.abs(line)), np.sqrt(np.abs(line)), square @ square.T, line / 7.0]
    sha = hashlib.sha256()
    for part in parts:
        sha.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    if tensors:
        sha.update(_tensor_arithmetic(line))
    return sha.hexdigest()[:16]


def _tensor_arithmetic(line: NDArray[np.float64]) -> bytes:
    """The settings that change how PyTorch rounds, and what it makes of a few numbers."""
    import torch

    settings = [
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.mkldnn.enabled,
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
    ]
    found = [repr(settings).encode()]
    for kind in (torch.float32, torch.float64):
        x = torch.from_numpy(line).to(kind)
        square = x.reshape(29, 53)
        # the last one tells whether numbers near zero are flushed to it
        for part in (torch.cos(x), torch.exp(x), square @ square.T, x * torch.finfo(kind).tiny / 1024):
            found.append(part.numpy().tobytes())
    return b"".join(found)


def called(task: Task[Any], partition: Partition) -> tuple[str, Any]:
    """("done", result) or ("failed", what may be said of the failure): nothing that could quote a record."""
    try:
        return "done", task(partition)
    except Exception as error:
        known = failure_of(error)
        if known is None:
            return "failed", (PrivotError, f"Partition {partition.name!r} could not be read ({type(error).__name__}).")
        kind, sentence = known
        if partition.name not in sentence:
            sentence = f"Partition {partition.name!r}: {sentence}"
        return "failed", (kind, sentence)
