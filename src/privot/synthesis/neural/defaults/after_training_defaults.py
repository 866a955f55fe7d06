"""What the later parts of a budget pay for: labels, also of pictures of leaves, and the selection of a warp.

All of it is decided from public facts alone, before anything is paid; no rule here may see a record or a release.
"""

from __future__ import annotations

import math
from dataclasses import replace

from privot.common.image_axes import image_axes
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.gradients.linear_head import MAX_SIZE
from privot.synthesis.neural.after_training.relabelling import MAX_RECORDS, MAX_SEEN, WIDE, Labelling
from privot.synthesis.neural.after_training.warp_selection import EACH, WarpSelection
from privot.synthesis.neural.defaults.feature_defaults import MAX_FREQUENCIES, is_noisy
from privot.synthesis.neural.defaults.generator_defaults import warp
from privot.synthesis.neural.defaults.problem_and_rules import STRONG_SIGNAL, Problem, is_image, signal
from privot.synthesis.neural.features.scattering import can_scatter

LABELS_SHARE, SHORT_SHARE = 0.25, 0.1
"""Shares of the budget (of 1/σ²) for labels: at a signal above `STRONG_SIGNAL` or by a scattering, and below it."""
LEAVES_SHARE = 0.8
"""The share for labels where pictures of leaves are labelled: what they show is not learned, so labels are what the
budget is for; the rest is for numbers of records by class and for light."""
COMMON_SIGNAL = 200.0
"""The signal from which the mean of all records is released too. It was tried at 320, on a hold-out of CIFAR-10
(`lab/docs/notebook/synthesis-images.md`)."""
LABELLING = {"cpu": {"columns": 128, "samples": 6_000}, "cuda": {"columns": 512, "samples": 60_000}}
"""Parameters of a labeller (`relabelling.Labelling`)."""
LONGEST, TUNING, SHORT_TUNING = 2.0, (40, 0.006), (10, 0.0034)
"""The longest step of its tuning; the number of steps, and how far noise alone may move it in one step, at a signal
above `STRONG_SIGNAL` and below it, where long steps would gain less than their noise costs."""
SCATTERED = {"columns": 2_048, "samples": 2_000}
"""Parameters of a labeller that sees a scattering: the most features of an image, 8 kB per record in memory, since
averages over smaller cells bring more noise than they tell; and the samples that standardise them."""
SCATTERED_STEPS, QUIET = (20, 40), 3e-4
"""The number of its tuning steps where noise per record (σ₂ over the records) is above `QUIET`, and below it."""
SCATTERED_LENGTH, SCATTERED_LONGEST = 2.0, 400.0
"""The length of its steps for a noise of 1 per record, and the longest; like the number of steps chosen on a hold-out
of CIFAR-10 (`lab/docs/notebook/synthesis-images.md`)."""
ENCODED_SHARES = (0.5, 0.25)
"""Shares of the budget for labels by the codes of an encoder where noise per record, with the smaller share, is above
`QUIET`, and below it: means of classes fall further behind labels the more noise there is."""
ENCODED_STEPS, ENCODED_SAMPLES = 40, 2_000
"""The number of steps of that tuning, and the samples that centre the codes."""
ENCODED_LENGTH, ENCODED_LONGEST = 0.025, 400.0
"""The length of its steps for a noise of 1 per record, and the longest; like the shares and the number of steps chosen
on a hold-out of CIFAR-10 (`lab/docs/notebook/synthesis-images.md`)."""
CHOICE_SHARE = 0.02
"""The share of the budget (of 1/σ²) for selecting a warp: at ε = 0.2 a count has noise of 0.5 % of 60,000 records."""
FACTORS = (0.5, 1.0, 1.5, 2.0)
"""The factors on the training warp among which one is selected."""
CHOICE_SAMPLES = 20_000
"""Samples that each of the classifiers is trained on."""


def choose_labelling(problem: Problem) -> Labelling | None:
    """How samples get their labels, σ being the noise of the whole budget; None where they keep their requested class.

    Colour images are always labelled, on a CPU too: by a classifier of an encoder's codes where one is given; else of
    fixed wavelets, unless the signal is so strong that samples teach a network more (on a GPU). Others are not where
    noise is the limit: the means need the budget more than the labels do.
    """
    if _too_many(problem) or problem.classes < 2:
        return None
    if _encoded(problem):
        noisy, quiet = ENCODED_SHARES
        plain = labelling_of(problem, quiet)
        return plain if plain.sigma / _all_records(problem) <= QUIET else labelling_of(problem, noisy)
    if _scattered(problem):
        return labelling_of(problem, LEAVES_SHARE if problem.leaves else LABELS_SHARE)
    if not _seen(problem) or is_noisy(problem):
        return None
    return labelling_of(problem, LABELS_SHARE if signal(problem) >= STRONG_SIGNAL else SHORT_SHARE)


