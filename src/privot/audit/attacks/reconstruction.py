"""Reconstruction attacks on published protocols for distances: pure functions of the messages that are sent.

FedWad and TriangleWad send interpolants η = (1 − t)·x + t·T(x), T the optimal map to points γ. Each attack takes what a
party or a server holds and returns records; none of them sees the records that it reconstructs. Arrays have the shape
(points, dimensions), all weights are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privot.audit.statistics.one_to_one import assignment
from privot.errors import UsageError
from privot.federation.sketches.signed_sketch import Sketch
from privot.mechanisms import SketchDesign
from privot.mechanisms.sketching.private_sketch import noise_deviation

Array = NDArray[np.float64]


def distance(x: Array, y: Array) -> float:
    """W₂ of equally many points."""
    return float(np.sqrt(((x - y[assignment(x, y)]) ** 2).sum(1).mean()))


def invert_constant(eta: Array, gamma: Array, t: float) -> Array:
    """Invert constant defence data: T(x) = γ for every x, so x = (η − t·γ)/(1 − t), an affine map."""
    _check_share(t)
    return (eta - t * np.broadcast_to(gamma, eta.shape)) / (1.0 - t)


def invert_shared(eta: Array, gamma: Array, t: float) -> Array:
    """Invert shared random defence data of equal size: the optimal plan from η to γ *is* the plan from x to γ.

    η_i = (1 − t)x_i + t·γ_σ(i) makes Σ⟨η_i, γ_π(i)⟩ = (1 − t)Σ⟨x_i, γ_π(i)⟩ + tΣ⟨γ_σ(i), γ_π(i)⟩, and both sums are
    largest at π = σ: the first because σ is optimal, the second by the Cauchy–Schwarz inequality.
    """
    _check_share(t)
    return (eta - t * gamma[assignment(eta, gamma)]) / (1.0 - t)


def invert_fedwad(gamma: Array, own: Array, to_other: float, to_own: float) -> Array:
    """Invert FedWad at equality: all records of the other side, from `own` records, γ and both distances.

    γ lies on the geodesic, γ_i = x_i + s(y_σ(i) − x_i) with s = W(μ, γ)/(W(μ, γ) + W(γ, ν)), so
    x = y_σ + (γ − y_σ)(W(μ, γ) + W(γ, ν))/W(γ, ν).
    """
    if not to_own > 0.0:
        raise UsageError("The distance of γ to the attacker's own records must be greater than 0.")
    partner = own[assignment(gamma, own)]
    return partner + (gamma - partner) * (to_other + to_own) / to_own


def identically_distributional(
    gamma: Array, own: Array, to_other: float, to_own: float, *, rounds: int = 60, tolerance: float = 1e-9
) -> Array:
    """Eq. 5 of TriangleWad, against FedWad: points D with W(D, ν) and W(D, γ) equal to those of the other side.

    L(D) = |W(D, ν) − W(μ, ν)| + |W(D, γ) − W(μ, γ)|, minimised from D = γ moved a little away from ν, by subgradients
    with Polyak's step L/‖g‖² (its minimum is known to be 0). W(μ, ν) = `to_other` + `to_own` at equality.
    """
    target = to_other + to_own
    partner = own[assignment(gamma, own)]
    guess = gamma + 1e-3 * (gamma - partner)
    best, least = guess, np.inf
    for _ in range(rounds):
        loss, slope = 0.0, np.zeros_like(guess)
        for points, wanted in ((own, target), (gamma, to_other)):
            mapped = points[assignment(guess, points)]
            far = float(np.sqrt(((guess - mapped) ** 2).sum(1).mean()))
            loss += abs(far - wanted)
            if far > 0.0:
                slope += np.sign(far - wanted) * (guess - mapped) / (len(guess) * far)
        if loss < least:
            best, least = guess, loss
        squared = float((slope**2).sum())
        if loss < tolerance * max(target, 1e-300) or squared == 0.0:
            break
        guess = guess - (loss / squared) * slope
    return best


def learn_inverse(
    public: Array, t: float, draw: Callable[[tuple[int, int]], Array], ridge: float = 1e-2
) -> Callable[[Array], Array]:
    """Attack private defence data: the attacker simulates the protocol on public records with its own γ.

    From its pairs (η, x) it learns the best linear map from η to x (ridge regression), and applies it to a received η:
    denoising without the secret γ.
    """
    _check_share(t)
    gamma = draw((len(public), public.shape[1]))
    eta = (1.0 - t) * public + t * gamma[assignment(public, gamma)]
    centre_eta, centre = eta.mean(0), public.mean(0)
    a, b = eta - centre_eta, public - centre
    # in the dual form: as many equations as records, whatever the dimension
    gram = a @ a.T
    weights = np.linalg.solve(gram + ridge * float(np.trace(gram)) * np.eye(len(gram)), b)
    return lambda seen: centre + (seen - centre_eta) @ a.T @ weights


def match_candidates(eta: Array, candidates: Array) -> NDArray[np.int64]:
    """For each interpolant the candidate that it correlates with most: linkage when γ is secret.

    The plan picks the γ that points *towards* the record, so even the part that should hide it helps the attacker.
    """

    def standard(rows: Array) -> Array:
        centred = rows - rows.mean(1, keepdims=True)
        return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-300))

    return np.asarray(np.argmax(standard(eta) @ standard(candidates).T, axis=1))


def nearest_words(points: Array, vectors: Array) -> NDArray[np.int64]:
    """The word (row of `vectors`) with the largest cosine to each point: the text of a recovered embedding."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    return np.asarray(np.argmax(points @ unit.T, axis=1))


