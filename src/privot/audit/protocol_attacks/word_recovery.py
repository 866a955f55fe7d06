"""Which words of a text come back from what FedWad, TriangleWad and a sketch send of their vectors. Open texts only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privot.audit.protocol_attacks.exchanges import play_fedwad, play_triangle
from privot.errors import DataError
from privot.federation.protocols.word_vectors import WordVectors
from privot.federation.sketches.signed_sketch import Sketch
from privot.mechanisms import SketchDesign

Array = NDArray[np.float64]
GAMMA = "FedWad, γ read as it is"
CLOSED = "FedWad, closed form"
ETA = "TriangleWad, η read as it is"
INVERTED = "TriangleWad, shared γ, inverted"


def word_rates(
    first: Sequence[str],
    second: Sequence[str],
    vectors: WordVectors,
    *,
    rounds: int = 20,
    deviation: float = 1.0,
    seed: int = 0,
) -> dict[str, float]:
    """By message, the share of retrieved words that stand in the first text, as published (TriangleWad, section 6.4).

    The texts' words are points, as many of each as the shorter has. What is retrieved is the word whose vector has the
    largest cosine with a point that was sent, or with what the attack makes of it. `deviation` is that of TriangleWad's
    normal γ, to be compared with the size of the vectors. Of two identical texts FedWad's last
    γ lies on the records themselves, so its closed form has nothing left to compute and is γ.
    """
    size = min(len(first), len(second))
    if size < 2:
        raise DataError("Each text needs at least two words that have vectors.")
    mu, nu = list(first[:size]), list(second[:size])
    x, y = vectors.cloud(mu), vectors.cloud(nu)
    federated = play_fedwad(x, y, rounds, seed=seed)
    own = federated.of_second[-1][1].distance
    shared = play_triangle(x, y, deviation * np.random.default_rng(seed).standard_normal(x.shape))
    sent = {
        GAMMA: federated.last_gamma,
        CLOSED: federated.by_the_other_side(y) if own > 1e-9 else federated.last_gamma,
        ETA: shared.of_first[0][1].points,
        INVERTED: shared.inverted(),
    }
    return {name: matching_rate(vectors.nearest(points), mu) for name, points in sent.items()}


def matching_rate(retrieved: Sequence[str], text: Sequence[str]) -> float:
    """The share of retrieved words that stand in the text; 0 where nothing was retrieved.

    >>> matching_rate(["cash", "tax", "moon"], ["tax", "cash"])
    0.6666666666666666
    """
    held = set(text)
    return float(np.mean([word in held for word in retrieved])) if retrieved else 0.0


def words_from_sketch(sketch: Sketch, design: SketchDesign, vectors: WordVectors, count: int) -> list[str]:
    """The `count` heaviest words of the non-negative combination of the vocabulary that explains a sketch best."""
    from scipy.optimize import nnls

    parts = design.coordinates(vectors.vectors)
    table = np.concatenate([design.weights[name] * parts[name] for name in parts], axis=1).T
    target = np.concatenate([design.weights[name] * np.asarray(sketch.value[name]) for name in parts])
    found, _ = nnls(table, target, maxiter=20 * table.shape[0])
    return [vectors.words[k] for k in np.argsort(found)[::-1][:count] if found[k] > 0.0]
