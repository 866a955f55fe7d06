"""How many normals a second the noise makes, on the CPU and on a CUDA device where there is one.

    python benchmarks/noise.py [--json] [--repeats 5]

The best of several runs is reported, beside the load the machine was under, because other work only slows it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable

from privot.noise import SystemNoise

CPU_NORMALS, CUDA_NORMALS = 1 << 22, 1 << 26
CPU_TARGET, CUDA_TARGET = 20e6, 50e6


def rate(draw: Callable[[], object], normals: int, repeats: int) -> float:
    """Normals a second, best of `repeats` after one run to warm up."""
    draw()
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - began)
    return normals / best


def measure(repeats: int) -> dict[str, object]:
    """Rates and targets; the CUDA ones are null where there is no device."""
    noise = SystemNoise()
    found: dict[str, object] = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "cpu_normals_per_second": rate(lambda: noise.normal(CPU_NORMALS, 1.0), CPU_NORMALS, repeats),
        "cpu_target": CPU_TARGET,
        "cuda_normals_per_second": None,
        "cuda_target": CUDA_TARGET,
        "cuda_device": None,
    }
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():

        def draw() -> None:
            noise.normal_tensor(CUDA_NORMALS, 1.0, "cuda", torch.float32)
            torch.cuda.synchronize()

        found["cuda_normals_per_second"] = rate(draw, CUDA_NORMALS, repeats)
        found["cuda_device"] = torch.cuda.get_device_name()
    return found


def main() -> None:
    """Print the rates, as text or as one JSON object."""
    parser = argparse.ArgumentParser(description="Normals a second from privot.noise.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    found = measure(options.repeats)
    if options.json:
        print(json.dumps(found))
        return
    for place in ("cpu", "cuda"):
        reached = found[f"{place}_normals_per_second"]
        if isinstance(reached, float):
            print(f"{place}: {reached / 1e6:.1f} million normals a second")
        else:
            print(f"{place}: no device")
    print(f"load {found['load']}, {found['cores']} cores")


if __name__ == "__main__":
    main()
