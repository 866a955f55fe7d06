"""The generator and the length of its training, from public facts alone, never from a record or a release."""

from __future__ import annotations

import math
from typing import Any

from privot.common.image_axes import image_axes
from privot.synthesis.neural.defaults.feature_defaults import has_common_mean, is_noisy
from privot.synthesis.neural.defaults.problem_and_rules import STRONG_SIGNAL, Problem, Rules, is_image, signal
from privot.synthesis.neural.generators.image_generators import AFFINE
from privot.synthesis.neural.generators.leaves import NUMBERS

MAX_STEPS = {"cpu": (400, 2_000), "cuda": (1_500, 5_000)}
MEMBERS, MAX_WORK = 4, 6_000
"""The number of generators trained side by side where noise is the limit, and their steps in all."""
SMALL_IMAGE = 256
"""Values of an image up to which fully connected layers are used on a CPU."""
PICTURE_STEPS = 3_000
"""Most steps for larger images on a CPU: five minutes of one core for ten classes."""
PACE, PICTURE_PACE = 10.0, 30.0
"""Steps per unit of signal; the same for larger images on a CPU."""
WARP = 0.2
"""The warp of images for a signal of 1 (`signal`): prior knowledge replaces what noise hides."""
COMMON_STEPS = 3_000
"""Steps of a training where the mean of all records is released, which has little noise."""
LEAVES = {"own": 16, "grid": 4, "hidden": 64}
"""Sizes of the light of leaves (`leaves.LeavesGenerator`)."""
LEAVES_STEPS = 300
ENCODED_BATCH = 640
"""Samples of all classes per step of a training with an encoder on a GPU, whose network takes most of the time."""


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
    if cuda and is_image(problem):
        # rearranging, the only choice on a CPU, leaves a pattern of single pixels
        kind.update(channels=128 if is_noisy(problem) else 256, last="resized")
    if is_image(problem) and warp(problem):
        kind.update(latent=kind["latent"] + AFFINE, warp=round(warp(problem), 4))
    if problem.leaves:
        config = {**base, **LEAVES, "kind": "leaves", "latent": LEAVES["own"] + NUMBERS, "shape": list(problem.shape)}
        # light has few numbers, and most of a step is the drawing of leaves
        return Rules(config, LEAVES_STEPS, _each(problem, 8, 64, 640 if cuda else 160), learning_rate=4e-3)
    if has_common_mean(problem):
        config = {**base, **kind, "channels": 256, "shape": list(problem.shape), "doublings": doublings}
        batch = _each(problem, 16, 1280, 2560) if problem.codes is None else _encoded_batch(problem)
        return Rules(config, COMMON_STEPS, batch, learning_rate=2e-3)
    members = min(MEMBERS, MAX_WORK // steps(problem)) if cuda and is_image(problem) and is_noisy(problem) else 1
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
    """10 per unit of signal over noise, n_c/5σ, within limits: a long training on a noisy release fits the noise.

    Larger images on a CPU have few samples per step, and 30 steps per unit of signal.
    """
    (least, most), pace = MAX_STEPS[problem.device], PACE
    if problem.device == "cpu" and problem.shape is not None and problem.dim > SMALL_IMAGE:
        most, pace = PICTURE_STEPS, PICTURE_PACE
    return int(min(max(pace * signal(problem), least), most))
