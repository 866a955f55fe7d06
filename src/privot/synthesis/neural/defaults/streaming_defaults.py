"""The options of the methods that train on streams, and their defaults from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from privot.common.image_axes import image_axes
from privot.errors import UsageError
from privot.synthesis.neural.defaults.generator_defaults import SMALL_IMAGE
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.generators.image_generators import AFFINE

BLOCKS = 20
"""The default number of charges of a job: a kill loses the rest of one."""
SINKHORN_WARP, SLICED_WARP = 0.03, 0.08
"""How far samples of images are rotated, slanted and shifted beyond what was learned (`PictureGenerator`).

The warp is larger where less is learned. In an emulation on held-out digits and clothes, 0.05 in place of the first
gains one more point for digits and costs a convolutional classifier of clothes two; the second gains four to six points
for digits and costs less than one for clothes.
"""
_COUNTS = (
    "steps",
    "blocks",
    "batch",
    "points",
    "slices",
    "repeats",
    "replay",
    "over",
    "sweeps",
    "every",
    "samples",
    "pool",
)


def embedding_options(given: Mapping[str, Any]) -> dict[str, float]:
    """The options of `embedding`: `labelled`, the share of the budget for labels, 0 for none; `common`, 1 for a mean of
    all records beside those of the classes; and `leaves`, 0 or 1, whether pictures of leaves are labelled.
    """
    _known(given, ("labelled", "common", "leaves"))
    found: dict[str, float] = {}
    if "labelled" in given:
        share = given["labelled"]
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise UsageError(f"The option labelled must be a number, got {share!r}.")
        _check_share(share)
        found["labelled"] = float(share)
    for name in ("common", "leaves"):
        if name in given:
            if given[name] not in (0, 1):
                raise UsageError(f"The option {name} must be 0 or 1, got {given[name]!r}.")
            found[name] = float(given[name])
    return found


def sinkhorn_options(problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of DP-Sinkhorn: the loss and cost are the published ones; the steps and the batch are ours.

    A step's signal has norm at most C for every batch, and T steps of it compare with noise of C·2σ_m/√T per number,
    so √T/2σ_m measures what a budget buys. It grows with T and falls with the batch: for 60,000 records at (10, 1e-5)
    it is 311 for 100,000 steps of 50 and 194 for as many of 200; for 1,437 records 91, 52, 27 and 7 for 10,000 steps of
    5, 20, 50 and 200. But a step gives no information about a class that its sample lacks, so the batch is about the
    number of classes, or a few records per class where records are many, and the steps are as many as the device makes
    in minutes. With half as many records per step, more steps gained less: a clipped gradient of few records is mostly
    sampling error.

    A GPU is nearly idle with one sample per step: 16, each with its points, its noise and its charge, make 4,200
    releases per second on an H200, where one per step makes 780.

    A step is mostly noise, so Adam moves every weight by about the learning rate η for any signal, and T steps move
    them by η√T at random: η falls with √T. How far that moves an image grows with the width: per unit of η by 25
    with 64 channels and by 200 with 256. Gradients are not smoothed: with only an image's low frequencies,
    logistic regression reached 23 %, not 71 %, after 20,000 steps.
    """
    cuda = problem.device == "cuda"
    steps = 100_000 if cuda else 10_000
    usual: dict[str, Any] = {
        "steps": steps,
        "blocks": BLOCKS // 2 if cuda else BLOCKS,
        "batch": 5 * max(10, problem.classes) if cuda else max(10, problem.classes),
        "points": 5 * max(10, problem.classes) if cuda else max(10, problem.classes),
        "samples": 16 if cuda else 1,
        "clip": 0.5,
        "p": 0.4,
        "mixture": 1.0,
        "square": 1.0,
        "reg": 0.05 if problem.dim <= 1024 else 5.0,
        "sweeps": 20 if cuda else 8,
        "label_weight": 15.0,
        "balance": 1,
        "debias": "matched",
        "every": 4 if cuda else 1,
        "optimizer": "adam",
        "learning_rate": _rate(given.get("steps", steps), 0.014) if cuda else 1e-3,
        "average": 0.999,
        "generator": "dcgan",
        "channels": 256 if cuda else 64,
        "latent": 12,
        "warp": SINKHORN_WARP,
        "labelled": 0.0,
    }
    return _checked(usual, given, problem)


def _rate(steps: Any, moved: float) -> float:
    """moved/√T for T steps; T = 0 is refused elsewhere."""
    return moved / math.sqrt(steps) if isinstance(steps, int) and steps > 0 else moved


