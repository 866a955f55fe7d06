"""Sizes and lengths of training, from public facts alone; no rule here may see a record or a release.

Public are: the columns, the image shape and range, the number of classes, σ (from ε and δ), the device, and the
number of records where replace-one makes it public or the user says it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.embedding import FeatureMap
from privot.mechanisms.gradients.linear_head import MAX_SIZE
from privot.synthesis.defaults.common_mean import CommonMean, choose_maps
from privot.synthesis.encoders.public_encoder import PublicEncoder
from privot.synthesis.features.encoder_features import EncoderFeatures
from privot.synthesis.features.filters import Filtered
from privot.synthesis.features.fourier import Fourier, Stack
from privot.synthesis.features.hadamard import MAX_DIM, HadamardFourier
from privot.synthesis.features.scattered import MOST
from privot.synthesis.features.scattering import can_scatter
from privot.synthesis.generators.generator import Segment
from privot.synthesis.generators.image_generators import AFFINE
from privot.synthesis.generators.leaves import NUMBERS
from privot.synthesis.refinement.relabelling import MAX_RECORDS, MAX_SEEN, WIDE, Labelling
from privot.synthesis.refinement.warp_selection import EACH, WarpSelection

ASSUMED_RECORDS = 10_000
"""Assumed where the number of records is private and not stated; it affects sizes only."""
MAX_FREQUENCIES = {"cpu": 2_000, "cuda": 20_000}
MAX_STEPS = {"cpu": (400, 2_000), "cuda": (1_500, 5_000)}
MEMBERS, MAX_WORK = 4, 6_000
"""The number of generators trained side by side where noise is the limit, and their steps in all."""
STRUCTURED = (256, MAX_DIM)
"""The columns for which structured frequencies are used on a CPU: with fewer, the dense product takes less than reading
an image, and generators of 64 columns came out worse; with more, phases of 32 bits do not resolve the records."""
SMALL_IMAGE = 256
"""Values of an image up to which fully connected layers are used on a CPU."""
PICTURE_STEPS = 3_000
"""Most steps for larger images on a CPU: five minutes of one core for ten classes."""
BANDWIDTHS = (0.11, 0.18)
"""Bandwidths in units of √columns, the scale of distances between two points of [0, 1]^d."""
NOISY_BANDWIDTHS = (0.15, 0.25)
"""Bandwidths where noise is the limit: wider kernels measure coarser properties, which many records share."""
WARP = 0.2
"""The warp of images for a signal of 1 (`signal`): prior knowledge replaces what noise hides."""
STRONG_SIGNAL = 1_000.0
"""The signal above which a release is more informative than any prior knowledge."""
FILTERS = 64
FILTERED_BANDWIDTHS = (0.0375, 0.0625)
"""The same for outputs of 5 × 5 filters: on enlarged USPS digits their distances are 0.35 times those of pixels."""
SECOND_FILTERS = ((128, 0.235), (256, 0.085))
"""Second banks of 3 × 3 filters, for regions of 4 pixels and for quarters of the image: their number, and the distance
of their outputs as a multiple of the pixels' distance, measured in the same way. A region has an even side, so that
positions can be two pixels apart: four times faster than all positions."""
ENCODER_PART, CODE_BANDWIDTHS = 4, (0.3, 0.6)
"""Of the frequencies, one for every so many is spent beside them on the codes of an encoder; and their bandwidths, a
fraction of 2, the distance of opposite codes. Neither was tuned."""
COMMON_STEPS = 3_000
"""Steps of a training where the mean of all records is released, which has little noise."""
LABELS_SHARE, SHORT_SHARE = 0.25, 0.1
"""Shares of the budget (of 1/σ²) for labels: at a signal above `STRONG_SIGNAL` or by a scattering, and below it."""
LABELLING = {"cpu": {"columns": 128, "samples": 6_000}, "cuda": {"columns": 512, "samples": 60_000}}
"""Parameters of a labeller (`relabelling.Labelling`)."""
LONGEST, TUNING, SHORT_TUNING = 2.0, (40, 0.006), (10, 0.0034)
"""The longest step of its tuning; the number of steps, and how far noise alone may move it in one step, at a signal
above `STRONG_SIGNAL` and below it, where long steps would gain less than their noise costs."""
SCATTERED = {"columns": 2_048, "samples": 2_000}
"""Parameters of a labeller that sees a scattering: the most features of an image, 8 kB per record in memory, since
averages over smaller cells bring more noise than they tell; and the samples that standardise them."""
LEAVES_SHARE = 0.8
"""The share for labels where pictures of leaves are labelled: what they show is not learned, so labels are what the
budget is for; the rest is for numbers of records by class and for light."""
LEAVES = {"own": 16, "grid": 4, "hidden": 64}
"""Sizes of the light of leaves (`leaves.LeavesGenerator`)."""
LEAVES_STEPS = 300
SCATTERED_STEPS, QUIET = (20, 40), 3e-4
"""The number of its tuning steps where noise per record (σ₂ over the records) is above `QUIET`, and below it."""
SCATTERED_LENGTH, SCATTERED_LONGEST = 2.0, 400.0
"""The length of its steps for a noise of 1 per record, and the longest; like the number of steps chosen on a hold-out
of CIFAR-10 (`docs/notebook/synthesis-images.md`)."""
ENCODED_SHARES = (0.5, 0.25)
"""Shares of the budget for labels by the codes of an encoder where noise per record, with the smaller share, is above
`QUIET`, and below it: means of classes fall further behind labels the more noise there is."""
ENCODED_STEPS, ENCODED_SAMPLES = 40, 2_000
"""The number of steps of that tuning, and the samples that centre the codes."""
ENCODED_LENGTH, ENCODED_LONGEST = 0.025, 400.0
"""The length of its steps for a noise of 1 per record, and the longest; like the shares and the number of steps chosen
on a hold-out of CIFAR-10 (`docs/notebook/synthesis-images.md`)."""
ENCODED_BATCH = 640
"""Samples of all classes per step of a training with an encoder on a GPU, whose network takes most of the time."""
CHOICE_SHARE = 0.02
"""The share of the budget (of 1/σ²) for selecting a warp: at ε = 0.2 a count has noise of 0.5 % of 60,000 records."""
FACTORS = (0.5, 1.0, 1.5, 2.0)
"""The factors on the training warp among which one is selected."""
CHOICE_SAMPLES = 20_000
"""Samples that each of the classifiers is trained on."""


@dataclass(frozen=True)
class Problem:
    """The public facts a rule may use."""

    dim: int
    classes: int
    sigma: float
    records: int | None
    shape: tuple[int, ...] | None = None
    device: str = "cpu"
    segments: tuple[Segment, ...] | None = None
    common: bool = False
    """Whether a mean of all records is asked for."""
    codes: int | None = None
    """The numbers that a public encoder makes of an image; None where none is given."""
    leaves: bool = False
    """Whether samples are pictures of leaves with labels that were tuned on records (`has_leaves`)."""

    @property
    def records_a_class(self) -> float:
        """Public, stated or assumed."""
        return (self.records or ASSUMED_RECORDS) / self.classes


@dataclass(frozen=True)
class Rules:
    """Everything training needs besides the release, as plain JSON types."""

    generator: dict[str, Any]
    steps: int
    batch: int
    """Samples per class and step, of every generator that is trained."""
    learning_rate: float
    options: dict[str, Any] = field(default_factory=dict)
    """Options of a single method."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Rules:
        """Read what `to_dict` wrote."""
        try:
            read = cls(
                dict(fields["generator"]),
                int(fields["steps"]),
                int(fields["batch"]),
                float(fields["learning_rate"]),
                dict(fields.get("options", {})),
            )
            if min(read.steps, read.batch) < 1 or not 0.0 < read.learning_rate < math.inf:
                raise ValueError("out of range")
            return read
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"These are not the rules of a training ({type(error).__name__}).") from None


