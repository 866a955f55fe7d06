"""Draws public random directions from a recorded seed; it may not see a record, nor be seeded by one.

What is claimed about a projection rests on the law of H = ‖zᵀU‖²/‖z‖² for a z chosen *before* U
(`privot.accounting.directions`). So:

  * U is independent of the records. Unless a seed is given, one comes from the operating system when the
    mechanism runs, after the vault was filled. Whoever gives a seed asserts that neither the records nor the
    seed were chosen with the other in view.
  * every release on the same records uses directions of its own, because the accountant multiplies moments of
    independent H: step i of a run draws from SeedSequence(seed, spawn_key=(i,)), and a vault takes each given
    seed once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Frame, check_count
from privot.errors import DataError, UsageError

SEED_BITS = 128


def fresh_seed() -> int:
    """A seed nobody chose, from the operating system. It is public: it is recorded with the release."""
    return secrets.randbits(SEED_BITS)


def check_seed(seed: int) -> int:
    """`seed`, if it is a whole number from 0 to 2^128 − 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << SEED_BITS:
        raise UsageError(f"A seed must be a whole number from 0 to 2^{SEED_BITS} - 1, got {seed!r}.")
    return seed


def draw_directions(dim: int, slices: int, frame: Frame, seed: int, step: int = 0) -> NDArray[np.float64]:
    """U of shape (dim, slices), its columns unit vectors, the same for the same arguments.

    `orthogonal`: b whole Haar-random orthonormal frames and r columns of another, slices = b·dim + r. Each is
    the Q of a Gaussian matrix G = QR with the signs of R's diagonal made positive, without which Q is not
    Haar (Mezzadri 2007, "How to generate random matrices from the classical compact groups"). The Q of r
    Gaussian columns has the law of the first r columns of a whole frame.
    `independent`: Gaussian columns divided by their norms.

    The bits come from Philox keyed through SeedSequence, which NumPy keeps stable; the normal variates made
    of them are stable within a NumPy release series, and QR to the last bits across machines.

    >>> U = draw_directions(3, 3, "orthogonal", seed=1)
    >>> bool(abs(U.T @ U - np.eye(3)).max() < 1e-14)
    True
    """
    check_count("The dimension", dim)
    check_count("The number of slices", slices)
    check_count("The step", step, least=0)
    sequence = np.random.SeedSequence(check_seed(seed), spawn_key=(step,))
    generator = np.random.Generator(np.random.Philox(sequence))
    if frame == "independent":
        columns = generator.standard_normal((dim, slices))
        unit: NDArray[np.float64] = columns / np.linalg.norm(columns, axis=0)
        return unit
    if frame != "orthogonal":
        raise UsageError(f"Unknown frame {frame!r}: say orthogonal or independent.")
    out = np.empty((dim, slices))
    for start in range(0, slices, dim):
        width = min(dim, slices - start)
        q, r = np.linalg.qr(generator.standard_normal((dim, width)))
        out[:, start : start + width] = q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    return out


def directions_of(public: Mapping[str, Any]) -> NDArray[np.float64]:
    """The directions behind a projection, drawn again from what its release says in `public`."""
    try:
        return draw_directions(public["dim"], public["slices"], public["frame"], public["seed"], public["step"])
    except (KeyError, TypeError, UsageError) as error:
        raise DataError(f"These are not the public facts of a projection ({type(error).__name__}).") from None
