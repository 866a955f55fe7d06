"""Values of parties to a validation set: Shapley values of how close their pooled records come to it.

The worth of a coalition S is the share of the validation side's spread that its pooled records, each of weight 1,
explain,

    v(S) = 1 − T(S, V)/T(∅, V),     v(∅) = 0,

with T and T(∅, V) of `class_profiles`: 1 for records like V's, 0 for knowing only the mean of V, and below 0 for
records that are worse than that. The value of a party is its Shapley value in this game, so values sum to v(all) ≤ 1; a
single value may be above 1 if others are below 0. No vault is opened here.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from privot.common.declared import declared
from privot.errors import DataError, UsageError
from privot.federation.sketches.estimating import Shared
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.sketches.sketch_comparison import LEVEL, check_alike
from privot.federation.sketches.sketch_matrix import copies
from privot.federation.sketches.sketch_simulation import BY_CLASS, Means, Side, noise_free
from privot.guarantee import Guarantee
from privot.valuation.class_profiles import Profile, ProfileSums, transport_cost
from privot.valuation.class_shares import CommonShares, CountedShares, moved_by
from privot.valuation.labelled_records import Array, LabelledRecords, as_labelled
from privot.valuation.shapley import CoalitionPlan

DRAWS = 100
_METHOD: Literal["weibull"] = "weibull"
Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Contributions:
    """The values of k parties; arrays have one number per party, in their order, unless stated otherwise.

    value: Shapley values φ, high is useful; they sum to `worth`, v of all parties together
    error: (k, k), standard errors over random orders, of φ on the diagonal and of differences beside it; None if all
        coalitions were computed
    left_out: v(all) − v(all but this one)
    distance: √T(party, V), the distance of the party alone from the validation side, in the units of the records
    interval: (k, 2), 95 % over the privacy noise, and over random orders if there are any; None without noise
    decided: (k, k), whether the order of two parties is certain despite the noise (95 %, per pair); None as above
    """

    value: Array
    error: Array | None
    left_out: Array
    distance: Array
    worth: float
    spread: float
    interval: Array | None
    decided: NDArray[np.bool_] | None
    guarantees: tuple[Guarantee, ...]
    validation: Guarantee | None
    orders: int | None
    seed: int

    @property
    def from_zero(self) -> NDArray[np.bool_] | None:
        """Whether the sign of each value is certain despite the noise; None without noise."""
        return None if self.interval is None else np.asarray((self.interval[:, 0] > 0) | (self.interval[:, 1] < 0))


@declared(parties="list", validation="tuple|privot.valuation.labelled_records:Labelled")
def value_records(parties: Sequence[LabelledRecords], validation: LabelledRecords, seed: int = 0) -> Contributions:
    """Values of parties from their records themselves. The result has no privacy.

    Parameters
    ----------
    parties
        One tuple (x, y) per party: finite numbers (n_i, d) and whole numbers (n_i,) as labels.
    validation
        The validation set, a tuple (x, y) with d columns that holds every label of the parties.
    seed
        Seed of the random orders, which more than 10 parties need.

    Returns
    -------
    Contributions
        `value`, `error`, `left_out` and `distance` per party, `worth` of all; without intervals and guarantees: there
        is no noise.

    Raises
    ------
    UsageError
        If there is no party, or records are not a tuple (x, y).
    DataError
        If shapes, types or labels do not fit.

    Formal guarantees
    -----------------
    None: the result is computed from all records without noise. Treat it as confidential.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> good, bad, test = (generator.normal(size=(40, 2)) + 4.0 * y[:, None] for _ in range(3))
    >>> found = value_records([(good, y), (bad, 1 - y)], (test, y))
    >>> bool(found.value[0] > found.value[1])
    True
    """
    _check_some(parties)
    validation = as_labelled(validation, "The validation set")
    checked = [as_labelled(party, f"Party {k + 1}") for k, party in enumerate(parties)]
    for party in checked:
        party.check_beside(validation)
    names, middle = np.unique(validation.y), validation.x.mean(0)
    target = ProfileSums.of(validation, names, middle).profile(names)
    sums = [ProfileSums.of(party, names, middle) for party in checked]

    def profile(coalition: int) -> Profile:
        inside = [one for i, one in enumerate(sums) if coalition >> i & 1]
        pool = inside[0]
        for other in inside[1:]:
            pool = pool + other
        return pool.profile(names)

    plan = CoalitionPlan.of(len(parties), seed)
    costs = _costs(plan, profile, target)
    return _contributions(plan, costs, target.spread(), seed)


@declared(parties="list", validation="privot.federation.sketches.signed_sketch:Sketch")
def value_sketches(
    parties: Sequence[Sketch],
    validation: Sketch,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    tell: Tell | None = None,
) -> Contributions:
    """Values of parties from labelled sketches of one design.

    The sketch of a pool is the sum of its parties' sketches, noise included. Intervals come from simulations of the
    noise, whose law is public, around noise-free stand-ins. They cover the noise only, not the sampling of records.

    Parameters
    ----------
    parties
        One labelled sketch per party, from different releases.
    validation
        The labelled sketch of the validation side, which is no party.
    draws
        Number of simulations: 0 (no intervals) or at least 100.
    seed
        Seed of the random orders, which more than 10 parties need.
    tell
        Called with (draws done, all draws) to report progress.

    Returns
    -------
    Contributions
        `value`, `error`, `left_out`, `distance` and `interval` per party, `decided` per pair, `worth` of all.

    Raises
    ------
    UsageError
        If there is no party, or `draws` is neither 0 nor at least 100.
    DataError
        If sketches have no labels, different designs, or are copies of one release.

    Formal guarantees
    -----------------
    Post-processing of releases: no further privacy cost, and the guarantees of all sketches stay as they are.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0 or 0 < draws < 100:
        raise UsageError("The number of draws must be 0, or at least 100.")
    _check_some(parties)
    if not validation.public["classes"]:
        raise DataError("The validation sketch was made without labels: values need sketches made with classes.")
    everyone = [validation, *parties]
    for k, party in enumerate(parties):
        if party.digest() == validation.digest():
            raise DataError(
                f"Party {k + 1} and the validation side are the same release: the validation side must not be a party."
            )
        check_alike(validation, party)
    same = copies(parties)
    if same:
        raise DataError(f"Parties {same[0] + 1} and {same[1] + 1} are the same release: give each release once.")
    shared = Shared.of(*(sketch.public for sketch in everyone))
    sides = [Side(sketch, shared) for sketch in everyone]
    plan = CoalitionPlan.of(len(parties), seed)
    pools = _Pools(plan, sides)
    costs, spread = pools.costs([side.means for side in sides])
    found = _contributions(plan, costs, spread, seed)
    moved = None
    if draws:
        digest = hashlib.sha256(b"".join(bytes.fromhex(sketch.digest()) for sketch in everyone)).digest()
        generator = np.random.default_rng(np.frombuffer(digest, dtype="<u4"))
        rows = []
        for k in range(draws):
            clean = _stand_ins(sides, generator)
            noisy = [side.noised(means, generator) for side, means in zip(sides, clean, strict=True)]
            rows.append(_values(plan, *pools.costs(noisy)) - _values(plan, *pools.costs(clean, noisy=False)))
            if tell is not None:
                tell(k + 1, draws)
        moved = np.array(rows)
    return _with_noise(found, moved, tuple(s.guarantee for s in parties), validation.guarantee)


