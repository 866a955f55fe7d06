"""Tries a first step without a release, so that a training that would fail is found before anything is paid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from privot.errors import PrivotError, UsageError
from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.features.class_means import class_means
from privot.synthesis.neural.features.fourier import let_go
from privot.synthesis.neural.generator_training.training_state import TrainingState, generated
from privot.synthesis.neural.generators.generator import Generator
from privot.synthesis.neural.generators.record_scale import RecordScale


def rehearse(features: FeatureMap, rules: Rules, classes: int, *, device: str = "cpu", seed: int = 0) -> None:
    """A first step of training against a mean embedding."""
    _check_rules(rules, "one sample per class")
    with _first_step("rules"):
        generator = TrainingState.start(rules, seed, device).generator
        _check_records(generator, classes, features.dim)
        # with gradients, as in training: without them other code would be tried
        labels = torch.arange(classes, device=device).repeat_interleave(rules.batch * generator.members)
        made = generated(generator, torch.zeros(len(labels), generator.latent, device=device), labels)
        groups = classes * generator.members
        means = class_means(features, RecordScale.of(features, device).to_records(made), groups)
        let_go(features)
    if means.shape != (groups, features.size):
        raise UsageError("The generator's samples do not have the features that are released.")


def rehearse_stream(rules: Rules, classes: int, dim: int, *, device: str = "cpu", seed: int = 0) -> None:
    """The generated points of a first step, for a training on a stream."""
    _check_rules(rules, "one sample")
    with _first_step("options"):
        training = TrainingState.start(rules, seed, device)
        _check_records(training.generator, classes, dim)
        # with gradients, as in training: without them other code would be tried
        rows = _rows(rules)
        made = generated(training.generator, *training.draw(rows))
    if made.shape != (rows, dim):
        raise UsageError("The generator's samples do not have the columns of the records.")


def _rows(rules: Rules) -> int:
    """How many points a step makes: n, and n·p more, for each of its samples."""
    options = rules.options
    return int(options.get("samples", 1)) * (rules.batch + int(rules.batch * float(options.get("p", 0.0))))


def _check_rules(rules: Rules, least: str) -> None:
    if min(rules.steps, rules.batch) < 1 or not 0.0 < rules.learning_rate < math.inf:
        raise UsageError(f"A training needs at least one step, {least}, and a learning rate above 0.")


def _check_records(generator: Generator, classes: int, dim: int) -> None:
    if (generator.classes, generator.dim) != (classes, dim):
        raise UsageError(
            f"The generator makes {generator.classes} classes of {generator.dim} columns, the records have "
            f"{classes} of {dim}."
        )


@contextmanager
def _first_step(knobs: str) -> Iterator[None]:
    """Turn any error of a generator that does not fit into one sentence."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, PrivotError):
            raise
        raise UsageError(
            f"The generator cannot take a first step ({type(error).__name__}): change its {knobs}."
        ) from None
