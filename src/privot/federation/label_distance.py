"""What two labelled sketches say about OTDD, the distance between labelled data sets; it sees no record.

A labelled sketch keeps feature sums and shells apart by class. Read as means, class c of a party has a share p_c, a
mean m_c (in features, its noise known) and a spread D_c. With W_2² between the records as without labels,

    L_cc′ = ‖m_c − m_c′‖² + (√D_c − √D_c′)²             W_2² between the classes' Gaussians
    OTDD² ≈ W_2² + min over plans π from p to p′ of Σ π_cc′ L_cc′

(Alvarez-Melis & Fusi 2020, all distances squared.) The sum of two minima is at most the minimum of the sum, so this is
a lower estimate; and L takes covariances for multiples of the identity: of their shapes a sketch says nothing. Labels
of the two parties need no correspondence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privot.errors import DataError
from privot.federation.comparing import check_alike, reading_of
from privot.federation.estimating import LEAST_SPREAD, Shared, estimate, simplex
from privot.federation.messages import Array
from privot.federation.sketching import Sketch
from privot.mechanisms.sketch import noise_deviation

LEAST_SHARE = 0.005
"""Classes below this share are left out: their means would be noise."""


@dataclass(frozen=True, eq=False)
class _Classes:
    share: Array
    means: Array
    spread: Array


def label_distance(a: Sketch, b: Sketch) -> float:
    """OTDD between the records behind two labelled sketches, estimated: post-processing, free of charge."""
    check_alike(a, b)
    if not a.public["classes"]:
        raise DataError("These sketches were made without labels: OTDD needs labelled ones.")
    from privot.transport.optimal import couple

    shared = Shared.of(a.public)
    one, two = _read(a, shared), _read(b, shared)
    gap = one.means[:, None] - two.means[None]
    means = (gap * gap).sum(-1) * shared.radius**2
    cost = means + (np.sqrt(one.spread)[:, None] - np.sqrt(two.spread)) ** 2
    found = couple(cost, one.share, two.share)
    records, _ = estimate(reading_of(a, shared), reading_of(b, shared))
    return math.sqrt(max(0.0, records) + float(found.mass @ cost[found.i, found.j]))


def _read(sketch: Sketch, shared: Shared) -> _Classes:
    classes, records = sketch.public["classes"], sketch.records
    shells = simplex(sketch.value["shells"] / records).reshape(classes, -1)
    share = shells.sum(1)
    keep = share >= LEAST_SHARE
    if not keep.any():
        raise DataError("No class of the sketch is large enough to be told from noise.")
    share, shells = share[keep], shells[keep]
    means = sketch.value["features"].reshape(classes, -1)[keep] / (records * share[:, None])
    noise = (noise_deviation(sketch.public, "features") / (records * share)) ** 2
    square = (shells @ shared.knots) / share
    length = (means * means).sum(1) - noise * means.shape[1]
    # towards the mean of all classes, by as much as noise alone would put between (James & Stein 1961)
    middle = share @ means / share.sum()
    apart = means - middle
    kept = np.maximum(0.0, 1.0 - noise * means.shape[1] / np.maximum((apart * apart).sum(1), 1e-300))
    means = middle + kept[:, None] * apart
    spread = np.maximum(square - shared.radius**2 * length, np.maximum(LEAST_SPREAD * square, 1e-300))
    return _Classes(share / share.sum(), means, spread)