class _Pools:
    """The costs T(S, V) of coalitions of sketches, for the sketches' own means or for simulated ones."""

    def __init__(self, plan: CoalitionPlan, sides: list[Side]) -> None:
        self.plan, self.sides = plan, sides
        self.weights: dict[int, Array] = {}
        self.pools: dict[int, Side] = {}
        for coalition in plan.coalitions:
            inside = np.array([coalition >> i & 1 for i in range(plan.parties)], dtype=np.float64)
            records = inside * [side.records for side in sides[1:]]
            if coalition:
                self.weights[coalition] = records / records.sum()
                # a pool is a side like any other, with the records and the noise of all its parties
                pool = self.pools[coalition] = copy.copy(sides[1])
                pool.records = float(records.sum())
                pool.deviation = {
                    n: math.sqrt(
                        sum((w * s.deviation[n]) ** 2 for w, s in zip(self.weights[coalition], sides[1:], strict=True))
                    )
                    for n in sides[0].deviation
                }

    def costs(self, means: Sequence[Means], noisy: bool = True) -> tuple[dict[int, float], float]:
        """(T by coalition, T(∅, V)), from the means of the validation side and of every party after it."""
        profiles, target = self.profiles(means, noisy)
        return _costs(self.plan, profiles.__getitem__, target), target.spread()

    def profiles(self, means: Sequence[Means], noisy: bool = True) -> tuple[dict[int, Profile], Profile]:
        """The profiles of coalitions, with their shares as `class_shares` reads them, and of the validation side."""
        target = Profile.of_view(self.sides[0].view({n: means[0][n] for n in BY_CLASS}, noisy))
        # the other blocks are not needed, and projecting them onto the simplex takes time
        stacked = {n: np.stack([m[n] for m in means[1:]]) for n in BY_CLASS}
        seen = {}
        for coalition, pool in self.pools.items():
            pooled = {n: self.weights[coalition] @ block for n, block in stacked.items()}
            seen[coalition] = Profile.of_view(pool.view(pooled, noisy))

        parties = [_counted(seen[1 << i], side, noisy) for i, side in enumerate(self.sides[1:])]
        common = CommonShares.of(parties, _counted(target, self.sides[0], noisy))
        moved = np.stack([party.read(common) - party.share for party in parties])
        return {c: moved_by(profile, self.weights[c] @ moved) for c, profile in seen.items()}, target