def sliced_options(problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of DP-SWD: slices, fixed-size batches, the generator of its Table 3; a release may be used many times.

    A release shows every row of a batch, so T steps of B rows determine a mean with the error σ/√(T·B) per number of
    one whole frame; k slices determine k/dim of it, for a σ that falls as √k does. The error is smallest for batches of
    about 1 % of the records and as many steps as the device makes in minutes: for 60,000 records at (10, 1e-5), a
    class's mean pixel has the error 0.090 after 5,000 steps of 500 with 32 slices. Fewer slices per step make its
    gradient noisier: 21,000 steps of 300 with 8 gave 62 % by logistic regression, those 5,000 with 32 gave 69 %.
    """
    cuda = problem.device == "cuda"
    records = problem.records or 0
    usual: dict[str, Any] = {
        "steps": 20_000 if cuda else 6_000,
        "blocks": BLOCKS,
        "batch": max(1, min(records, max(20, records // (120 if cuda else 100)))),
        "labels": "outer",
        "pool": 1,
        "slices": min(32, problem.dim),
        "frame": "orthogonal",
        "bound": "exact",
        "power": 2.0,
        "repeats": 1,
        "replay": 8,
        "over": 4,
        "label_share": 0.4,
        "optimizer": "adam",
        "learning_rate": _rate(given.get("steps", 20_000), 0.14) if cuda else 1e-3,
        "average": 0.999,
        "generator": "upsampling",
        "channels": 64,
        "latent": 10,
        "warp": SLICED_WARP,
    }
    return _checked(usual, given, problem)


def _checked(usual: dict[str, Any], given: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    _known(given, usual)
    options = {**usual, **given}
    # rows that are not images come from fully connected layers, small images on a CPU from the smallest generator
    if "generator" not in given:
        small = problem.device != "cuda" and problem.dim <= SMALL_IMAGE
        if problem.shape is None or small:
            options["generator"] = "mlp" if problem.shape is None else "affine"
        elif options["generator"] == "dcgan" and image_axes(problem.shape)[2] == 3:
            options["generator"] = "residual"
    for name, value in options.items():
        kind = type(usual[name])
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            options[name] = value = float(value)
        if not isinstance(value, kind) or isinstance(value, bool) or (kind is float and not math.isfinite(value)):
            raise UsageError(f"The option {name} must have the type of {usual[name]!r}, got {value!r}.")
    for name in (*_COUNTS, "latent", "channels"):
        if name in options and options[name] < 1:
            raise UsageError(f"The option {name} must be at least 1, got {options[name]!r}.")
    _check_share(options.get("labelled", 0.0))
    if not 1.0 <= options.get("power", 2.0) <= 10.0:
        raise UsageError(f"The option power, q of W_q^q, must be from 1 to 10, got {options['power']!r}.")
    if options["warp"] < 0.0:
        raise UsageError(f"The option warp must be 0 or more, got {options['warp']!r}.")
    if options["learning_rate"] <= 0.0 or not 0.0 <= options["average"] < 1.0:
        raise UsageError("The learning rate must be greater than 0, and average at least 0 and below 1.")
    if options["optimizer"] not in ("adam", "sgd"):
        raise UsageError(f"Unknown optimizer {options['optimizer']!r}: say adam or sgd.")
    if options.get("balance", 0) not in (0, 1):
        raise UsageError(f"The option balance is 0 or 1, got {options['balance']!r}.")
    options["blocks"] = min(options["blocks"], options["steps"])
    # whole blocks: what is charged is what runs
    options["steps"] -= options["steps"] % options["blocks"]
    return options


def _known(given: Mapping[str, Any], names: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise UsageError(f"Unknown option {unknown[0]!r}: known are {', '.join(sorted(names))}.")


def _check_share(share: float) -> None:
    if not 0.0 <= share < 1.0:
        raise UsageError(f"The option labelled is a share of the budget, from 0 to below 1, got {share!r}.")


def generator_config(problem: Problem, options: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary `generators.build` reads."""
    config: dict[str, Any] = {
        "kind": options["generator"],
        "dim": problem.dim,
        "classes": problem.classes,
        "segments": [list(s) for s in problem.segments or ((0, problem.dim, "interval"),)],
        "latent": options["latent"],
    }
    if options["generator"] == "affine":
        return config
    if options["generator"] == "mlp":
        return {**config, "hidden": [512, 512] if problem.device == "cuda" else [256, 256]}
    if problem.shape is None:
        raise UsageError(f"A {options['generator']} generator makes images: state their shape.")
    shape = list(problem.shape)
    if options["generator"] == "deconv":
        return {**config, "shape": shape, "doublings": 2, "channels": options["channels"]}
    if options["warp"]:
        config.update(latent=options["latent"] + AFFINE, warp=options["warp"], warped="sampling")
    return {**config, "shape": shape, "channels": options["channels"]}
