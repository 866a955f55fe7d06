"""Distances between all pairs of many sketches at once, a thousand or more. It touches released numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privot.common.extras import needing
from privot.errors import DataError
from privot.federation.sketches.estimating import PROBABILITIES, Shared
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.sketches.sketch_comparison import check_alike, reading_of
from privot.federation.wire.messages import Array


@dataclass(frozen=True, eq=False)
class Matrix:
    """Estimates of W_2 and sliced W_2 between all parties, (k, k), symmetric with zeros on the diagonal."""

    w2: Array
    sliced: Array


def distance_matrix(sketches: Sequence[Sketch], workers: int | None = None) -> Matrix:
    """The estimates of `compare_sketches(…, draws=0)` for every pair, computed together.

    Squared distances between features, and between quantiles, are Gram matrices; the transport between cells is a
    small problem for each pair. There are no intervals and no null levels: `compare_sketches` gives those of a pair.
    Raises `DataError` for fewer than two sketches, different designs, or copies of one release.
    """
    if len(sketches) < 2:
        raise DataError("A matrix of distances needs at least two sketches.")
    for other in sketches[1:]:
        check_alike(sketches[0], other)
    same = copies(sketches)
    if same:
        raise DataError(f"Sketches {same[0] + 1} and {same[1] + 1} are the same release: give each release once.")
    shared = Shared.of(*(s.public for s in sketches))
    readings = [reading_of(s, shared) for s in sketches]
    noise = np.array([r.noise for r in readings])
    spread = np.array([r.spread for r in readings])
    features = np.stack([r.features for r in readings])
    width = features.shape[1]
    means = np.maximum(0.0, _squares(features) - width * (noise[:, None] + noise)) * shared.radius**2
    gaps = np.diff(PROBABILITIES)
    # the trapezium rule, twice over because the lower half of a symmetric law mirrors the upper
    share = np.concatenate([[0.0], gaps]) + np.concatenate([gaps, [0.0]])
    line = _squares(np.stack([r.quantiles for r in readings]) * np.sqrt(share))
    log_records = np.log([r.records for r in readings])
    pairs = np.exp((log_records[:, None] + log_records) / 2.0)
    spread_share, residual_share = shared.left_of(pairs)
    if readings[0].cells is None:
        whole = means + spread_share * (spread[:, None] + spread)
    else:
        with needing("Comparing sketches needs", "torch"):
            from privot.transport._exact_pairs import transport_between_all

        residual = np.array([r.residual for r in readings])
        cells = np.stack([r.cells for r in readings if r.cells is not None])
        whole = transport_between_all(shared.costs, cells, workers) + residual_share * (residual[:, None] + residual)
    w2, sliced = np.sqrt(np.maximum(whole, 0.0)), np.sqrt(np.maximum(means + line, 0.0) / shared.dim)
    for table, most in zip((w2, sliced), shared.most, strict=False):
        np.minimum(table, most, out=table)
        np.fill_diagonal(table, 0.0)
    return Matrix(w2, sliced)


def copies(sketches: Sequence[Sketch]) -> list[int]:
    """The places of sketches that are the same release as another one; copies of one release are adjacent."""
    seen: dict[str, list[int]] = {}
    for k, sketch in enumerate(sketches):
        seen.setdefault(sketch.digest(), []).append(k)
    return [k for group in seen.values() if len(group) > 1 for k in group]


def _squares(rows: Array) -> Array:
    """‖row_i − row_j‖², from the Gram matrix of centred rows, where little cancels."""
    rows = rows - rows.mean(0)
    gram = rows @ rows.T
    norm = np.diag(gram)
    return np.asarray(np.maximum(norm[:, None] + norm - 2.0 * gram, 0.0))


def order_of(distances: Array) -> tuple[list[int], Array]:
    """Leaves of the dendrogram from left to right, and SciPy's linkage (average) behind it."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(distances, checks=False), "average")
    return [int(leaf) for leaf in leaves_list(tree)], np.asarray(tree)


def map_of(distances: Array) -> Array:
    """Points in the plane, (k, 2), whose distances are as near as classical scaling brings them (Torgerson 1952)."""
    k = len(distances)
    centre = np.eye(k) - 1.0 / k
    values, vectors = np.linalg.eigh(-0.5 * centre @ (distances**2) @ centre)
    top = np.argsort(values)[::-1][:2]
    return np.asarray(vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0)))