def _counted(profile: Profile, side: Side, noisy: bool) -> CountedShares:
    """The shares of a side with the noise of a class's count, which is the sum over its knots."""
    noise = noisy * len(side.shared.knots) * side.deviation["shells"] ** 2
    return CountedShares.of(profile, side.parts, noise, side.records)


def _stand_ins(sides: Sequence[Side], generator: np.random.Generator) -> list[Means]:
    """Plausible noise-free means behind the sketches, drawn from the uncertainty that the noise leaves.

    Noise hides spread and differences, so its effect depends on how large they are: a single stand-in would not do.
    Features are shrunk around the mean of all by the length that noise adds: otherwise the noise of each party would
    count as a distance between parties.
    """
    drawn = []
    for side in sides:
        drawn.append(copy.copy(side))
        drawn[-1].means = side.noised(side.means, generator)
    weight = np.array([side.records for side in drawn])
    weight = weight / weight.sum()
    variance = 2.0 * np.array([side.deviation["features"] ** 2 for side in drawn])
    features = np.stack([side.means["features"] for side in drawn])
    middle, pooled = weight @ features, float(weight**2 @ variance)
    clean = drawn[0].shrunk(middle, pooled)
    out = []
    for k, side in enumerate(drawn):
        means = noise_free(side)
        there = means["shells"].reshape(side.parts, -1).sum(1, keepdims=True) > 0.0
        apart = side.shrunk(features[k] - middle, max(0.0, float(variance[k] * (1.0 - 2.0 * weight[k]) + pooled)))
        means["features"] = ((clean + apart).reshape(side.parts, -1) * there).ravel()
        out.append(means)
    return out


def _costs(plan: CoalitionPlan, profile: Callable[[int], Profile], target: Profile) -> dict[int, float]:
    """T(S, V) of every coalition, none below 0.

    The expected effect of noise on a squared gap is subtracted, so the estimate of a small cost is negative half the
    time, and the worth above 1. True costs are not negative: max(T̂, 0) is at least as close to T as T̂ is.
    """
    return {c: max(0.0, transport_cost(profile(c), target)) for c in plan.coalitions if c}


def _worths(costs: dict[int, float], spread: float) -> dict[int, float]:
    if not spread > 0.0:
        raise DataError("All validation records are equal, so no value is defined: give a validation set with spread.")
    worths = {0: 0.0} | {coalition: 1.0 - cost / spread for coalition, cost in costs.items()}
    if not all(map(math.isfinite, worths.values())):
        raise DataError("A party is too far from the validation side compared with its spread: check the units.")
    return worths


def _values(plan: CoalitionPlan, costs: dict[int, float], spread: float) -> Array:
    return plan.values(_worths(costs, spread))


def _contributions(plan: CoalitionPlan, costs: dict[int, float], spread: float, seed: int) -> Contributions:
    worths = _worths(costs, spread)
    return Contributions(
        value=plan.values(worths),
        error=plan.errors(worths),
        left_out=plan.left_out(worths),
        distance=np.sqrt([costs[1 << i] for i in range(plan.parties)]),
        worth=worths[plan.all_parties],
        spread=spread,
        interval=None,
        decided=None,
        guarantees=(),
        validation=None,
        orders=None if plan.orders is None else len(plan.orders),
        seed=seed,
    )


def _with_noise(
    found: Contributions, moved: Array | None, guarantees: tuple[Guarantee, ...], validation: Guarantee
) -> Contributions:
    """`found` with guarantees and, if `moved` (how far noise moves values) is given, with intervals."""
    found = replace(found, guarantees=guarantees, validation=validation)
    if moved is None:
        return found
    value = found.value
    apart = value[:, None] - value
    wide = np.zeros_like(apart)
    if found.error is not None and found.orders is not None:
        # standard errors come from few groups of orders: Student's quantile, not 1.96
        wide = found.error * float(stdtrit(found.orders / (2 * len(value)) - 1, 1.0 - LEVEL / 2.0))
    half = _half_width(moved, np.diag(wide))
    # a single party's value is the worth of all, at most 1; beside harmful parties a value may be larger
    highest = 1.0 if len(value) == 1 else math.inf
    decided = np.abs(apart) > _half_width(moved[:, :, None] - moved[:, None, :], wide)
    interval = np.stack([value - half, np.minimum(value + half, highest)], axis=1)
    return replace(found, interval=interval, decided=np.asarray(decided))


def _half_width(moved: Array, wide: Array) -> Array:
    """Half the width of the symmetric bootstrap interval (Hall 1988, "On symmetric bootstrap intervals").

    It is symmetric because noise hides spread, on stand-ins as well: a basic bootstrap interval would be shifted the
    wrong way. `wide` is the half width over random orders, which are independent of the noise: widths add in square.
    """
    by_noise = np.quantile(np.abs(moved), 1.0 - LEVEL, axis=0, method=_METHOD)
    return np.asarray(np.hypot(by_noise, wide))


def _check_some(parties: Sequence[object]) -> None:
    if not parties:
        raise UsageError("There must be at least one party.")
