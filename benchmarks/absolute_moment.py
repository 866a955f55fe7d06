"""Lemma 1 against 20-digit quadrature: μ to 64, q, d and σ over six decades; prints the largest error of the moment."""

from __future__ import annotations

import argparse
import itertools
import math
import time

import mpmath
import numpy as np

from privot.accounting.wasserstein import log_absolute_moment


def quadrature(mu: float, mean: float, deviation: float) -> float:
    """ln E|Z|^μ by integrating |z|^μ times the density, in pieces around its peak."""
    with mpmath.workdps(20):
        ratio, order = mpmath.mpf(mean) / mpmath.mpf(deviation), mpmath.mpf(mu)
        peak = (ratio + mpmath.sqrt(ratio**2 + 4 * order)) / 2
        edges = sorted({mpmath.mpf(0), *(peak + k for k in (-16, -10, -6, -3, 0, 3, 6, 10, 16) if peak + k > 0)})
        top = order * mpmath.log(peak) - (peak - ratio) ** 2 / 2

        def density(z: mpmath.mpf) -> mpmath.mpf:
            if z == 0:
                return mpmath.mpf(0)
            both = mpmath.exp(-((z - ratio) ** 2) / 2) + mpmath.exp(-((z + ratio) ** 2) / 2)
            return mpmath.exp(order * mpmath.log(z) - top) * both

        total = mpmath.quad(density, edges, maxdegree=6) / mpmath.sqrt(2 * mpmath.pi)
        return float(mpmath.log(total) + top + order * mpmath.log(deviation))


def main() -> None:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=4, help="values a decade-spanning parameter takes")
    count = parser.parse_args().values
    shares = np.geomspace(1e-6, 1.0, count)
    sizes = np.geomspace(1e-3, 1e3, count)
    worst, points, started = 0.0, 0, time.perf_counter()
    for mu, q, d, sigma in itertools.product((1.0, 2.0, 3.0, 7.5, 16.0, 33.3, 64.0), shares, sizes, sizes):
        deviation = float(sigma) * math.sqrt(2 - 2 * q + 2 * q * q)
        found = float(log_absolute_moment(mu, q * d, deviation))
        worst = max(worst, abs(math.expm1(found - quadrature(mu, q * d, deviation))))
        points += 1
    print(f"{points} points, largest relative error {worst:.2e}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
