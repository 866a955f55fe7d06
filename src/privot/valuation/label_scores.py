"""Scores that find wrong labels, from a labelled sketch and the *shape* of one's own records. They stay local.

A sketch tells the means of classes, with noise, and nothing of their shape; one's own records tell the shape, whatever
their labels are. Features u (q coordinates) of a record of class c are taken as normal,

    u | c ~ N(m_c, S),    a_c | m_c ~ N(m_c, v_c I + S/n_c),    y | c ~ T_c·

with a_c the mean in the sketch of n_c records, v_c = (σ/n_c)² its privacy noise, S common to all classes, and T the
shares of labels that one's own records of class c carry: 0.8 on the diagonal before anything is seen, and learned, so
that two swapped classes are recognised as such. Expectation and maximisation take turns (Dempster, Laird & Rubin 1977;
labels with a table of errors: Dawid & Skene 1979), m_c at the posterior mean between a_c and one's own records:

    r_ic ∝ p(c | u_i)·T_c,y_i,    m_c = (a_c/(v_c + S/n_c) + N_c·ū_c/S) / (1/(v_c + S/n_c) + N_c/S)   by coordinate

The score of a record is −ln p(y | u): of its own label given its features alone. S is widened by what is uncertain of
m_c, so noise makes scores cautious.
"""

from __future__ import annotations

import math

import numpy as np

from privot.errors import DataError
from privot.federation.sketches.signed_sketch import Sketch
from privot.mechanisms import SketchDesign
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.sketching.private_sketch import noise_deviation
from privot.valuation.labelled_records import Array, LabelledRecords, Labels, as_labelled
from privot.valuation.record_scores import MIN_DEVIATIONS, Scores, check_design, likely_shares

SWEEPS = 10
"""A fixed number: the estimate is one of few sweeps, and no optimum is claimed."""
RIGHT_LABELS, LABEL_RECORDS = 0.8, 20.0
"""The share of right labels assumed before anything is seen, and how many records of a class that counts as."""
RIDGE = 1e-3
"""Added to S, as a share of the mean variance: a coordinate may not vary at all."""


def score_labels_by_sketch(own: LabelledRecords, validation: Sketch, design: SketchDesign) -> Scores:
    """How implausible the label of each of one's own records is, against a labelled sketch; computed locally.

    It finds wrong labels and swapped classes; noise in records is found by `score_by_sketch`.

    Parameters
    ----------
    own
        One's own records, a tuple (x, y): finite numbers (n, d) and labels (n,) from 0 to classes − 1.
    validation
        The labelled sketch of the validation side.
    design
        The design of that sketch. Principal directions of public data are used where it has them, all otherwise.

    Returns
    -------
    Scores
        One score per record of `own`, −ln p(y | u), with the guarantee of the sketch; `seen` is the weight of the
        sketch in the mean of each class, 0 for a class that noise hides.

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

    Examples
    --------
    >>> from privot import Vault
    >>> from privot.federation import sketch
    >>> generator = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> x, test = (np.clip(generator.normal(0.25, 0.1, size=(1000, 2)) + 0.5 * y[:, None], 0, 1) for _ in range(2))
    >>> vault = Vault(test, y, classes=2, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    >>> design = SketchDesign.box(2, 0.0, 1.0).labelled(2)
    >>> released = sketch(vault, epsilon=1.0, delta=1e-5, design=design)
    >>> wrong = y.copy()
    >>> wrong[3] = 1
    >>> score_labels_by_sketch((x, wrong), released, design).worst(1)
    [3]
    """
    own = as_labelled(own, "Your records")
    classes = validation.public["classes"]
    check_design(validation, design)
    if own.x.shape[1] != design.dim:
        raise DataError(f"{own.name} has {own.x.shape[1]} columns, the sketch has {design.dim}.")
    if own.y.min() < 0 or own.y.max() >= classes:
        raise DataError(f"{own.name} has labels outside 0 … {classes - 1}, the classes of the sketch.")
    principal, width = design.basis.shape[1], design.matrix.shape[1]
    # few columns are kept as they are, and then there are no principal directions among the features
    used = slice(0, principal if 0 < principal == width - design.directions else width)
    # clipped as in the sketch, so that both sides are treated alike
    features = clip_rows((own.x - design.centre) @ design.matrix, 1.0)[:, used]
    knots = len(design.knots)
    count = validation.value["shells"].reshape(classes, knots).sum(1)
    sums = validation.value["features"].reshape(classes, -1)[:, used]
    count_noise = noise_deviation(validation.public, "shells") * math.sqrt(knots)
    sum_noise = noise_deviation(validation.public, "features")
    logs, seen = label_posterior(features, own.y, sums, count, sum_noise, count_noise)
    return Scores(-logs[np.arange(len(own.y)), own.y], own.y, validation.guarantee, seen)


