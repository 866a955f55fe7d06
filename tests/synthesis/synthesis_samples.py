"""Small data and small trainings."""

from __future__ import annotations

import numpy as np

from privot.synthesis import Rules

BARS = (8, 8)
"""The shape of `bars`."""


def toy(records: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in the unit square, around (0.25, 0.25) and (0.75, 0.75)."""
    generator = np.random.default_rng(seed)
    y = np.arange(records) % 2
    x = np.clip(0.25 + 0.5 * y[:, None] + 0.05 * generator.standard_normal((records, 2)), 0, 1)
    return x, y


def rules(steps: int = 60, classes: int = 2) -> Rules:
    generator = {
        "kind": "mlp",
        "dim": 2,
        "classes": classes,
        "segments": [[0, 2, "interval"]],
        "latent": 4,
        "hidden": [16],
    }
    return Rules(generator, steps, 16, 1e-2)


def bars(records: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images of three classes: a bright bar on top, in the middle or below."""
    dice = np.random.default_rng(seed)
    y = np.arange(records) % 3
    x = 0.2 * dice.uniform(size=(records, *BARS))
    for c in range(3):
        x[y == c, 3 * c : 3 * c + 2] += 0.7
    return x.reshape(records, -1), y
