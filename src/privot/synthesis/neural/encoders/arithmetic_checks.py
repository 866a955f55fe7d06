"""Refuses a process, a library or a GPU whose float64 is not what `exact_arithmetic` rests on; it sees no record.

These are tests of assumptions, not proofs: they find the settings that are known to break them.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.synthesis.neural.encoders.exact_arithmetic import HALF

_STRETCH = 4 * 32_768
"""Four times the numbers from which PyTorch gives a part of an array to another thread."""
_RIGHT = "switch it back and start again."


def check_threads(device: torch.device | str = "cpu") -> None:
    """Refuse a process in which a thread computes otherwise than IEEE 754 says: `check_smallest_numbers`, and rounding.

    The direction of rounding is a mode of one thread as well: some libraries of interval arithmetic leave it changed.
    """
    if torch.device(device).type == "cpu":
        _check_team()
    check_smallest_numbers(device)
    # two ties: upwards leaves 1, downwards and to zero do not reach the even number 1 + 2⁻⁵¹
    for start, wanted in ((1.0, 1.0), (1.0 + 2.0**-52, 1.0 + 2.0**-51)):
        if not bool((_in_every_thread(start, device) + 2.0**-53 == wanted).all()):
            raise PrivotError(
                "A thread of this process does not round to the nearest number (fesetround): features of an encoder "
                f"need that, so {_RIGHT}"
            )


def _check_team() -> None:
    """Refuse several threads where the ones that are looked at need not be the ones that compute.

    OpenMP gives each thread one part of an array, so that an array with a part for each looks at all of them. A pool
    gives parts to whichever thread is free, and OMP_DYNAMIC lets a team grow after it was looked at.
    """
    if torch.get_num_threads() == 1:
        return
    grows = os.environ.get("OMP_DYNAMIC", "").strip().lower() in ("true", "1", "yes", "on")
    if grows or "backend: OpenMP" not in torch.__config__.parallel_info():
        raise PrivotError(
            "PyTorch may compute with threads here that cannot be checked (OMP_DYNAMIC, or a pool of threads): "
            "features of an encoder need that, so set OMP_NUM_THREADS=1 and start again."
        )


def _in_every_thread(value: float, device: torch.device | str) -> Tensor:
    """So many times `value` that every thread gets a part of what is computed of them."""
    return torch.full((_STRETCH * torch.get_num_threads(),), value, dtype=torch.float64, device=device)


def check_smallest_numbers(device: torch.device | str = "cpu") -> None:
    """Refuse a process in which a thread, or the `device`, takes numbers below 2⁻¹⁰²² for zero.

    `torch.set_flush_denormal`, and some libraries when they are loaded, switch that on for one thread and not for the
    others. What a row is would then depend on the thread that computes it, and so on the number of rows beside it.
    """
    # the bits are compared, since such a thread calls the small numbers equal
    if not bool(((_in_every_thread(2.0**-1070, device) * 0.5).view(torch.int64) == 1 << 3).all()):
        raise PrivotError(
            "PyTorch takes the smallest numbers for zero here (torch.set_flush_denormal): features of an encoder need "
            f"them as they are, so {_RIGHT}"
        )


def check_products(device: torch.device | str = "cpu") -> None:
    """Refuse a library whose matrix products of whole numbers, the largest that occur here, are not exact."""
    random = torch.Generator("cpu").manual_seed(0)
    whole = torch.randint(-(2**27), 2**27, (64, 250), generator=random, device="cpu")
    halved = torch.randint(-(2**HALF), 2**HALF + 1, (250, 64), generator=random, device="cpu")
    # whole numbers of 64 bits, which the processor adds and multiplies as they are
    found = torch.matmul(whole.double().to(device), halved.double().to(device)).cpu()
    if not torch.equal(found.to(torch.int64), torch.matmul(whole, halved)):
        raise PrivotError(
            "PyTorch computes products of matrices in float64 with fewer digits here: features of an encoder need all "
            "of them, so use another build of PyTorch."
        )