def from_counts(counts: Array, prototypes: Array, records: int) -> Array:
    """The best guess of `records` records from noisy counts: public prototypes in proportion to the counts."""
    held = np.maximum(np.asarray(counts, dtype=np.float64), 0.0)
    held = held if held.sum() > 0.0 else np.ones_like(held)
    exact = records * held / held.sum()
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: records - int(whole.sum())]] += 1
    return np.asarray(np.repeat(prototypes, whole, axis=0))


def from_sketch(sketch: Sketch, design: SketchDesign, records: int) -> Array:
    """The best guess of `records` records from a sketch: prototypes in proportion, moved to fit the features.

    The counterpart of eq. 5 for a sketch: points whose own sketch is the one that was sent. The move is the smallest
    one that gives the mean of the features, which is shrunk by the length that noise adds (James & Stein).
    """
    blocks = {name: np.asarray(block, dtype=np.float64) for name, block in sketch.value.items()}
    classes, size = max(1, design.classes), max(1.0, sketch.records)
    guess = from_counts(blocks["cells"], design.prototypes, records)
    mean = blocks["features"].reshape(classes, -1).sum(0) / size
    gap = mean - design.labelled(0).coordinates(guess)["features"].mean(0)
    noise = len(gap) * classes * (noise_deviation(sketch.public, "features") / size) ** 2
    square = float(gap @ gap)
    kept = max(0.0, 1.0 - noise / square) if square > 0.0 else 0.0
    return np.asarray(guess + np.linalg.pinv(design.matrix).T @ (kept * gap))


def membership_scores(sketch: Sketch, design: SketchDesign, rows: Array, public: Array) -> Array:
    """The linear log-likelihood ratio of each row's membership in a sketch; higher means more likely a member.

    A row moves the sums by v(x) − E v; with the covariance Σ of the sums without it (of the other records, estimated
    from public rows, and of the noise) the score is (v(x) − E v)ᵀ Σ⁻¹ (sums − n·E v).
    """

    def weighed(x: Array) -> Array:
        found = design.coordinates(x)
        return np.concatenate([design.weights[name] * found[name] for name in sketch.value], axis=1)

    size, known = sketch.records, weighed(public)
    centre = known.mean(0)
    covariance = size * np.cov(known.T) + float(sketch.public["sigma"]) ** 2 * np.eye(len(centre))
    seen = np.concatenate([design.weights[name] * np.asarray(sketch.value[name]) for name in sketch.value])
    return np.asarray((weighed(rows) - centre) @ np.linalg.solve(covariance, seen - size * centre))


def _check_share(t: float) -> None:
    if not 0.0 <= t < 1.0:
        raise UsageError(f"t must lie from 0 to below 1, got {t!r}.")
