"""Where work is computed: the device of tensors, "cpu" or "cuda", and how many threads are worth starting."""

from __future__ import annotations

import os

from privot.common.extras import needing
from privot.errors import UsageError, brief

__all__ = ["check_device", "usable_cores", "usable_device"]

_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"


def check_device(name: object, *, auto: bool = False) -> str:
    """`name` if it names a device: "cpu", "cuda", or with `auto` also "auto". It does not look for the device.

    Raises
    ------
    UsageError
        If it is another name.

    >>> check_device("cuda")
    'cuda'
    """
    known = ("auto", "cpu", "cuda") if auto else ("cpu", "cuda")
    if not isinstance(name, str) or name not in known:
        raise UsageError(f"Unknown device {brief(name)}: say {', '.join(known[:-1])} or {known[-1]}.")
    return name


def usable_device(name: str, *, auto: bool = False, need: str = "This needs") -> str:
    """The device of this name, if this machine has it.

    Parameters
    ----------
    name
        "cpu" or "cuda"; with `auto` also "auto", which is "cuda" where there is one and "cpu" elsewhere.
    auto
        Whether the device may be chosen by what is there. A mechanism does not allow it: what a release depends on is
        stated.
    need
        How the sentence begins that is said where PyTorch is not installed, such as "Embeddings need".

    Returns
    -------
    str
        "cpu" or "cuda".

    Raises
    ------
    UsageError
        If there is no device of this name, or none here; or if cuBLAS was told to emulate float64 on it. Sums of
        records are exact because products of whole numbers are. Emulated ones need not be, and the way that is chosen
        depends on the numbers of all records: one NaN changed the products of the others on an H200.
    MissingDependencyError
        If PyTorch is not installed.

    >>> usable_device("cpu")
    'cpu'
    >>> usable_device("auto", auto=True) in ("cpu", "cuda")
    True
    """
    with needing(need, "torch"):
        import torch
    check_device(name, auto=auto)
    there = name != "cpu" and torch.cuda.is_available()
    if there and os.environ.get(_EMULATION, "0").strip() not in ("", "0"):
        raise UsageError(
            f"cuBLAS may compute float64 products with fewer digits here ({_EMULATION}): unset that, or use the device "
            "cpu."
        )
    if name == "auto":
        return "cuda" if there else "cpu"
    if name == "cuda" and not there:
        raise UsageError("There is no CUDA device here: use the device cpu.")
    return name


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