def label_posterior(
    u: Array, y: Labels, sums: Array, count: Array, sum_noise: float, count_noise: float
) -> tuple[Array, Array]:
    """ln p(c | u) of shape (n, classes), and the weight of the sketch in the mean of each class.

    `sums` (classes, q) and `count` (classes,) are noisy, with the deviations `sum_noise` and `count_noise`.
    """
    classes, width = sums.shape
    there = count >= max(1.0, MIN_DEVIATIONS * count_noise)
    many = np.where(there, count, 1.0)
    members, all_told = np.bincount(y, minlength=classes), max(float(count.sum()), 1.0)
    share = likely_shares(members / len(y), count / all_told, count_noise / all_told)
    by_label = np.zeros((classes, width))
    np.add.at(by_label, y, u)
    by_label = np.where(members[:, None] > 0, by_label / np.maximum(members, 1)[:, None], u.mean(0))
    # a class that noise hides begins where one's own labels put it, and the sketch has no weight in it
    told = np.where(there[:, None], sums / many[:, None], by_label)
    noise = (sum_noise / many) ** 2
    within = np.cov(u.T).reshape(width, width)
    # features lie in the unit ball
    unit = max(float(np.trace(within)) / width + float(noise[there].min(initial=1.0) if there.any() else 0.0), 1e-12)
    means, uncertain = told.copy(), np.where(there, noise, 0.0)[:, None] + np.zeros(width)
    assumed = np.full((classes, classes), (1.0 - RIGHT_LABELS) / max(classes - 1, 1))
    np.fill_diagonal(assumed, RIGHT_LABELS if classes > 1 else 1.0)
    errors, weight = assumed, np.zeros(classes)
    for _ in range(SWEEPS):
        logs = _discriminant(u, means, within + np.diag(uncertain.mean(0)), unit, share)
        part = _normalised(logs + np.log(errors[:, y]).T)
        part = np.exp(part)
        mass, first = part.sum(0), part.T @ u
        variance = np.maximum(np.diag(within), RIDGE * unit)
        by_sketch = np.where(there[:, None], 1.0 / (noise[:, None] + variance / many[:, None]), 0.0)
        by_own = np.maximum(mass, 1e-9)[:, None] / variance
        means = (told * by_sketch + first / np.maximum(mass, 1e-9)[:, None] * by_own) / (by_sketch + by_own)
        uncertain, weight = 1.0 / (by_sketch + by_own), (by_sketch / (by_sketch + by_own)).mean(1)
        # an empty class has no mean of its own to be uncertain of
        uncertain[~there & (mass < 1.0)] = 0.0
        cross = first.T @ means
        within = (u.T @ u - cross - cross.T + (means.T * mass) @ means) / len(u)
        counted = np.stack([np.bincount(y, weights=part[:, c], minlength=classes) for c in range(classes)])
        errors = counted + LABEL_RECORDS * assumed
        errors /= errors.sum(1, keepdims=True)
    return _discriminant(u, means, within + np.diag(uncertain.mean(0)), unit, share), weight


def _discriminant(u: Array, means: Array, within: Array, unit: float, share: Array) -> Array:
    """ln p(c | u) for normal classes of one covariance: linear discriminants (Fisher 1936)."""
    factor = np.linalg.cholesky(within + RIDGE * unit * np.eye(len(within)))
    white, at = np.linalg.solve(factor, u.T).T, np.linalg.solve(factor, means.T).T
    return _normalised(white @ at.T - 0.5 * (at * at).sum(1) + np.log(share))


def _normalised(logs: Array) -> Array:
    """Rows moved so that their exponentials sum to 1."""
    logs = logs - logs.max(1, keepdims=True)
    return np.asarray(logs - np.log(np.exp(logs).sum(1, keepdims=True)))