def signal(problem: Problem) -> float:
    """n_c/5σ, the records of a class relative to the noise."""
    return problem.records_a_class / (5.0 * problem.sigma)


def frequencies(problem: Problem) -> int:
    """m = (n_c/5σ)², within limits: then the noise on a class's mean has norm σ·√(2m)/n_c = √2/5.

    More frequencies would fit the noise; fewer would carry less information about the data.
    """
    return int(min(max(signal(problem) ** 2, 500.0), MAX_FREQUENCIES[problem.device]))


def choose_features(
    problem: Problem, seed: int, low: float | Sequence[float], high: float | Sequence[float]
) -> FeatureMap:
    """The map whose means are released: features of pixels and, where the noise is small enough, of filter outputs.

    On a CPU its frequencies are structured from 256 columns on (`STRUCTURED`), and dense elsewhere.
    """
    root = math.sqrt(problem.dim)
    m = frequencies(problem)
    if problem.device == "cpu" and STRUCTURED[0] <= problem.dim <= STRUCTURED[1]:
        return HadamardFourier(problem.dim, m, [b * root for b in BANDWIDTHS], seed, low, high)
    if problem.device == "cpu" or not _image(problem):
        return Fourier(problem.dim, m, [b * root for b in BANDWIDTHS], seed, low, high)
    # with few frequencies, pixels carry the most information
    if _noisy(problem):
        return Fourier(problem.dim, m, [b * root for b in NOISY_BANDWIDTHS], seed, low, high)
    return _filtered(problem, m, seed, low, high)


