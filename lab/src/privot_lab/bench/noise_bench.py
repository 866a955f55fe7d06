"""Times the noise: normals per second, on the CPU and on a CUDA device where there is one; the best of several runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from privot.common.devices import usable_device
from privot.noise import SystemNoise

CPU_NORMALS, CUDA_NORMALS = 1 << 22, 1 << 26


def measure_noise(repeats: int = 5, *, cpu_normals: int = CPU_NORMALS) -> dict[str, Any]:
    """Rates beside the load the machine was under, as other work only slows it; CUDA's is None without a device."""
    noise = SystemNoise()
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    found["cpu_normals_per_second"] = _rate(lambda: noise.normal(cpu_normals, 1.0), cpu_normals, repeats)
    found |= {"cuda_normals_per_second": None, "cuda_device": None}
    if usable_device("auto", auto=True) == "cuda":

        def draw() -> None:
            noise.normal_tensor(CUDA_NORMALS, 1.0, "cuda", torch.float32)
            torch.cuda.synchronize()

        found["cuda_normals_per_second"] = _rate(draw, CUDA_NORMALS, repeats)
        found["cuda_device"] = torch.cuda.get_device_name()
    return found


def _rate(draw: Callable[[], object], normals: int, repeats: int) -> float:
    """Normals per second, the best of `repeats` after one run to warm up."""
    draw()
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - began)
    return normals / best
