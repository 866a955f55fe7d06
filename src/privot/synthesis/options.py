"""The knobs of the strategies that pay step by step, with the rules that set them from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from privot.errors import UsageError
from privot.synthesis.generators import image_axes
from privot.synthesis.rules import SMALL_IMAGE, Problem

BLOCKS = 20
"""Into how many charges a job is cut, unless told: a kill loses the rest of one."""


def sinkhorn_options(problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
    """DP-Sinkhorn's: the published loss and cost; how many steps of how many records is ours.

    Given the number of steps T, noise and signal add up to √T/σ, and σ falls with the sampling rate until it no longer
    does (about half the sensitivity): so many steps on few records, as long as the device makes them.
    """
    cuda = problem.device == "cuda"
    usual: dict[str, Any] = {
        "steps": 60_000 if cuda else 2_000,
        "blocks": BLOCKS,
        "batch": 50 if cuda else 20,
        "points": 50 if cuda else 40,
        "clip": 0.5,
        "p": 0.4,
        "mixture": 1.0,
        "square": 1.0,
        "reg": 0.05 if problem.dim <= 1024 else 5.0,
        "sweeps": 100 if cuda else 50,
        "label_weight": 15.0,
        "balance": 1,
        "debias": "matched",
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "average": 0.999,
        "generator": "dcgan",
        "channels": 256 if cuda else 64,
        "latent": 12,
    }
    return _checked(usual, given, problem)


def sliced_options(problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
    """DP-SWD's: slices, fixed-size batches, the generator of its Table 3; each release may be trained on many times."""
    cuda = problem.device == "cuda"
    records = problem.records or 0
    usual: dict[str, Any] = {
        "steps": 1_000 if cuda else 100,
        "blocks": BLOCKS,
        "batch": max(1, min(records, 1_000 if cuda else 200)),
        "labels": "outer",
        "slices": min(1_000, problem.dim),
        "frame": "orthogonal",
        "bound": "exact",
        "repeats": 20,
        "label_share": 0.4,
        "optimizer": "adam",
        "learning_rate": 2e-3,
        "average": 0.0,
        "generator": "upsampling",
        "channels": 64,
        "latent": 10,
    }
    return _checked(usual, given, problem)


def _checked(usual: dict[str, Any], given: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    unknown = sorted(set(given) - set(usual))
    if unknown:
        raise UsageError(f"Unknown option {unknown[0]!r}: known are {', '.join(sorted(usual))}.")
    options = {**usual, **given}
    # on a processor small images, and rows that are no images anywhere, are made by fully connected layers
    if "generator" not in given:
        small = problem.device != "cuda" and problem.dim <= SMALL_IMAGE
        if problem.shape is None or small:
            options["generator"] = "mlp"
        elif options["generator"] == "dcgan" and image_axes(problem.shape)[2] == 3:
            options["generator"] = "residual"
    for name, value in options.items():
        kind = type(usual[name])
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            options[name] = value = float(value)
        if not isinstance(value, kind) or isinstance(value, bool) or (kind is float and not math.isfinite(value)):
            raise UsageError(f"The option {name} must be of the kind of {usual[name]!r}, got {value!r}.")
    for name in ("steps", "blocks", "batch", "points", "slices", "repeats", "sweeps", "latent", "channels"):
        if name in options and options[name] < 1:
            raise UsageError(f"The option {name} must be at least 1, got {options[name]!r}.")
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


def generator_config(problem: Problem, options: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary `generators.build` reads."""
    config: dict[str, Any] = {
        "kind": options["generator"],
        "dim": problem.dim,
        "classes": problem.classes,
        "segments": [list(s) for s in problem.segments or ((0, problem.dim, "interval"),)],
        "latent": options["latent"],
    }
    if options["generator"] == "mlp":
        return {**config, "hidden": [512, 512] if problem.device == "cuda" else [256, 256]}
    if problem.shape is None:
        raise UsageError(f"A {options['generator']} generator makes images: say their shape.")
    shape = list(problem.shape)
    if options["generator"] == "deconv":
        return {**config, "shape": shape, "doublings": 2, "channels": options["channels"]}
    return {**config, "shape": shape, "channels": options["channels"]}
