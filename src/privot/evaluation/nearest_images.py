"""The synthetic images that come closest to real ones, beside those; whatever it finds shows real records."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.evaluation.table_quality import PRIVATE
from privot.report.image_grid import draw_grid

SHOWN = 10
"""Pairs of images in the picture."""
_MAX_MADE, _MAX_REAL = 2000, 10_000
_MAX_PIXELS = 1 << 20
"""Numbers in the images of the picture: fewer pairs are shown of large images."""


def nearest_images(
    made: NDArray[Any],
    real: NDArray[Any],
    others: NDArray[Any] | None,
    shape: Sequence[int],
    span: tuple[float, float],
    seed: int = 0,
) -> dict[str, Any]:
    """Distances from synthetic images to the nearest real one, and a picture of the closest pairs.

    Parameters
    ----------
    made, real
        Synthetic and real images as rows; at most 2,000 and 10,000 of them are used.
    others
        Real images that are not among `real`, to compare with; without them each real image is compared with the other
        ones.
    shape, span
        The public shape of an image, and the public range of its values.

    Returns
    -------
    dict
        `synthetic` and `held_out`: the 1st, 5th and 50th percentile of the distance, per value of the range and root of
        the number of pixels; `picture`: a PNG image as base64 text, synthetic images above their nearest real ones;
        `marked`: that it must not be published.
    """
    from sklearn.neighbors import NearestNeighbors

    dice, (low, high) = np.random.default_rng(seed), span
    unit = (high - low) or 1.0

    def some(rows: NDArray[Any], most: int) -> NDArray[np.float64]:
        flat = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
        kept: NDArray[np.float64] = (flat[dice.permutation(len(flat))[:most]] - low) / unit
        return kept

    ours, theirs = some(made, _MAX_MADE), some(real, _MAX_REAL)
    index = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(theirs)
    far, where = index.kneighbors(ours)
    if others is None:
        beside = index.kneighbors(theirs[:_MAX_MADE], n_neighbors=min(2, len(theirs)))[0][:, -1]
    else:
        beside = index.kneighbors(some(others, _MAX_MADE))[0][:, 0]
    count = max(1, min(SHOWN, len(ours), _MAX_PIXELS // (2 * ours.shape[1])))
    closest = np.argsort(far[:, 0], kind="stable")[:count]
    pairs = np.concatenate([ours[closest], theirs[where[closest, 0]]])
    root = float(np.sqrt(ours.shape[1]))
    return {
        "synthetic": [float(v) / root for v in np.percentile(far[:, 0], (1, 5, 50))],
        "held_out": [float(v) / root for v in np.percentile(beside, (1, 5, 50))],
        "picture": base64.b64encode(draw_grid(pairs, shape, count)).decode(),
        "marked": PRIVATE,
    }
