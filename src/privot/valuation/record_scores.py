"""Scores of one's own records against a validation set: high is harmful. Scores are confidential and stay local.

A record (x, y) is transported to records of the validation set at the label-aware cost

    c((x, y), (x′, y′)) = ‖x − x′‖² + λ‖m_y − m_y′‖²,     m_y the validation side's mean of class y

(as in OTDD, Alvarez-Melis & Fusi 2020, but labels keep their names, so that permuted labels are harmful). With f the
regularised dual potential of the n records (`relaxed_duals`; exact ones are not unique), the score of record i is
LAVA's calibrated gradient

    s_i = f_i − (1/(n−1)) Σ_{k≠i} f_k

(Just, Kang, Wang et al. 2023, "LAVA: data valuation without pre-specified learning algorithms"): the
derivative of the transport cost when mass moves to record i from all others equally.

The other direction is impossible: no private protocol lets a server find bad records, because (ε, δ)-differential
privacy forces TPR ≤ e^ε·FPR + δ on everything that it sees.
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
from privot.valuation.labelled_records import LABEL_WEIGHT, Array, LabelledRecords, Labels, as_labelled
from privot.valuation.relaxed_duals import relaxed_potential
from privot.valuation.streamed_costs import StreamedCosts

REGULARISATION = 0.05
"""ε as a share of the median cost; `privot.transport.calibrated_gradients` uses the mean, which outliers move."""
MAX_ENTRIES = 1 << 26
"""Records times validation records whose costs are held as one matrix; above it they are streamed."""
MAX_STREAMED = 1 << 29
"""The same for streamed costs: a kernel of 2 GiB."""
RELAXATION = 0.1
"""ρ as a share of the median cost: the cost of e times too many records of a class; see `relaxed_duals`."""
MIN_SHARE = 0.1
"""Smallest share of a class, relative to an even share: noise can make the share in a sketch 0."""
MIN_DEVIATIONS = 4.0
"""Noise deviations by which the count of a class must exceed 0 before its mean is used."""


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """One score per record, in order: high is harmful. Scores reveal confidential records: do not publish them.

    `seen` states per class how far the sketch moved the mean of one's own class towards that of the validation side:
    1 is all the way, 0 means that noise hides any difference. None without noise. `meanings` states which class each
    label means, for scores of labels; None for others.
    """

    score: Array
    labels: Labels
    guarantee: Guarantee | None
    seen: Array | None
    meanings: Labels | None = None

    def __repr__(self) -> str:
        return f"Scores({len(self.score)} records)"

    def worst(self, count: int) -> list[int]:
        """Rows with the `count` highest scores, the worst first."""
        return [int(i) for i in np.argsort(-self.score, kind="stable")[:count]]


def score_by_records(own: LabelledRecords, validation: LabelledRecords, label_weight: float = LABEL_WEIGHT) -> Scores:
    """Scores against the validation records themselves. The result has no privacy.

    Parameters
    ----------
    own
        One's own records, a tuple (x, y): finite numbers (n, d) and whole numbers (n,) as labels.
    validation
        The validation set, a tuple (x, y) with d columns that holds every label of `own`.
    label_weight
        λ, the weight of the labels in the cost.

    Returns
    -------
    Scores
        `score`, one per record of `own`; `worst(count)` are the rows with the highest.

    Raises
    ------
    UsageError
        If n times the size of the validation set is above 2²⁹, or records are not a tuple (x, y).
    DataError
        If shapes, types or labels do not fit.

    Formal guarantees
    -----------------
    None: the result is computed from all records of both sides without noise.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> x, test = (generator.normal(size=(40, 2)) + 6.0 * y[:, None] for _ in range(2))
    >>> wrong = y.copy()
    >>> wrong[3] = 1
    >>> score_by_records((x, wrong), (test, y)).worst(1)
    [3]
    """
    own, validation = as_labelled(own, "Your records"), as_labelled(validation, "The validation set")
    own.check_beside(validation)
    entries = len(own.x) * len(validation.x)
    if entries > MAX_STREAMED:
        raise UsageError(
            f"{len(own.x)} × {len(validation.x)} records are too many to score at once: use at most "
            f"{MAX_STREAMED // len(own.x)} validation records."
        )
    names, which = np.unique(validation.y, return_inverse=True)
    means = np.stack([validation.x[which == c].mean(0) for c in range(len(names))])
    labels = label_weight * cdist(means, means, "sqeuclidean")
    if entries > MAX_ENTRIES:
        streamed = StreamedCosts(own.x, validation.x, np.searchsorted(names, own.y), which, labels)
        scale = max(streamed.median(), 1e-300)
        f = streamed.potential(REGULARISATION * scale, RELAXATION * scale)
        return Scores(_deviations(f), own.y, None, None)
    cost = cdist(own.x, validation.x, "sqeuclidean")
    cost += labels[np.searchsorted(names, own.y)][:, which]
    share = np.full(len(which), 1.0 / len(which))
    return Scores(_calibrated(cost, share, float(np.median(cost))), own.y, None, None)


def score_by_sketch(
    own: LabelledRecords, validation: Sketch, design: SketchDesign, label_weight: float = LABEL_WEIGHT
) -> Scores:
    """Scores against a labelled sketch that the validation side released, computed locally.

    The sketch holds the number of records of each class c and their mean m_c, both noisy. The cost to class c is the
    mean cost to its records, ‖x − m_c‖² + W + λ‖m_y − m_c‖². The spread W within classes only sets the scale of ε and
    ρ; ‖x − m_c‖² is ‖x‖² − 2⟨x, m_c⟩ + ‖m_c‖², and ⟨x, m_c⟩ is computed in the directions of the design.

    Every m_c has noise of known size, and one's own class means are known, so m_c is estimated between the two
    (`_between`): noise hides small systematic faults of one's own records, and does not make clean records look bad.

    Parameters
    ----------
    own
        One's own records, a tuple (x, y): finite numbers (n, d) and labels (n,) from 0 to classes − 1.
    validation
        The labelled sketch of the validation side.
    design
        The design of that sketch.
    label_weight
        λ, the weight of the labels in the cost.

    Returns
    -------
    Scores
        `score`, one per record of `own`, with the guarantee of the sketch; `worst(count)` are the rows with the
        highest.

    Raises
    ------
    UsageError
        If records are not a tuple (x, y).
    DataError
        If the sketch has no labels or another design, or the records do not fit it.

    Formal guarantees
    -----------------
    For the validation side: post-processing of its sketch, no further cost. For one's own records: none, so the scores
    must stay confidential.
    """
    own = as_labelled(own, "Your records")
    classes = validation.public["classes"]
    check_design(validation, design)
    if own.x.shape[1] != design.dim:
        raise DataError(f"{own.name} has {own.x.shape[1]} columns, the sketch has {design.dim}.")
    if own.y.min() < 0 or own.y.max() >= classes:
        raise DataError(f"{own.name} has labels outside 0 … {classes - 1}, the classes of the sketch.")
    z = own.x - design.centre
    features = z @ design.matrix * design.radius
    members = np.bincount(own.y, minlength=classes)
    mine = np.zeros((classes, features.shape[1]))
    # clipped as in the sketch, so that both sides are treated alike
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
    share = likely_shares(members / len(z), seen_count / validation.records, count_noise / validation.records)
    within = float(np.median((z * z).sum(1))) - float(share @ (means * means).sum(1))
    typical = float(np.median(cost)) + max(within, 0.0)
    return Scores(_calibrated(cost, share, typical), own.y, validation.guarantee, seen)


def check_design(validation: Sketch, design: SketchDesign) -> None:
    """Raise `DataError` if the sketch has no labels, or another design."""
    if not validation.public["classes"]:
        raise DataError("The validation sketch was made without labels: request one that is made with classes.")
    stated = design_facts(design)
    if stated["design"] != validation.public["design"] or not same_design(stated, validation.public):
        raise DataError(
            "The validation sketch was made with other public data, another range or another radius than given here: "
            "use the design of its maker."
        )


def _calibrated(cost: Array, share: Array, typical: float) -> Array:
    """The formula at the top of this module; one row of costs per record, one column per target of mass `share`."""
    # half of all costs may be 0; below this floor floats cannot distinguish costs
    scale = max(typical if typical > 0.0 else float(np.abs(cost).mean()), 1e-300)
    return _deviations(relaxed_potential(cost, share, REGULARISATION * scale, RELAXATION * scale))


def _deviations(f: Array) -> Array:
    """Each potential minus the mean of the others."""
    return np.asarray(f - (f.sum() - f) / (len(f) - 1))


def _unexplained(square: float, noise: float) -> float:
    """The share of a squared gap that noise does not explain (James & Stein 1961)."""
    return max(0.0, 1.0 - noise / square) if square > 0.0 else 0.0


def likely_shares(mine: Array, theirs: Array, noise: float) -> Array:
    """Shares of classes on the validation side, shrunk towards one's own by noise of this deviation."""
    gap = simplex(theirs) - mine
    share = np.maximum(mine + _unexplained(float(gap @ gap), len(gap) * noise**2) * gap, MIN_SHARE / len(gap))
    return np.asarray(share / share.sum())


def _between(
    mine: Array, sums: Array, count: Array, count_noise: float, sum_noise: float, principal: int
) -> tuple[Array, Array]:
    """(class means between one's own and those of the sketch, how far towards the latter).

    The gap of a class counts as far as noise does not explain it, separately for principal directions, where most of a
    gap is, and for the others. A class with too few records to stand out from the noise keeps one's own mean.
    """
    means, seen = mine.copy(), np.zeros(len(mine))
    for c in range(len(mine)):
        if count[c] < max(1.0, MIN_DEVIATIONS * count_noise):
            continue
        gap = sums[c] / count[c] - mine[c]
        variance = (sum_noise / count[c]) ** 2
        moved = 0.0
        for part in (slice(0, principal), slice(principal, None)):
            width = len(gap[part])
            if width:
                square = float(gap[part] @ gap[part])
                kept = _unexplained(square, width * variance)
                means[c, part] += kept * gap[part]
                moved += kept * square
        seen[c] = moved / max(float(gap @ gap), 1e-300)
    return means, seen
