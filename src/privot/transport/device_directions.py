"""Draws directions where the points are, for calls that nobody has to repeat elsewhere; it sees no data.

Whole frames as `slice_directions` draws them, from the same law, not the same numbers: many times faster, and
repeatable on one kind of device only.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from privot.common.arguments import check_frame
from privot.errors import UsageError, brief
from privot.transport.slice_directions import Frame, check_seed

STRAIGHT = {torch.float32: 1e-7, torch.float64: 1e-14}
"""How far from orthonormal a frame may be for directions of that type."""


def draw_on_device(dim: int, slices: int, frame: Frame, seed: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Random unit vectors, the columns of U (dim, slices): in whole Haar-random frames, or independent."""
    if isinstance(slices, bool) or not isinstance(slices, int) or slices < 1:
        raise UsageError(f"The number of slices must be a whole number of at least 1, got {brief(slices)}.")
    normals = _normals(dim, slices, check_seed(seed), device)
    if frame == "independent":
        return torch.nn.functional.normalize(normals, dim=0).to(dtype)
    check_frame(frame)
    whole = slices - slices % dim
    parts = []
    if whole:
        frames = normals[:, :whole].reshape(dim, -1, dim).transpose(0, 1)
        parts.append(_orthonormal(frames, STRAIGHT[dtype]).transpose(0, 1).flatten(1))
    if whole < slices:
        parts.append(_orthonormal(normals[:, whole:][None], STRAIGHT[dtype])[0])
    return torch.cat(parts, 1).to(dtype)


def _normals(dim: int, slices: int, seed: int, device: torch.device) -> Tensor:
    """Gaussian numbers (dim, slices) in float64; on a GPU from the lower 63 bits of the seed."""
    if device.type == "cpu":  # PyTorch's own generator there takes 32 bits
        generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
        return torch.from_numpy(generator.standard_normal((dim, slices)))
    own = torch.Generator(device).manual_seed(seed & (1 << 63) - 1)
    return torch.randn(dim, slices, generator=own, device=device, dtype=torch.float64)


def _orthonormal(columns: Tensor, slack: float) -> Tensor:
    """The Q of G = QR with R's diagonal positive, of many G (frames, dim, width) at once; see `orthonormal`.

    G·R⁻¹ with RᵀR = GᵀG by Cholesky is orthonormal to cond(G)² roundings; done again, to one rounding
    (Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, "Roundoff error analysis of the CholeskyQR2 algorithm").
    """
    q: Tensor = columns
    for _ in range(3):
        lower, _ = torch.linalg.cholesky_ex(q.mT @ q)
        q = torch.linalg.solve_triangular(lower.mT, q, upper=True, left=False)
        gram = q.mT @ q
        gram.diagonal(dim1=1, dim2=2).sub_(1.0)
        # NaN and what Cholesky left half done are not small
        if bool(gram.abs().amax() <= slack):
            return q
    q, r = torch.linalg.qr(columns)
    signed: Tensor = q * torch.where(r.diagonal(dim1=1, dim2=2) < 0.0, -1.0, 1.0)[:, None, :]
    return signed