def _filtered(
    problem: Problem, m: int, seed: int, low: float | Sequence[float], high: float | Sequence[float]
) -> FeatureMap:
    """Features of pixels and of three banks of filters, `m` frequencies in all."""
    assert problem.shape is not None
    root = math.sqrt(problem.dim)
    pixels = [b * root for b in BANDWIDTHS]
    seen = [b * root for b in FILTERED_BANDWIDTHS]
    share, quarter = m // (2 + len(SECOND_FILTERS)), 2 * -(-min(image_axes(problem.shape)[:2]) // 8)
    maps: list[FeatureMap] = [
        Fourier(problem.dim, share, pixels, seed, low, high, "independent"),
        Filtered(problem.shape, FILTERS, share, seen, seed, low, high),
    ]
    for (filters, ratio), cell in zip(SECOND_FILTERS, (2, quarter), strict=True):
        widths, then = [ratio * h for h in pixels], (filters, 3, cell, 2)
        maps.append(Filtered(problem.shape, FILTERS, share, widths, seed, low, high, cell=2, then=then))
    return Stack(maps)


def has_common_mean(problem: Problem) -> bool:
    """Whether the mean of all records is released beside those of the classes: where it is asked for, which only
    colour images of several classes on a GPU allow.
    """
    if not problem.common:
        return False
    if problem.device == "cpu" or problem.classes < 2 or not _image(problem) or not _coloured(problem):
        raise UsageError("A mean of all records is for colour images of several classes, on a GPU: leave it out.")
    return True


def has_leaves(problem: Problem) -> bool:
    """Whether a classifier learns more from labelled pictures of leaves than from what a generator makes of the noise.

    That is so where they can be labelled and the signal is too weak for all the frequencies of a GPU, whatever the
    device. It was chosen on a hold-out of CIFAR-10 (`docs/notebook/synthesis-images.md`).
    """
    return signal(problem) ** 2 < MAX_FREQUENCIES["cuda"] and can_label_leaves(problem)


def can_label_leaves(problem: Problem) -> bool:
    """Whether pictures of leaves could be labelled: for colour images whose labels are tuned on a scattering."""
    possible = problem.classes > 1 and not _too_many(problem)
    return possible and problem.codes is None and not problem.common and _scattered(problem)


def _too_many(problem: Problem) -> bool:
    """Whether there are more records, by a public or stated number, than labels can be tuned on."""
    return problem.records is not None and problem.records > MAX_RECORDS


def _coloured(problem: Problem) -> bool:
    assert problem.shape is not None
    return image_axes(problem.shape).channels == 3 and can_scatter(problem.shape, MOST)


