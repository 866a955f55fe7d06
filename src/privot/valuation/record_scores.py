"""Scores of one's own records against a validation set: high is harmful. Computed at home; nothing leaves.

A record (x, y) is carried to the validation set's at the label-aware cost

    c((x, y), (x′, y′)) = ‖x − x′‖² + λ‖m_y − m_y′‖²,     m_y the validation side's mean of class y

(as in OTDD, Alvarez-Melis & Fusi 2020, but labels keep their names, so that permuted labels are harm). With f the
regularised dual potential of the n records (`duals`; exact ones are not unique), the score of record i is LAVA's
calibrated gradient

    s_i = f_i − (1/(n−1)) Σ_{k≠i} f_k

(Just, Kang, Wang et al. 2023, "LAVA: data valuation without pre-specified learning algorithms"): what a little more
mass on record i, taken from all others alike, adds to the transport cost.

The other direction does not exist: no private protocol can let a server find bad records, because (ε, δ)-differential
privacy forces TPR ≤ e^ε·FPR + δ on whatever it would look at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from privot.errors import DataError, UsageError
from privot.federation.sketches.estimating import simplex
from privot.federation.sketches.signed_sketch import Sketch, same_design
from privot.guarantee import Guarantee
from privot.mechanisms import SketchDesign
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.sketching.private_sketch import design_facts, noise_deviation
from privot.valuation.labelled_records import LABEL_WEIGHT, Array, Labelled, Labels
from privot.valuation.relaxed_duals import relaxed_potential

REGULARISATION = 0.05
"""Of the median cost: ε; `privot.transport.calibrated_gradients` takes as much of the mean, which outliers move."""
MAX_ENTRIES = 1 << 26
RELAXATION = 0.1
"""Of the median cost: what it costs to have e times too many records of a class; see `duals`."""
MIN_SHARE = 0.1
"""Of an even share: what a class is left with that the noise of a sketch has emptied."""
TOLD_APART = 4.0
"""Deviations of the noise by which the count of a class must exceed 0 before its mean is looked at."""


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """One score a record, in its order: high is harmful. They are about confidential records: do not publish them.

    `seen` says, class by class, how far the sketch moved the mean of one's own class to that of the validation side:
    1 is all the way, 0 is that noise hides the difference, if there is one. None where there is no noise.
    """

    score: Array
    labels: Labels
    guarantee: Guarantee | None
    seen: Array | None

    def __repr__(self) -> str:
        return f"Scores({len(self.score)} records)"

    def worst(self, count: int) -> list[int]:
        """Rows of the `count` highest scores, the worst first."""
        return [int(i) for i in np.argsort(-self.score, kind="stable")[:count]]


def score_by_records(own: Labelled, validation: Labelled, label_weight: float = LABEL_WEIGHT) -> Scores:
    """Scores against validation records at hand: an exact answer about both sides, with no privacy."""
    own.check_beside(validation)
    if len(own.x) * len(validation.x) > MAX_ENTRIES:
        raise UsageError(
            f"{len(own.x)} × {len(validation.x)} records are too many to score at once: use at most "
            f"{MAX_ENTRIES // len(own.x)} validation records."
        )
    names, which = np.unique(validation.y, return_inverse=True)
    means = np.stack([validation.x[which == c].mean(0) for c in range(len(names))])
    cost = cdist(own.x, validation.x, "sqeuclidean")
    cost += label_weight * cdist(means, means, "sqeuclidean")[np.searchsorted(names, own.y)][:, which]
    share = np.full(len(which), 1.0 / len(which))
    return Scores(_calibrated(cost, share, float(np.median(cost))), own.y, None, None)


def score_by_sketch(
    own: Labelled, validation: Sketch, design: SketchDesign, label_weight: float = LABEL_WEIGHT
) -> Scores:
    """Scores against a labelled sketch that the validation side released: the sound direction.

    The sketch says how many records class c has, and their mean m_c, both noisy. The cost to class c is the mean cost
    to its records, ‖x − m_c‖² + W + λ‖m_y − m_c‖². The spread W within classes sets the scale of ε and ρ, no more;
    ‖x − m_c‖² is ‖x‖² − 2⟨x, m_c⟩ + ‖m_c‖², and ⟨x, m_c⟩ is taken in the directions of the design.

    Noise of known size is on every m_c, and one's own class means are at hand, so m_c is estimated between the two
    (`_between`): noise costs the sight of small systematic faults of one's own, never an outcry about clean records.
    """
    classes = validation.public["classes"]
    check_design(validation, design)
    if own.x.shape[1] != design.dim:
        raise DataError(f"{own.name} has {own.x.shape[1]} columns, the sketch is of {design.dim}.")
    if own.y.min() < 0 or own.y.max() >= classes:
        raise DataError(f"{own.name} has labels outside 0 … {classes - 1}, the classes of the sketch.")
    z = own.x - design.centre
    features = z @ design.matrix * design.radius
    members = np.bincount(own.y, minlength=classes)
    mine = np.zeros((classes, features.shape[1]))
    # cut as the sketch cuts, so that like is compared with like
    np.add.at(mine, own.y, clip_rows(z @ design.matrix, 1.0) * design.radius)
    mine = np.where(members[:, None] > 0, mine / np.maximum(members, 1)[:, None], features.mean(0))
    knots = len(design.knots)
    seen_count = validation.value["shells"].reshape(classes, knots).sum(1)
    count_noise = noise_deviation(validation.public, "shells") * math.sqrt(knots)
    sums = validation.value["features"].reshape(classes, -1) * design.radius
    sum_noise = noise_deviation(validation.public, "features") * design.radius
    means, seen = _between(mine, sums, seen_count, count_noise, sum_noise, design.basis.shape[1])
    cost = (z * z).sum(1)[:, None] - 2.0 * features @ means.T + (means * means).sum(1)
    cost += label_weight * cdist(means, means, "sqeuclidean")[own.y]
    share = _shares(members / len(z), seen_count / validation.records, count_noise / validation.records)
    within = float(np.median((z * z).sum(1))) - float(share @ (means * means).sum(1))
    typical = float(np.median(cost)) + max(within, 0.0)
    return Scores(_calibrated(cost, share, typical), own.y, validation.guarantee, seen)


def check_design(validation: Sketch, design: SketchDesign) -> None:
    """Refuse a sketch without labels, and a design that is not the sketch's."""
    if not validation.public["classes"]:
        raise DataError("The validation sketch was made without labels: ask for one made with classes.")
    stated = design_facts(design)
    if stated["design"] != validation.public["design"] or not same_design(stated, validation.public):
        raise DataError(
            "The validation sketch was made around other public data, another range or another radius than were given "
            "here: say what its maker said."
        )