def labelling_of(problem: Problem, share: float) -> Labelling:
    """A labeller for a `share` of the budget whose noise is the problem's σ: σ₂ = σ/√share.

    A step's noise has the norm κ = σ₂·√(rounds·columns)/n of a class's part, n records: steps are min(2, 0.006/κ) long,
    40 of them, or 10 of min(2, 0.0034/κ) at a signal below `STRONG_SIGNAL`. Where it sees a scattering,
    steps are min(400, 2/√(σ₂/n)) long, 40 of them, or 20 where σ₂/n is above 0.0003. Where it sees codes of an
    encoder, 40 steps are min(400, 0.025/(σ₂/n)) long.
    """
    if not 0.0 < share < 1.0:
        raise UsageError(f"The share of the budget for labels must lie strictly between 0 and 1, got {share!r}.")
    if _encoded(problem):
        codes = problem.label_codes or problem.codes
        assert codes is not None
        sigma = problem.sigma / math.sqrt(share)
        length = min(ENCODED_LONGEST, ENCODED_LENGTH * _all_records(problem) / sigma)
        return Labelling(sigma, ENCODED_STEPS, length, codes, ENCODED_SAMPLES, "encoder")
    if _scattered(problem):
        sigma = problem.sigma / math.sqrt(share)
        noise = sigma / (problem.records_a_class * problem.classes)
        length = min(SCATTERED_LONGEST, SCATTERED_LENGTH / math.sqrt(noise))
        rounds = SCATTERED_STEPS[noise <= QUIET]
        return Labelling(sigma, rounds, length, SCATTERED["columns"], SCATTERED["samples"], "scattering")
    rounds, steady = TUNING if signal(problem) >= STRONG_SIGNAL else SHORT_TUNING
    sizes = LABELLING[problem.device]
    plain = Labelling(problem.sigma / math.sqrt(share), rounds, 1.0, sizes["columns"], sizes["samples"])
    noise = plain.sigma * math.sqrt(plain.rounds * plain.columns)
    return replace(plain, length=min(LONGEST, steady * problem.records_a_class * problem.classes / noise))


def _encoded(problem: Problem) -> bool:
    """Whether a labeller sees the codes of an encoder: of three colours, where one is given that is small enough."""
    codes = problem.label_codes or problem.codes
    if codes is None or codes >= MAX_SIZE or not is_image(problem):
        return False
    assert problem.shape is not None
    return image_axes(problem.shape).channels == 3


def _scattered(problem: Problem) -> bool:
    """Whether a labeller sees a scattering: of three colours, unless a GPU and a strong signal make samples good.

    At a strong signal only faces of two classes were tried on a hold-out, which a scattering labels 88 % right: so
    there the network stays that was in use before.
    """
    if not is_image(problem) or (_seen(problem) and signal(problem) >= STRONG_SIGNAL):
        return False
    assert problem.shape is not None
    return image_axes(problem.shape).channels == 3 and can_scatter(problem.shape, SCATTERED["columns"])


def _seen(problem: Problem) -> bool:
    """Whether there are images of several classes, and a device fast enough to train a network to classify them."""
    if problem.device == "cpu" or problem.classes < 2 or not is_image(problem):
        return False
    assert problem.shape is not None
    height, width, _, _ = image_axes(problem.shape)
    return WIDE * (height // 4) * (width // 4) <= MAX_SEEN


def _too_many(problem: Problem) -> bool:
    """Whether there are more records, by a public or stated number, than labels can be tuned on."""
    return problem.records is not None and problem.records > MAX_RECORDS


def _all_records(problem: Problem) -> float:
    """Of all classes: public, stated or assumed."""
    return problem.records_a_class * problem.classes


def has_leaves(problem: Problem) -> bool:
    """Whether a classifier learns more from labelled pictures of leaves than from what a generator makes of the noise.

    That is so where they can be labelled and the signal is too weak for all the frequencies of a GPU, whatever the
    device. It was chosen on a hold-out of CIFAR-10 (`lab/docs/notebook/synthesis-images.md`).
    """
    return signal(problem) ** 2 < MAX_FREQUENCIES["cuda"] and can_label_leaves(problem)


def can_label_leaves(problem: Problem) -> bool:
    """Whether pictures of leaves could be labelled: for colour images whose labels are tuned on a scattering."""
    possible = problem.classes > 1 and not _too_many(problem)
    return possible and problem.codes is None and not problem.common and _scattered(problem)


def wants_common_mean(problem: Problem, labelled: float | None = None) -> bool:
    """Whether the mean of all records is released beside those of the classes unless the user says otherwise, σ being
    the noise of the whole budget and `labelled` the share of it for labels, if that is asked for.

    That is so on a GPU at a signal from `COMMON_SIGNAL` to `STRONG_SIGNAL`, for images small enough for a network that
    labels samples (`_seen`), where labels are tuned on a scattering: samples then look more like the records, and the
    labels tell classes apart, of which the release says less. What is left beside the labels must not be noisy.
    """
    if not (_seen(problem) and COMMON_SIGNAL <= signal(problem) < STRONG_SIGNAL and can_label_leaves(problem)):
        return False
    left = 1.0 - (LABELS_SHARE if labelled is None else labelled)
    return not is_noisy(replace(problem, sigma=problem.sigma / math.sqrt(left)))


def choose_warp_selection(problem: Problem, adjacency: Adjacency) -> WarpSelection | None:
    """How a warp is selected, σ being the noise of the whole budget; None where nothing is warped.

    (Δ/σ)² is the budget and K/σ₂² the cost of K counts, two per factor: σ₂ = σ·√(K/share)/Δ.
    """
    if not _seen(problem) or not warp(problem) or problem.leaves:
        return None
    sigma = problem.sigma * math.sqrt(EACH * len(FACTORS) / CHOICE_SHARE) / adjacency.sensitivity(1.0)
    return WarpSelection(sigma, FACTORS, CHOICE_SAMPLES)
