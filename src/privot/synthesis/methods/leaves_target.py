"""Means that the light of leaves is learned from: released ones, drawn towards what leaves without light have.

Light that is learned from noise makes pictures worse than no light. The estimator of James & Stein (1961) trusts a
released mean as far as it is further from the pictures' own mean than its noise alone would take it. This is
post-processing: it takes a release, and pictures that no record had a part in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.methods.embedding_training import Target
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.features.class_means import class_means
from privot.synthesis.neural.generator_training.training_state import TrainingState, generated
from privot.synthesis.neural.generators.record_scale import RecordScale

_PICTURES, _ROWS = 2_000, 500


def leaves_target(target: Target, rules: Rules, seed: int, device: str) -> Target:
    """`target` with its means drawn towards the mean of pictures before any light is learned."""
    return replace(
        target, means=shrunk(target.means, _first_mean(target.features, rules, seed, device), target.weights)
    )


def shrunk(means: NDArray[np.float64], start: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """b + max(0, 1 − ν_c²/‖μ̃_c − b‖²)·(μ̃_c − b) for every class c.

    Parameters
    ----------
    means
        Released, (classes, size).
    start
        b, (size,).
    weights
        1/(1 + ν_c²) for noise of norm ν_c (`Target`), (classes,).

    Returns
    -------
    NDArray
        (classes, size).

    Examples
    --------
    >>> shrunk(np.array([[2.0, 0.0], [0.5, 0.0]]), np.zeros(2), np.array([0.5, 0.5])).tolist()
    [[1.5, 0.0], [0.0, 0.0]]
    """
    apart = means - start
    noise = 1.0 / weights - 1.0
    trust = np.maximum(0.0, 1.0 - noise / np.maximum(np.square(apart).sum(axis=1), 1e-300))
    out: NDArray[np.float64] = start + trust[:, None] * apart
    return out


def _first_mean(features: FeatureMap, rules: Rules, seed: int, device: str) -> NDArray[np.float64]:
    """The mean of φ over pictures of the generator that training starts from; the same for the same seed."""
    state = TrainingState.start(rules, seed, device)
    scale, total = RecordScale.of(features, device), np.zeros(features.size)
    state.generator.eval()
    with torch.no_grad():
        for _ in range(0, _PICTURES, _ROWS):
            z, labels = state.draw(_ROWS)
            made = scale.to_records(generated(state.generator, z, labels))
            total += class_means(features, made, 1, {})[0].double().cpu().numpy() * _ROWS / _PICTURES
    return total
