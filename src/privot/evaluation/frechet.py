"""The Fréchet distance between Gaussians, and FID. The network is a given file; nothing is downloaded."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common.declared import declared
from privot.common.image_axes import Axes, image_axes
from privot.errors import DataError, UsageError
from privot.opening.archives import open_archive

_ROWS = 128
_SIDE = 299


@declared(mean="array|number", cov="array|number", other_mean="array|number", other_cov="array|number")
def frechet_distance(mean: NDArray[Any], cov: NDArray[Any], other_mean: NDArray[Any], other_cov: NDArray[Any]) -> float:
    """‖m₁ − m₂‖² + tr(C₁ + C₂ − 2(C₁C₂)^½), the squared W₂ between Gaussians (Dowson & Landau 1982).

    tr (C₁C₂)^½ is computed as tr (C₁^½ C₂ C₁^½)^½, which is symmetric: no complex square root, and eigenvalues
    that rounding made negative count as zero.

    >>> round(frechet_distance(np.zeros(2), np.eye(2), np.array([3.0, 4.0]), 4 * np.eye(2)), 6)
    27.0
    """
    mean, other_mean = np.atleast_1d(mean).astype(np.float64), np.atleast_1d(other_mean).astype(np.float64)
    cov, other_cov = np.atleast_2d(cov).astype(np.float64), np.atleast_2d(other_cov).astype(np.float64)
    if mean.ndim != 1 or other_mean.shape != mean.shape or not cov.shape == other_cov.shape == (len(mean), len(mean)):
        raise UsageError("Two Gaussians have means of shape (d,) and covariances of shape (d, d), with the same d.")
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = np.linalg.eigvalsh(root @ other_cov @ root)
    gap = mean - other_mean
    return float(gap @ gap + np.trace(cov) + np.trace(other_cov) - 2.0 * np.sqrt(np.maximum(inner, 0.0)).sum())


@declared(x="array", y="array", network="path")
def fid(
    x: NDArray[Any],
    y: NDArray[Any],
    shape: Sequence[int],
    network: Path,
    *,
    span: tuple[float, float] = (0.0, 1.0),
    takes: tuple[float, float] = (-1.0, 1.0),
    device: str = "cpu",
) -> float:
    """FID between two sets of flat images, (rows, pixels); `span` holds the values of black and white.

    `network` is a TorchScript file, or a package (.whl) that holds one. It maps (rows, 3, 299, 299) with values in
    `takes` to features (Heusel et al. 2017 use the last pooling layer of Inception-v3).
    """
    (m1, c1), (m2, c2) = (feature_moments(a, shape, network, span=span, takes=takes, device=device) for a in (x, y))
    return frechet_distance(m1, c1, m2, c2)


def feature_moments(
    x: NDArray[Any],
    shape: Sequence[int],
    network: Path,
    *,
    span: tuple[float, float] = (0.0, 1.0),
    takes: tuple[float, float] = (-1.0, 1.0),
    device: str = "cpu",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of a network's features of flat images; parameters as in `fid`.

    Whoever compares many sets with one computes the moments of that one once, and passes them to `frechet_distance`.
    """
    if not takes[0] < takes[1]:
        raise UsageError(f"The input range of the network must rise, got {takes[0]:g} to {takes[1]:g}.")
    if not span[0] < span[1]:
        raise UsageError(f"The range of the images must rise, got {span[0]:g} to {span[1]:g}.")
    return _moments(_load(network, device), x, image_axes(shape), span, takes, device)


def _load(network: Path, device: str) -> Any:
    try:
        held: Any = str(network)
        if Path(network).suffix == ".whl":
            with open_archive(network) as package:
                found = [name for name in package.names if name.endswith(".pt")]
                held = io.BytesIO(package.read(found[0])) if len(found) == 1 else found
        if not isinstance(held, list):
            return torch.jit.load(held, map_location=device).eval()  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{network} cannot be read as a TorchScript network ({type(error).__name__}).") from None
    raise DataError(f"{network} holds {len(held)} TorchScript networks, expected one: give the file itself.")


def _moments(
    network: Any, x: NDArray[Any], axes: Axes, span: tuple[float, float], takes: tuple[float, float], device: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    features = []
    # a network may be stored in half precision
    kind = next((p.dtype for p in network.parameters()), torch.float32)
    with torch.no_grad():
        for start in range(0, len(x), _ROWS):
            rows = torch.as_tensor(np.asarray(x[start : start + _ROWS], dtype=np.float32), device=device)
            images = axes.pictures((rows - span[0]) / (span[1] - span[0]))
            images = images.expand(-1, 3, -1, -1) if axes.channels == 1 else images
            large = torch.nn.functional.interpolate(images, size=(_SIDE, _SIDE), mode="bilinear", align_corners=False)
            seen = takes[0] + (takes[1] - takes[0]) * large
            features.append(network(seen.to(kind)).flatten(1).double())
    held = torch.cat(features)
    return held.mean(dim=0).cpu().numpy(), torch.cov(held.T).cpu().numpy()
