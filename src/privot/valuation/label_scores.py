"""Scores that find wrong labels, from a labelled sketch and one's own records. They stay local.

A sketch tells the means of classes, with noise, and nothing of their shape; one's own records tell the shape, but not
which name belongs to which shape. So each is asked what it knows:

    π       what every label means, by the sketch (`label_meanings`): whole classes may have exchanged their names
    p(c|x)  which class a record is like, by one's own *other* records (`kernel_ridge`)

and the score of a record (x, y) is −ln p(c = y | x, y), where labels err at random around π,

    p(c | x, y) ∝ p(c | x)·T_cy,    T_cy = 1 − s if c = π(y), s/(K − 1) if not

(labels with a table of errors: Dawid & Skene 1979). The classifier is trained on p(c | x, y) itself, from p(c | y) on,
in turns: kernel ridge regression with predictions that leave the record out, p(c | x) ∝ p_c·exp(β f_c(x)), and β and s
the most likely ones for the labels given.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.federation.sketches.signed_sketch import Sketch
from privot.mechanisms import SketchDesign
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.sketching.private_sketch import noise_deviation
from privot.valuation.kernel_ridge import KernelRidge
from privot.valuation.label_meanings import label_meanings
from privot.valuation.labelled_records import Array, Labelled, LabelledRecords, Labels, as_labelled
from privot.valuation.record_scores import MIN_SHARE, Scores, check_design

SWEEPS = 3
"""A fixed number: the estimate is one of few sweeps, and no optimum is claimed."""
SHARPNESS = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
"""Values of β to choose from."""
WRONG = (0.1, 0.02, 0.05, 0.2, 0.3, 0.4)
"""Values of s to choose from; the first is assumed before anything is seen."""


def score_labels_by_sketch(own: LabelledRecords, validation: Sketch, design: SketchDesign) -> Scores:
    """How implausible the label of each of one's own records is, against a labelled sketch; computed locally.

    It finds wrong labels and swapped classes; noise in records is found by `score_by_sketch`.

    Parameters
    ----------
    own
        One's own records, a tuple (x, y): finite numbers (n, d) and labels (n,) from 0 to classes − 1. Columns count
        by their size: bring them to one scale.
    validation
        The labelled sketch of the validation side.
    design
        The design of that sketch.

    Returns
    -------
    Scores
        One score per record of `own`, −ln p(c = y | x, y), with the guarantee of the sketch; `meanings` is π, and
        `seen` states per label how far noise leaves its meaning to be seen, 0 for a class that noise hides.

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
    meanings, seen = meanings_by_sketch(own, validation, design)
    logs = label_posterior(own.x, own.y, meanings)
    return Scores(-logs[np.arange(len(own.y)), own.y], own.y, validation.guarantee, seen, meanings)


def meanings_by_sketch(own: Labelled, validation: Sketch, design: SketchDesign) -> tuple[Labels, Array]:
    """π and how far noise leaves it to be seen; raises `DataError` if records and sketch do not fit."""
    classes, knots = validation.public["classes"], len(design.knots)
    check_design(validation, design)
    if own.x.shape[1] != design.dim:
        raise DataError(f"{own.name} has {own.x.shape[1]} columns, the sketch has {design.dim}.")
    if own.y.min() < 0 or own.y.max() >= classes:
        raise DataError(f"{own.name} has labels outside 0 … {classes - 1}, the classes of the sketch.")
    # clipped as in the sketch, so that both sides are treated alike
    features = clip_rows((own.x - design.centre) @ design.matrix, 1.0)
    return label_meanings(
        features,
        own.y,
        validation.value["features"].reshape(classes, -1),
        validation.value["shells"].reshape(classes, knots).sum(1),
        noise_deviation(validation.public, "features"),
        noise_deviation(validation.public, "shells") * math.sqrt(knots),
    )


def label_posterior(x: Array, y: Labels, meanings: Labels) -> Array:
    """ln p(c | x, y) of shape (n, classes), for labels y that mean the classes `meanings[y]`."""
    classes = len(meanings)
    right = np.zeros((len(y), classes), dtype=bool)
    right[np.arange(len(y)), meanings[y]] = True
    given = [_given(right, share) for share in WRONG]
    part = np.exp(_normalised(given[0]))
    model = KernelRidge(x)
    ridge = model.best_ridge(part - part.mean(0))
    logs = given[0]
    for _ in range(SWEEPS):
        share = np.log(np.maximum(part.mean(0), MIN_SHARE / classes))
        found = model.left_out(part - part.mean(0), ridge)
        # ln p(c | x)·T_cy, whose sum over c is the likelihood of the label given
        tried = (_normalised(beta * found + share) + labels for beta in SHARPNESS for labels in given)
        logs = _normalised(max(tried, key=lambda one: float(np.logaddexp.reduce(one, axis=1).sum())))
        part = np.exp(logs)
    return logs


def _given(right: NDArray[np.bool_], wrong: float) -> Array:
    """ln T_cy of shape (n, classes), for a share `wrong` of labels that do not mean the class π(y)."""
    classes = right.shape[1]
    if classes == 1:
        return np.zeros(right.shape)
    return np.log(np.where(right, 1.0 - wrong, wrong / (classes - 1)))


def _normalised(logs: Array) -> Array:
    """Rows moved so that their exponentials sum to 1."""
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