def choose_both(
    problem: Problem,
    encoder: PublicEncoder | None,
    seed: int,
    low: float | Sequence[float],
    high: float | Sequence[float],
) -> tuple[FeatureMap, CommonMean | None]:
    """The map by class and, where `has_common_mean`, that of all records."""
    if has_common_mean(problem):
        assert problem.shape is not None
        rich = _filtered(problem, MAX_FREQUENCIES[problem.device], seed, low, high)
        return choose_maps(rich, problem.shape, _noisy(problem), encoder, seed, low, high)
    features = choose_features(problem, seed, low, high)
    return (features if encoder is None else beside_encoder(features, encoder, problem, seed, low, high)), None


def beside_encoder(
    features: FeatureMap,
    encoder: PublicEncoder,
    problem: Problem,
    seed: int,
    low: float | Sequence[float],
    high: float | Sequence[float],
) -> Stack:
    """`features`, and those of a public encoder with half of the weight (of Σw²), in one release."""
    if problem.shape is None:
        raise UsageError("An encoder takes images: state their shape.")
    m = max(frequencies(problem) // ENCODER_PART, len(CODE_BANDWIDTHS))
    codes = EncoderFeatures(encoder, problem.shape, m, CODE_BANDWIDTHS, seed, low, high)
    maps, weights = ([features], [1.0]) if not isinstance(features, Stack) else (features.maps, features.shares)
    return Stack([*maps, codes], [*weights, 1.0])


def _image(problem: Problem) -> bool:
    return problem.shape is not None and min(image_axes(problem.shape)[:2]) >= 16


def _noisy(problem: Problem) -> bool:
    """Whether the noise allows fewer frequencies than the device could carry."""
    return frequencies(problem) < MAX_FREQUENCIES[problem.device]


def choose_rules(problem: Problem) -> Rules:
    """The generator and its training."""
    base = {
        "dim": problem.dim,
        "classes": problem.classes,
        "segments": [list(s) for s in problem.segments or ((0, problem.dim, "interval"),)],
    }
    cuda = problem.device == "cuda"
    # with fewer numbers a convolution gains less over a matrix product
    if problem.shape is None or (not cuda and problem.dim <= SMALL_IMAGE):
        hidden = [512, 512] if cuda else [256, 256]
        config = {**base, "kind": "mlp", "latent": min(64, max(8, problem.dim)), "hidden": hidden}
        batch = _each(problem, 16, 256, 2560) if cuda else _each(problem, 8, 128, 320)
        return Rules(config, steps(problem), batch, learning_rate=2e-3)
    height, width, _, _ = image_axes(problem.shape)
    doublings = 3 if min(height, width) >= 32 else 2 if min(height, width) >= 8 else 1
    kind: dict[str, Any] = {"kind": "mapped", "latent": 32, "hidden": 128, "channels": 32}
    if cuda:
        kind.update(latent=64, hidden=256, channels=256)
    if cuda and _image(problem):
        # rearranging, the only choice on a CPU, leaves a pattern of single pixels
        kind.update(channels=128 if _noisy(problem) else 256, last="resized")
    if _image(problem) and warp(problem):
        kind.update(latent=kind["latent"] + AFFINE, warp=round(warp(problem), 4))
    if problem.leaves:
        config = {**base, **LEAVES, "kind": "leaves", "latent": LEAVES["own"] + NUMBERS, "shape": list(problem.shape)}
        # light has few numbers, and most of a step is the drawing of leaves
        return Rules(config, LEAVES_STEPS, _each(problem, 8, 64, 640 if cuda else 160), learning_rate=4e-3)
    if has_common_mean(problem):
        config = {**base, **kind, "channels": 256, "shape": list(problem.shape), "doublings": doublings}
        batch = _each(problem, 16, 1280, 2560) if problem.codes is None else _encoded_batch(problem)
        return Rules(config, COMMON_STEPS, batch, learning_rate=2e-3)
    members = min(MEMBERS, MAX_WORK // steps(problem)) if cuda and _image(problem) and _noisy(problem) else 1
    if members > 1:
        kind.update(kind="several", of=kind["kind"], members=members)
    config = {**base, **kind, "shape": list(problem.shape), "doublings": doublings}
    if cuda:
        batch = _each(problem, 16, 256, 2560) if problem.codes is None else _encoded_batch(problem, members)
        return Rules(config, steps(problem), batch, learning_rate=2e-3)
    # the time of a step is proportional to its samples; longer steps with fewer samples make more progress
    return Rules(config, steps(problem), _each(problem, 8, 64, 160), learning_rate=4e-3)


def _each(problem: Problem, least: int, most: int, whole: int) -> int:
    """Samples per class for `whole` samples per step, within limits."""
    return max(least, min(most, whole // problem.classes))


def _encoded_batch(problem: Problem, members: int = 1) -> int:
    """Samples per class and member with an encoder: 64 of each of ten classes by one generator, 256 at most."""
    return max(16, _each(problem, 16, 256, ENCODED_BATCH) // members)


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
    if not _seen(problem) or _noisy(problem):
        return None
    return labelling_of(problem, LABELS_SHARE if signal(problem) >= STRONG_SIGNAL else SHORT_SHARE)


def _encoded(problem: Problem) -> bool:
    """Whether a labeller sees the codes of an encoder: of three colours, where one is given that is small enough."""
    if problem.codes is None or problem.codes >= MAX_SIZE or not _image(problem):
        return False
    assert problem.shape is not None
    return image_axes(problem.shape).channels == 3


def _all_records(problem: Problem) -> float:
    """Of all classes: public, stated or assumed."""
    return problem.records_a_class * problem.classes


def _scattered(problem: Problem) -> bool:
    """Whether a labeller sees a scattering: of three colours, unless a GPU and a strong signal make samples good.

    At a strong signal only faces of two classes were tried on a hold-out, which a scattering labels 88 % right: so
    there the network stays that was in use before.
    """
    if not _image(problem) or (_seen(problem) and signal(problem) >= STRONG_SIGNAL):
        return False
    assert problem.shape is not None
    return image_axes(problem.shape).channels == 3 and can_scatter(problem.shape, SCATTERED["columns"])


def _seen(problem: Problem) -> bool:
    """Whether there are images of several classes, and a device fast enough to train a network to classify them."""
    if problem.device == "cpu" or problem.classes < 2 or not _image(problem):
        return False
    assert problem.shape is not None
    height, width, _, _ = image_axes(problem.shape)
    return WIDE * (height // 4) * (width // 4) <= MAX_SEEN


def choose_warp_selection(problem: Problem, adjacency: Adjacency) -> WarpSelection | None:
    """How a warp is selected, σ being the noise of the whole budget; None where nothing is warped.

    (Δ/σ)² is the budget and K/σ₂² the cost of K counts, two per factor: σ₂ = σ·√(K/share)/Δ.
    """
    if not _seen(problem) or not warp(problem) or problem.leaves:
        return None
    sigma = problem.sigma * math.sqrt(EACH * len(FACTORS) / CHOICE_SHARE) / adjacency.sensitivity(1.0)
    return WarpSelection(sigma, FACTORS, CHOICE_SAMPLES)


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
        assert problem.codes is not None
        sigma = problem.sigma / math.sqrt(share)
        length = min(ENCODED_LONGEST, ENCODED_LENGTH * _all_records(problem) / sigma)
        return Labelling(sigma, ENCODED_STEPS, length, problem.codes, ENCODED_SAMPLES, "encoder")
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


def warp(problem: Problem) -> float:
    """0.2/(n_c/5σ)^¼, at most 0.1: the weaker the signal, the more of the variety of images is assumed.

    With 5,000 records per class that is 0.07 and 0.05 at ε = 0.2 and 1. Where the signal is strong (`STRONG_SIGNAL`,
    at ε = 10) there is no warp: it would blur what the release shows.
    """
    said = signal(problem)
    if has_common_mean(problem):
        return 0.0
    return 0.0 if said >= STRONG_SIGNAL else min(0.1, WARP / math.sqrt(math.sqrt(max(said, 1.0))))


def steps(problem: Problem) -> int:
    """10 per unit of signal over noise, n_c/5σ, within limits: a long training on a noisy release fits the noise."""
    least, most = MAX_STEPS[problem.device]
    if problem.device == "cpu" and problem.shape is not None and problem.dim > SMALL_IMAGE:
        most = PICTURE_STEPS
    return int(min(max(10.0 * signal(problem), least), most))