def _calibrated(cost: Array, share: Array, typical: float) -> Array:
    """The formula at the top of this module, for one cost row a record and one column a target of mass `share`."""
    # half of all costs may be 0; beyond the floor, floats tell no costs apart
    scale = max(typical if typical > 0.0 else float(np.abs(cost).mean()), 1e-300)
    f = relaxed_potential(cost, share, REGULARISATION * scale, RELAXATION * scale)
    return np.asarray(f - (f.sum() - f) / (len(f) - 1))


def _told(square: float, noise: float) -> float:
    """The share of a squared gap that so much noise does not explain (James & Stein 1961)."""
    return max(0.0, 1.0 - noise / square) if square > 0.0 else 0.0


def _shares(mine: Array, theirs: Array, noise: float) -> Array:
    """Shares of classes on the validation side, as far as noise of this deviation lets them be told from one's own."""
    gap = simplex(theirs) - mine
    share = np.maximum(mine + _told(float(gap @ gap), len(gap) * noise**2) * gap, MIN_SHARE / len(gap))
    return np.asarray(share / share.sum())


def _between(
    mine: Array, sums: Array, count: Array, count_noise: float, sum_noise: float, principal: int
) -> tuple[Array, Array]:
    """(means of the classes between one's own and those that the sketch states, how far towards the latter).

    The gap of a class is believed by what its noise does not explain, apart for principal directions, where most of a
    gap is, and for the others. A class that has too few records to be told from noise is believed in nothing.
    """
    means, seen = mine.copy(), np.zeros(len(mine))
    for c in range(len(mine)):
        if count[c] < max(1.0, TOLD_APART * count_noise):
            continue
        gap = sums[c] / count[c] - mine[c]
        variance = (sum_noise / count[c]) ** 2
        moved = 0.0
        for part in (slice(0, principal), slice(principal, None)):
            width = len(gap[part])
            if width:
                square = float(gap[part] @ gap[part])
                told = _told(square, width * variance)
                means[c, part] += told * gap[part]
                moved += told * square
        seen[c] = moved / max(float(gap @ gap), 1e-300)
    return means, seen
