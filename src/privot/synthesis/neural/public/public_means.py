"""Mixes means of public classes into released ones: post-processing of a release; no record comes here.

A released class mean is μ̃_c = μ_c + s·ξ, k coordinates with known noise s. The mean m_c of public images of the same
class has no noise, but it is the mean of other images. Of all mixtures (1 − α)·μ̃_c + α·m_c the one nearest to μ_c on
average has α = k·s²/‖μ̃_c − m_c‖², as long as that is below 1 (James & Stein 1961). It is too much for samples to
learn from: what is nearest on average is dull where classes differ. Training therefore takes half of it,

    α = ½·min(1, Σ_c k·s_c² / Σ_c ‖μ̃_c − m_c‖²),

which a hold-out chose (`lab/docs/notebook/public-images.md`). Where noise is small α is near 0, and where public images
are unlike the records it is small too: nobody has to say how alike they are. Below 0.2 public images are not used.

Equal numbers of classes need not be the same classes. Labels count only where the release itself says so: where the
released means, class by class, agree better with public ones than under 99 of 100 other orders of the classes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import DataError
from privot.mechanisms.embedding import FeatureMap
from privot.synthesis.neural.public.public_images import PublicImages

PART = 0.5
"""Of the mixture that is nearest on average, the part that is taken."""
LEAST = 0.2
"""The smallest α at which public images are used: below it the release says more, and no gain was measured."""
CHANCE = 0.01
"""The share of orders of the classes that may agree as well as the order of the labels."""
_ORDERS, _ALL_ORDERS_OF = 1_000, 5
"""Orders that are tried, where there are more classes than can be tried in every order."""
_BLOCK = 250
"""Images whose features are computed at once."""
MIXED, UNLABELLED, OTHER_CLASSES, DISAGREE = "mixed", "unlabelled", "other classes", "disagree"
LITTLE_NOISE = "little noise"
OUTCOMES = {
    MIXED: "the generator was first trained on means of their classes, and these were mixed into the released ones",
    UNLABELLED: "nothing was made of them, because they have no labels",
    OTHER_CLASSES: "nothing was made of them, because they have another number of classes than the records",
    DISAGREE: "nothing was made of them, because the release does not show that their classes are those of the records",
    LITTLE_NOISE: "nothing was made of them, because they would weigh less than a fifth beside the release",
}
"""What was made of public images, in words."""


@dataclass(frozen=True)
class PublicUse:
    """What a synthesis made of public images, for its report."""

    digest: str
    images: int
    outcome: str
    """One of `OUTCOMES`."""
    weight: float
    """α; 0 where nothing was mixed."""

    @property
    def words(self) -> str:
        """In words."""
        return OUTCOMES[self.outcome] + (f" ({100.0 * self.weight:.0f} %)" if self.outcome == MIXED else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> PublicUse | None:
        """Read what `to_dict` wrote; None where there is none."""
        if fields is None:
            return None
        try:
            read = cls(str(fields["digest"]), int(fields["images"]), str(fields["outcome"]), float(fields["weight"]))
            if read.outcome not in OUTCOMES or not 0.0 <= read.weight <= 1.0:
                raise ValueError("out of range")
            return read
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError("This does not describe a use of public images.") from None


def mix(
    features: FeatureMap, means: NDArray[np.float64], noise: NDArray[np.float64], public: PublicImages, device: str
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, PublicUse]:
    """Released class `means` (classes, size) with noise of `noise` (classes,) per coordinate, public means mixed in
    where that is likely to help; these public means, None where they are not; and what was done.
    """

    def left(outcome: str) -> tuple[NDArray[np.float64], None, PublicUse]:
        return means, None, PublicUse(public.digest, len(public), outcome, 0.0)

    if public.y is None or len(means) < 2:
        return left(UNLABELLED)
    if public.classes != len(means):
        return left(OTHER_CLASSES)
    own = public_means(features, public, device)
    if not same_classes(means, own):
        return left(DISAGREE)
    weight = mixing_weight(means, own, noise)
    if weight < LEAST:
        return left(LITTLE_NOISE)
    return (1.0 - weight) * means + weight * own, own, PublicUse(public.digest, len(public), MIXED, weight)


def mixing_weight(means: NDArray[np.float64], own: NDArray[np.float64], noise: NDArray[np.float64]) -> float:
    """α = ½·min(1, Σ k·s_c²/Σ‖μ̃_c − m_c‖²).

    >>> mixing_weight(np.array([[2.0, 0.0]]), np.zeros((1, 2)), np.array([1.0]))
    0.25
    """
    apart = float(((means - own) ** 2).sum())
    expected = means.shape[1] * float((noise**2).sum())
    return PART * min(1.0, expected / apart) if apart > 0.0 else PART


def same_classes(means: NDArray[np.float64], own: NDArray[np.float64]) -> bool:
    """Whether released and public means agree in the order of the labels better than in nearly all other orders.

    Agreement is Σ_c ⟨μ̃_c − μ̃, m_c − m⟩, both centred. Of 1,000 random orders (of all, up to five classes), at most one
    of a hundred may agree as well; of fewer than five classes no other.
    """
    classes = len(means)
    # table[i, j]: how well the released class i agrees with the public class j
    table = (means - means.mean(axis=0)) @ (own - own.mean(axis=0)).T
    orders = _orders(classes)
    found = table[np.arange(classes), orders].sum(axis=1)
    # the first order is that of the labels
    as_good = float((found >= found[0]).mean())
    return as_good <= max(CHANCE, 1.0 / math.factorial(classes) if classes <= _ALL_ORDERS_OF else 0.0)


@lru_cache(maxsize=4)
def _orders(classes: int) -> NDArray[np.int64]:
    """Orders of the classes, that of the labels first: all of them, or random ones, the same for everybody."""
    if classes <= _ALL_ORDERS_OF:
        return np.array(list(itertools.permutations(range(classes))))
    dice = np.random.default_rng(0)
    return np.stack([np.arange(classes), *(dice.permutation(classes) for _ in range(_ORDERS - 1))])


def public_means(features: FeatureMap, public: PublicImages, device: str) -> NDArray[np.float64]:
    """The mean of φ over the public images of each class, (classes, size); without noise."""
    assert public.y is not None
    assert public.classes is not None
    sums = np.zeros((public.classes, features.size))
    with torch.no_grad():
        for i in range(0, len(public), _BLOCK):
            rows = torch.from_numpy(public.x[i : i + _BLOCK].astype(np.float32)).to(device)
            np.add.at(sums, public.y[i : i + _BLOCK], features.features(rows).double().cpu().numpy())
    out: NDArray[np.float64] = sums / np.bincount(public.y)[:, None]
    return out
