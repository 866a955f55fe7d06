"""The later parts of a synthesis: a warp selected by noisy counts, then labels by a tuned classifier.

Both are paid from the same budget (`privot.synthesis.neural.after_training` explains each); each is charged and kept
as a separate part of the job.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from privot.mechanisms.accuracy_counts import CorrectCounts
from privot.mechanisms.gradients.linear_head import TunedHead
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.job_files import CHOICE, LABELS, LESSON
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.neural.after_training.label_shares import share_offsets
from privot.synthesis.neural.after_training.relabelling import (
    Drawn,
    Labelling,
    PretrainedLabeller,
    check_labelling,
    labeller,
)
from privot.synthesis.neural.after_training.warp_selection import WarpSelection, classifiers, warped
from privot.synthesis.neural.defaults.problem_and_rules import ASSUMED_RECORDS
from privot.synthesis.neural.features.fourier import to_unit
from privot.synthesis.neural.features.linear_classifier import LinearClassifier
from privot.synthesis.neural.features.network_features import NetworkFeatures


def refine(run: SynthesisRun, outcome: Outcome, made_from: str) -> Outcome:
    """Pay for the later parts that the design names: a warp, then labels.

    `made_from` names what samples are made from: the digest of a release, or the name of a job.
    """
    design = run.design
    if design.warp_selection is not None:
        made_from = select_warp(run, outcome, design.warp_selection, made_from)
    if design.labelling is not None:
        relabel(run, outcome, design.labelling, made_from)
    return outcome


def select_warp(run: SynthesisRun, outcome: Outcome, selection: WarpSelection, made_from: str) -> str:
    """Select the warp of samples by noisy counts, under the guarantee of all releases; returns the new digest."""
    design, fitted = run.design, generator_of(outcome)
    trained = fitted.generator

    def make() -> CorrectCounts:
        found: list[NetworkFeatures] = []
        for factor in selection.factors:
            other = FittedGenerator(warped(trained, factor), fitted.features, fitted.counts, fitted.labels, fitted.span)
            found += classifiers(draw(run, other, selection.samples), public_seed(design))
        return CorrectCounts(tuple(found), selection.sigma, run.device, made_from)

    release, times = run.payments.release(
        make, lambda found: selection.check(found, design.facts, design.delta, made_from), CHOICE
    )
    # first, so that no sample is ever drawn under a guarantee that states less than was spent
    outcome.guarantee = outcome.guarantee.compose(*[release.guarantee] * times)
    fitted.generator = warped(trained, selection.chosen(release)).eval()
    fitted.generator.ease(1.0)
    return release.digest()


def relabel(run: SynthesisRun, outcome: Outcome, labelling: Labelling, made_from: str) -> None:
    """Label samples by a classifier that starts from samples and is tuned on the records."""
    design, fitted, folder = run.design, generator_of(outcome), run.payments.folder
    path = None if folder is None else folder / LESSON
    # a resumed job was given its file again
    encoder = design.label_encoder
    if path is not None and path.exists():
        pretrained = PretrainedLabeller.load(path, made_from)
        pretrained.check(labelling, encoder)
    else:
        drawn = draw(run, fitted, labelling.samples)
        pretrained = PretrainedLabeller.make(labelling, drawn, public_seed(design), encoder)
        if path is not None:
            pretrained.save(path, made_from)
    tuning = tuned_head(run, outcome, labelling, pretrained)
    release, times = run.payments.release(
        lambda: tuning, lambda found: check_labelling(found, tuning, design.facts, design.delta), LABELS
    )
    outcome.guarantee = outcome.guarantee.compose(*[release.guarantee] * times)
    tuned = labeller(pretrained, release)
    if isinstance(tuned, LinearClassifier):
        # it was not made from samples and may call too many of them by one name; shares of classes are released
        x, _ = fitted.sample(labelling.samples, seed=public_seed(design) % 2**32)
        scores = tuned.scores(torch.from_numpy(x).to(run.device))
        tuned = tuned.with_offsets(share_offsets(scores, fitted.counts))
    fitted.labeller = tuned


def draw(run: SynthesisRun, fitted: FittedGenerator, samples: int) -> Drawn:
    """Samples to learn from; the same z for the same design."""
    shape = run.config.shape
    assert shape is not None
    x, y = fitted.sample(samples, seed=public_seed(run.design) % 2**32)
    low, high = (torch.as_tensor(np.asarray(v), dtype=torch.float32) for v in fitted.span)
    unit = to_unit(torch.from_numpy(x), low, high - low).to(run.device)
    assert y is not None
    labels = torch.from_numpy(y).to(run.device)
    return Drawn(unit, labels, fitted.generator.classes, tuple(shape), fitted.span)


def tuned_head(run: SynthesisRun, outcome: Outcome, labelling: Labelling, pretrained: PretrainedLabeller) -> TunedHead:
    """The mechanism of the labels, from the design and the first release."""
    records = run.design.facts.records or run.config.records or _counted(outcome)
    return pretrained.mechanism(labelling, float(records), run.device)


def _counted(outcome: Outcome) -> float:
    """The released number of records; an assumed one where none was released."""
    if outcome.release is None:
        return ASSUMED_RECORDS
    value: Any = outcome.release.value
    return float(np.asarray(value["counts"]).sum())


def public_seed(design: Any) -> int:
    """The design's seed, within the range that torch takes."""
    return int(design.seed % 2**63)


def generator_of(outcome: Outcome) -> FittedGenerator:
    """The fitted generator; every method but that of tables has one."""
    assert isinstance(outcome.fitted, FittedGenerator)
    return outcome.fitted
