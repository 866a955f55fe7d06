"""What to build and how long to train, from public facts alone; no rule here may see a record or a release.

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
from privot.synthesis.features.filters import Filtered
from privot.synthesis.features.fourier import Fourier, Stack
from privot.synthesis.generators.generator import Segment
from privot.synthesis.generators.image_generators import AFFINE
from privot.synthesis.refinement.relabelling import MAX_RECORDS, MAX_SEEN, WIDE, Labelling
from privot.synthesis.refinement.warp_selection import EACH, WarpSelection

ASSUMED_RECORDS = 10_000
"""Where the number of records is private and nobody states it; a guess that only steers sizes."""
MAX_FREQUENCIES = {"cpu": 2_000, "cuda": 20_000}
MAX_STEPS = {"cpu": (400, 2_000), "cuda": (1_500, 5_000)}
MEMBERS, MAX_WORK = 4, 6_000
"""Generators trained side by side, where noise is the limit, and how many steps they may take together."""
SMALL_IMAGE = 256
"""Values of an image up to which a processor is given fully connected layers."""
PICTURE_STEPS = 3_000
"""At most, of larger ones on a processor: five minutes of one core for ten classes."""
BANDWIDTHS = (0.11, 0.18)
"""In units of √columns: two points of [0, 1]^d lie a multiple of that apart."""
NOISY_BANDWIDTHS = (0.15, 0.25)
"""Where noise is the limit: wider kernels ask about fewer and coarser things, which many records agree on."""
WARP = 0.2
"""Of images, for a signal of 1 (`signal`): how much of what is known beforehand is put in place of noise."""
STRONG_SIGNAL = 1_000.0
"""The signal from which on nothing is known beforehand that a release does not say better."""
FILTERS = 64
FILTERED_BANDWIDTHS = (0.0375, 0.0625)
"""The same for what 5 × 5 filters see: on USPS digits, enlarged, that lies 0.35 times as far apart as the pixels."""
SECOND_FILTERS = ((128, 0.235), (256, 0.085))
"""Second banks of 3 × 3 filters, for regions of 4 pixels and for quarters of the image: how many there are, and how far
apart what they see lies, as a multiple of the pixels' distance and measured in the same way. A region has an even side,
so that positions can lie two apart: four times faster than all of them."""
LABELS_SHARE, SHORT_SHARE = 0.25, 0.1
"""Of the budget, of 1/σ², for labels: where a release says enough (`STRONG_SIGNAL`), and where it does not."""
LABELLING = {"cpu": {"columns": 128, "samples": 6_000}, "cuda": {"columns": 512, "samples": 60_000}}
"""How a labeller is made (`labelling.Labelling`)."""
LONGEST, TUNING, SHORT_TUNING = 2.0, (40, 0.006), (10, 0.0034)
"""The longest step of its tuning; the number of steps, and how far noise alone may move it in one: where a release says
enough (`STRONG_SIGNAL`), and where it does not, since noise then costs more than far steps bring."""
CHOICE_SHARE = 0.02
"""Of the budget, of 1/σ², for choosing a warp: a count then has noise of 0.5 % of 60,000 records at ε = 0.2."""
FACTORS = (0.5, 1.0, 1.5, 2.0)
"""Of the warp trained with, among which is chosen."""
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
    """Samples a class a step, of every generator that is trained."""
    learning_rate: float
    options: dict[str, Any] = field(default_factory=dict)
    """What only one strategy asks for."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Rules:
        """Read what `to_dict` wrote."""
        try:
            return cls(
                dict(fields["generator"]),
                int(fields["steps"]),
                int(fields["batch"]),
                float(fields["learning_rate"]),
                dict(fields.get("options", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"These are not the rules of a training ({type(error).__name__}).") from None


def signal(problem: Problem) -> float:
    """n_c/5σ, records of a class over noise."""
    return problem.records_a_class / (5.0 * problem.sigma)


def frequencies(problem: Problem) -> int:
    """m = (n_c/5σ)², within limits: then the noise on a class's mean has norm σ·√(2m)/n_c = √2/5.

    More frequencies would be fitted to noise, fewer would say less about the data.
    """
    return int(min(max(signal(problem) ** 2, 500.0), MAX_FREQUENCIES[problem.device]))


def choose_features(
    problem: Problem, seed: int, low: float | Sequence[float], high: float | Sequence[float]
) -> FeatureMap:
    """The map whose means are released: pixels and, where the noise leaves room for it, what filters see of them."""
    m, root = frequencies(problem), math.sqrt(problem.dim)
    if problem.device == "cpu" or not _image(problem):
        return Fourier(problem.dim, m, [b * root for b in BANDWIDTHS], seed, low, high)
    # pixels say most with few frequencies
    if _noisy(problem):
        return Fourier(problem.dim, m, [b * root for b in NOISY_BANDWIDTHS], seed, low, high)
    assert problem.shape is not None
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
    # the fewer numbers, the less a convolution has over a matrix product
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
        # rearranging, which a processor is left with, leaves a pattern of single pixels
        kind.update(channels=128 if _noisy(problem) else 256, last="resized")
    if _image(problem) and warp(problem):
        kind.update(latent=kind["latent"] + AFFINE, warp=round(warp(problem), 4))
    members = min(MEMBERS, MAX_WORK // steps(problem)) if cuda and _image(problem) and _noisy(problem) else 1
    if members > 1:
        kind.update(kind="several", of=kind["kind"], members=members)
    config = {**base, **kind, "shape": list(problem.shape), "doublings": doublings}
    if cuda:
        return Rules(config, steps(problem), _each(problem, 16, 256, 2560), learning_rate=2e-3)
    # a step's time goes with the samples, and longer steps of fewer get further
    return Rules(config, steps(problem), _each(problem, 8, 64, 160), learning_rate=4e-3)


def _each(problem: Problem, least: int, most: int, whole: int) -> int:
    """Samples a class of `whole` a step, within limits."""
    return max(least, min(most, whole // problem.classes))


def choose_labelling(problem: Problem) -> Labelling | None:
    """How samples get their labels, σ being the noise of the whole budget; None where they keep the class asked for.

    That is where noise is the limit: means need the budget more than labels do.
    """
    many = problem.records is not None and problem.records > MAX_RECORDS
    if many or not _seen(problem) or _noisy(problem):
        return None
    return labelling_of(problem, LABELS_SHARE if signal(problem) >= STRONG_SIGNAL else SHORT_SHARE)


def _seen(problem: Problem) -> bool:
    """Whether there are images of several classes and the means to train a network to tell them apart."""
    if problem.device == "cpu" or problem.classes < 2 or not _image(problem):
        return False
    assert problem.shape is not None
    height, width, _, _ = image_axes(problem.shape)
    return WIDE * (height // 4) * (width // 4) <= MAX_SEEN


def choose_warp_selection(problem: Problem, adjacency: Adjacency) -> WarpSelection | None:
    """How a warp is chosen, σ being the noise of the whole budget; None where nothing is warped.

    (Δ/σ)² is the budget and K/σ₂² the cost of K counts, two a factor: σ₂ = σ·√(K/share)/Δ.
    """
    if not _seen(problem) or not warp(problem):
        return None
    sigma = problem.sigma * math.sqrt(EACH * len(FACTORS) / CHOICE_SHARE) / adjacency.sensitivity(1.0)
    return WarpSelection(sigma, FACTORS, CHOICE_SAMPLES)


def labelling_of(problem: Problem, share: float) -> Labelling:
    """A labeller for a `share` of the budget whose noise is the problem's σ: σ₂ = σ/√share.

    A step's noise has the norm κ = σ₂·√(rounds·columns)/n of a class's part, n records: steps are min(2, 0.006/κ) long,
    40 of them, or 10 of min(2, 0.0034/κ) where a release does not say enough.
    """
    if not 0.0 < share < 1.0:
        raise UsageError(f"The share of the budget for labels must lie strictly between 0 and 1, got {share!r}.")
    rounds, steady = TUNING if signal(problem) >= STRONG_SIGNAL else SHORT_TUNING
    plain = Labelling(problem.sigma / math.sqrt(share), rounds, length=1.0, **LABELLING[problem.device])
    noise = plain.sigma * math.sqrt(plain.rounds * plain.columns)
    return replace(plain, length=min(LONGEST, steady * problem.records_a_class * problem.classes / noise))


def warp(problem: Problem) -> float:
    """0.2/(n_c/5σ)^¼, at most 0.1: the less a release says, the more of the variety of images is taken for granted.

    With 5,000 records a class that is 0.07 and 0.05 at ε = 0.2 and 1. Where the signal is strong (`STRONG_SIGNAL`, at
    ε = 10) there is none: it blurs what is known.
    """
    said = signal(problem)
    return 0.0 if said >= STRONG_SIGNAL else min(0.1, WARP / math.sqrt(math.sqrt(max(said, 1.0))))


def steps(problem: Problem) -> int:
    """10 a unit of signal over noise, n_c/5σ, within limits: a long training on a noisy release fits the noise."""
    least, most = MAX_STEPS[problem.device]
    if problem.device == "cpu" and problem.shape is not None and problem.dim > SMALL_IMAGE:
        most = PICTURE_STEPS
    return int(min(max(10.0 * signal(problem), least), most))
