"""Class profiles: shares, means and spread of the classes of a data set, which add up over pooled data sets.

Between two data sets whose classes c have shares p_c, means m_c and the spread W = E‖x − m_y‖² within classes,

    T(S, V) = min_π Σ π_cc′ (‖m_c − m′_c′‖² + λ‖m′_c − m′_c′‖²) + (√W − √W′)² + max(E, 0)
    E       = Σ p_c (‖m′_c − m′‖² − ‖m_c − m′‖²)          over the classes that both have

over plans π between the shares, m′_c and m′ the validation side's means, as in `record_scores`.

*The first two terms* are a lower bound on the label-aware transport cost between whole classes with these means and
spreads: for covariances Σ and Σ′, tr Σ + tr Σ′ − 2 tr(Σ^½ Σ′ Σ^½)^½ ≥ (√tr Σ − √tr Σ′)² (Gelbrich 1990 and
Cauchy–Schwarz; transport between mixtures class by class as in Delon & Desolneux 2020).

*E, the spread between classes that labels lost*, is for wrong labels, which mix classes: a share s of them draws every
mean towards the middle, and the lower bound sees s²B of that. Let the records labelled c be a mixture of the
validation side's classes k with weights w_ck, with as many labels and as many records of each class as there,
p_c = p′_c and Σ_c p_c w_ck = p′_k. Then m_c = Σ_k w_ck m′_k, and

    Σ p_c ‖m_c − m′_c‖² + E = 2 Σ p_c ⟨m′_c − m_c, m′_c − m′⟩ = Σ p_c w_ck ‖m′_c − m′_k‖²

where the right side is the cost of moving each record by the gap m′_c − m′_k between the class that its label names and
its own: linear in the share of wrong labels, and transport itself where classes are translates of each other and far
apart. E is 0 where labels are right, whatever the shares, and where classes of one size change names. Means that lie
nearer to m′ for another reason, as of dimmed images, are charged E as well.

A labelled sketch contains all of this, with noise of known size. Profiles are computed from sketches or from one's own
records; no vault is opened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from privot.common.extras import needing
from privot.errors import ConvergenceError, DataError
from privot.federation.sketches.sketch_simulation import View
from privot.valuation.labelled_records import LABEL_WEIGHT, Array, Labelled, Labels


@dataclass(frozen=True, eq=False)
class Profile:
    """Names, shares (sum 1) and means of classes, the variance of the noise in each coordinate of a mean, B and W.

    `between` is B = Σ p_c ‖m_c − m‖² and `within` W; noise is accounted for in both.
    """

    names: Labels
    share: Array
    means: Array
    noise: Array
    between: float
    within: float

    @classmethod
    def of_view(cls, view: View) -> Profile:
        """The profile of a labelled sketch, or of several pooled ones."""
        reading, classes = view.reading, view.classes
        assert classes is not None
        radius = reading.shared.radius
        # every class has the same noise in its sum, and the whole is the sum of the classes
        noise = radius**2 * reading.noise / len(classes.names) / classes.share**2
        means = classes.apart + radius * reading.features
        return cls(classes.names, classes.share, means, noise, classes.between, classes.within)

    def spread(self, label_weight: float = LABEL_WEIGHT) -> float:
        """T(∅, V) = W + (1 + λ) B: the cost if only the mean of V is known, and all mass is placed there."""
        return self.within + (1.0 + label_weight) * self.between


@dataclass(frozen=True, eq=False)
class ProfileSums:
    """Counts and sums per class, and Σ‖x‖², of records around a common centre; those of a pool are the sums."""

    count: Array
    first: Array
    second: float

    @classmethod
    def of(cls, data: Labelled, names: Labels, middle: Array) -> ProfileSums:
        """From labelled records whose labels are all among `names`."""
        z, which = data.x - middle, np.searchsorted(names, data.y)
        first = np.zeros((len(names), z.shape[1]))
        np.add.at(first, which, z)
        return cls(np.bincount(which, minlength=len(names)).astype(np.float64), first, float((z * z).sum()))

    def __add__(self, other: ProfileSums) -> ProfileSums:
        return ProfileSums(self.count + other.count, self.first + other.first, self.second + other.second)

    def profile(self, names: Labels) -> Profile:
        """Shares, means and spread, without noise."""
        there = self.count > 0
        count, first, total = self.count[there], self.first[there], float(self.count.sum())
        means, share = first / count[:, None], count / total
        middle = first.sum(0) / total
        between = float(share @ ((means - middle) ** 2).sum(1))
        within = self.second / total - float(share @ (means * means).sum(1))
        return Profile(names[there], share, means, np.zeros(len(count)), between, max(within, 0.0))


def transport_cost(pool: Profile, validation: Profile, label_weight: float = LABEL_WEIGHT) -> float:
    """T(S, V) as above. Squared gaps between noisy means are debiased, so that noise alone moves them by 0 on average.

    For a class that the validation side does not have, the pool's own mean stands for its label.
    """
    with needing("Valuation needs", "torch"):
        from privot.transport._exact import MAX_PIVOTS, network_simplex

    width = pool.means.shape[1]
    gaps = cdist(pool.means, validation.means, "sqeuclidean")
    gaps -= width * (pool.noise[:, None] + validation.noise)
    at = {int(name): k for k, name in enumerate(validation.names)}
    label, noise = pool.means.copy(), pool.noise.copy()
    for k, name in enumerate(pool.names):
        if int(name) in at:
            label[k], noise[k] = validation.means[at[int(name)]], validation.noise[at[int(name)]]
    apart = cdist(label, validation.means, "sqeuclidean") - width * (noise[:, None] + validation.noise)
    same = pool.names[:, None] == validation.names
    cost = gaps + label_weight * np.where(same, 0.0, np.maximum(apart, 0.0))
    if not np.isfinite(cost).all():
        # the solver would hang or crash
        raise DataError("The sketches hold numbers too large to compare: ask their makers for new ones.")
    # the solver's tolerance is absolute: it would treat small numbers as 0
    size = float(np.abs(cost).max()) or 1.0
    # there are thousands of small problems: the checks around the solver would take longer than the solver
    share = validation.share * (pool.share.sum() / validation.share.sum())
    _, moved, _, _, code = network_simplex()(pool.share, share, np.ascontiguousarray(cost / size), MAX_PIVOTS, 1)
    if code != 1:
        raise ConvergenceError(f"The network simplex stopped before its optimum (code {code}).")
    widened = (math.sqrt(pool.within) - math.sqrt(validation.within)) ** 2
    return size * float(moved) + widened + max(0.0, spread_lost(pool, validation))


def spread_lost(pool: Profile, validation: Profile) -> float:
    """E as above, debiased: how much nearer to the middle m′ the pool's classes lie than those of the same name.

    The noise of m′ is in both squares and cancels, except for the share p′_c of it that is the noise of m′_c itself.
    """
    _, mine, theirs = np.intersect1d(pool.names, validation.names, assume_unique=True, return_indices=True)
    middle, width = validation.share @ validation.means, pool.means.shape[1]
    wide = ((validation.means[theirs] - middle) ** 2).sum(1)
    wide -= width * validation.noise[theirs] * (1.0 - 2.0 * validation.share[theirs])
    narrow = ((pool.means[mine] - middle) ** 2).sum(1) - width * pool.noise[mine]
    return float(pool.share[mine] @ (wide - narrow))
