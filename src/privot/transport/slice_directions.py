"""Draws random directions from a seed, with NumPy alone; it sees no data.

A seed is public and recorded, so two parties can draw the same directions; `step` gives a run as many
independent draws as it has steps.
"""

from __future__ import annotations

import secrets
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import check_frame
from privot.errors import UsageError, brief

SEED_BITS = 128
_TALL = 400
"""Rows from which a Gaussian matrix with a quarter as many columns is well conditioned, see `orthonormal`."""
_TOGETHER = 1 << 20
"""Numbers of the frames that are drawn at a time."""
Frame = Literal["orthogonal", "independent"]


def fresh_seed() -> int:
    """A seed nobody chose, from the operating system. It is public: it is recorded with the result.

    It has its highest bit set, so that it can be told from a seed somebody chose (`check_own_seed`).
    """
    return secrets.randbits(SEED_BITS - 1) | 1 << (SEED_BITS - 1)


def drawn_fresh(seed: int) -> bool:
    """Whether a seed came from `fresh_seed`, rather than from somebody who chose it."""
    return bool(seed >> (SEED_BITS - 1))


def check_own_seed(seed: int) -> int:
    """`seed`, if it is one that somebody may choose: not one that an earlier draw recorded."""
    if drawn_fresh(check_seed(seed)):
        raise UsageError(
            f"A seed of 2^{SEED_BITS - 1} or more was drawn for another release: choose your own, or none."
        )
    return seed


def check_seed(seed: int) -> int:
    """`seed`, if it is a whole number from 0 to 2^128 − 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << SEED_BITS:
        raise UsageError(f"A seed must be a whole number from 0 to 2^{SEED_BITS} - 1, got {brief(seed)}.")
    return seed


def check_whole(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {brief(value)}.")


def draw_directions(dim: int, slices: int, frame: Frame, seed: int, step: int = 0) -> NDArray[np.float64]:
    """Random unit vectors, the columns of U of shape (dim, slices): the same for the same arguments.

    Parameters
    ----------
    dim, slices
        The shape of U.
    frame
        "orthogonal": b whole Haar-random orthonormal frames and r columns of another, slices = b·dim + r.
        "independent": Gaussian columns divided by their norms.
    seed
        A whole number from 0 to 2¹²⁸ − 1; it is public.
    step
        Gives a run as many independent draws as it has steps.

    Returns
    -------
    array
        U, float64.

    Raises
    ------
    UsageError
        If a parameter is out of range.

    Notes
    -----
    Each frame is the Q of a Gaussian matrix G = QR with the signs of R's diagonal made positive, without which Q is not
    Haar. The Q of r Gaussian columns has the law of the first r columns of a whole frame. The bits come from Philox
    keyed through SeedSequence, which NumPy keeps stable; the normal variates made of them are stable within a NumPy
    release series, and QR to the last bits across machines.

    References
    ----------
    Mezzadri 2007, "How to generate random matrices from the classical compact groups".

    Examples
    --------
    >>> U = draw_directions(3, 3, "orthogonal", seed=1)
    >>> bool(abs(U.T @ U - np.eye(3)).max() < 1e-14)
    True
    """
    check_whole("The dimension", dim, 1)
    check_whole("The number of slices", slices, 1)
    check_whole("The step", step, 0)
    sequence = np.random.SeedSequence(check_seed(seed), spawn_key=(step,))
    generator = np.random.Generator(np.random.Philox(sequence))
    if frame == "independent":
        columns = generator.standard_normal((dim, slices))
        unit: NDArray[np.float64] = columns / np.linalg.norm(columns, axis=0)
        return unit
    check_frame(frame)
    out = np.empty((dim, slices))
    whole, each = slices // dim, max(1, _TOGETHER // dim**2)
    # of few columns there are hundreds of frames, and each by itself would take longer to ask for than to compute
    for start in range(0, whole, each):
        frames = orthonormal(generator.standard_normal((min(each, whole - start), dim, dim)))
        out[:, start * dim : (start + len(frames)) * dim] = frames.swapaxes(0, 1).reshape(dim, -1)
    if slices % dim:
        out[:, whole * dim :] = orthonormal(generator.standard_normal((dim, slices % dim)))
    return out


def orthonormal(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Q of G = QR with R's diagonal positive, G of shape (dim, width), or many of them.

    There is one such Q. For few Gaussian columns it is G·R⁻¹ with RᵀR = GᵀG by Cholesky, many times faster than
    reflections, and orthonormal to about cond(G)² roundings. Singular values lie within √dim ± (√width + t) but for a
    chance of 2e^(−t²/2) (Davidson & Szarek 2001): with 400 rows and 100 columns the condition is below 10 but for 2e-9.
    """
    dim, width = columns.shape[-2:]
    if 4 * width <= dim and dim >= _TALL:
        upper = np.linalg.cholesky(columns.T @ columns).T
        straight: NDArray[np.float64] = columns @ np.linalg.inv(upper)
        return straight
    q, r = np.linalg.qr(columns)
    signed: NDArray[np.float64] = q * np.where(np.diagonal(r, 0, -2, -1) < 0.0, -1.0, 1.0)[..., None, :]
    return signed
