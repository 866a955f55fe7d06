"""Values of parties to a validation set: Shapley values of how much nearer their pooled records come to it.

The worth of a coalition S is the share of the validation side's spread that its pooled records, each of weight 1,
explain,

    v(S) = 1 − T(S, V)/T(∅, V),     v(∅) = 0,

with T and T(∅, V) of `profiles`: 1 for records like V's, 0 for knowing nothing but V's middle, and below 0 for records
that are worse than that. The value of a party is its Shapley value in this game, so values sum to v(all) ≤ 1; a single
one may be above 1 where others are below 0.
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

from privot.errors import DataError, UsageError
from privot.federation.sketches.estimating import Shared
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.sketches.sketch_comparison import LEVEL, check_alike
from privot.federation.sketches.sketch_matrix import copies
from privot.federation.sketches.sketch_simulation import BY_CLASS, Means, Side, noise_free
from privot.guarantee import Guarantee
from privot.valuation.class_profiles import Profile, ProfileSums, transport_cost
from privot.valuation.labelled_records import Array, Labelled
from privot.valuation.shapley import CoalitionPlan

DRAWS = 100
_METHOD: Literal["weibull"] = "weibull"
Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Contributions:
    """One number a party, in their order, unless said otherwise.

    value: φ, high is useful; they sum to `worth`, v of all parties together
    error: (k, k), standard errors over random orders, of φ on the diagonal and of differences beside it; None where
        all coalitions were asked
    left_out: v(all) − v(all but this one)
    distance: √T(party, V), how far it is from the validation side by itself, in the units of the records
    interval: (k, 2), 95 % over the privacy noise, and over random orders where there are any; None without noise
    decided: (k, k), whether the noise leaves the order of two parties alone (95 %, each pair by itself); None as above
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
        """Whether the noise leaves the sign of a value alone."""
        return None if self.interval is None else np.asarray((self.interval[:, 0] > 0) | (self.interval[:, 1] < 0))


def value_records(parties: Sequence[Labelled], validation: Labelled, seed: int = 0) -> Contributions:
    """Values from records at hand: an exact answer about all of them, with no privacy."""
    _check_some(parties)
    for party in parties:
        party.check_beside(validation)
    names, middle = np.unique(validation.y), validation.x.mean(0)
    target = ProfileSums.of(validation, names, middle).profile(names)
    sums = [ProfileSums.of(party, names, middle) for party in parties]

    def profile(coalition: int) -> Profile:
        inside = [one for i, one in enumerate(sums) if coalition >> i & 1]
        pool = inside[0]
        for other in inside[1:]:
            pool = pool + other
        return pool.profile(names)

    plan = CoalitionPlan.of(len(parties), seed)
    costs = _costs(plan, profile, target)
    return _contributions(plan, costs, target.spread(), seed)


def value_sketches(
    parties: Sequence[Sketch],
    validation: Sketch,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    tell: Tell | None = None,
) -> Contributions:
    """Values from labelled sketches of one design: post-processing of releases, free of charge.

    A pool's sketch is the sum of its parties' sketches, noise included. Intervals come from `draws` simulations of the
    noise, whose law is public, around noise-free stand-ins; 0 leaves them out. They are over the noise alone: other
    records of the same parties would differ too.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 0 or 0 < draws < 100:
        raise UsageError("The number of draws must be 0, or at least 100.")
    _check_some(parties)
    if not validation.public["classes"]:
        raise DataError("The validation sketch was made without labels: values need sketches made with classes.")
    everyone = [validation, *parties]
    for k, party in enumerate(parties):
        if party.digest() == validation.digest():
            raise DataError(f"Party {k + 1} and the validation side are one and the same release: V is no party.")
        check_alike(validation, party)
    same = copies(parties)
    if same:
        raise DataError(f"Parties {same[0] + 1} and {same[1] + 1} are one and the same release: give each one once.")
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
            calm = _stand_ins(sides, generator)
            noisy = [side.noised(means, generator) for side, means in zip(sides, calm, strict=True)]
            rows.append(_values(plan, *pools.costs(noisy)) - _values(plan, *pools.costs(calm, noisy=False)))
            if tell is not None:
                tell(k + 1, draws)
        moved = np.array(rows)
    return _with_noise(found, moved, tuple(s.guarantee for s in parties), validation.guarantee)


class _Pools:
    """The costs T(S, V) of coalitions of sketches, for whatever means the sketches have: their own or drawn ones."""

    def __init__(self, plan: CoalitionPlan, sides: list[Side]) -> None:
        self.plan, self.sides = plan, sides
        self.weights: dict[int, Array] = {}
        self.pools: dict[int, Side] = {}
        for coalition in plan.coalitions:
            inside = np.array([coalition >> i & 1 for i in range(plan.parties)], dtype=np.float64)
            records = inside * [side.records for side in sides[1:]]
            if coalition:
                self.weights[coalition] = records / records.sum()
                # a pool is a side like any other, with all records and the noise of everybody in it
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
        target = Profile.of_view(self.sides[0].view({n: means[0][n] for n in BY_CLASS}, noisy))
        # of the other blocks nothing is needed, and bringing them to the simplex takes time
        stacked = {n: np.stack([m[n] for m in means[1:]]) for n in BY_CLASS}

        def profile(coalition: int) -> Profile:
            pooled = {n: self.weights[coalition] @ block for n, block in stacked.items()}
            return Profile.of_view(self.pools[coalition].view(pooled, noisy))

        return _costs(self.plan, profile, target), target.spread()


def _stand_ins(sides: Sequence[Side], generator: np.random.Generator) -> list[Means]:
    """Noise-free means that could be those behind the sketches, drawn as far off as noise may have put them.

    Noise hides spread and differences, so what it does depends on how much there is of them: no single stand-in would
    do. Features are shortened by what noise adds to their length, around the mean of all: the noise of each would
    otherwise count as a distance between them.
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
    calm = drawn[0].shrunk(middle, pooled)
    out = []
    for k, side in enumerate(drawn):
        means = noise_free(side)
        there = means["shells"].reshape(side.parts, -1).sum(1, keepdims=True) > 0.0
        apart = side.shrunk(features[k] - middle, max(0.0, float(variance[k] * (1.0 - 2.0 * weight[k]) + pooled)))
        means["features"] = ((calm + apart).reshape(side.parts, -1) * there).ravel()
        out.append(means)
    return out


def _costs(plan: CoalitionPlan, profile: Callable[[int], Profile], target: Profile) -> dict[int, float]:
    """T(S, V) of every coalition, none below 0.

    What noise adds to a squared gap is subtracted, which puts the estimate of a small cost below 0 half of the time,
    and a worth above 1. Costs are never below 0: max(T̂, 0) is at most as far from T as T̂, and needs no record.
    """
    return {c: max(0.0, transport_cost(profile(c), target)) for c in plan.coalitions if c}


def _worths(costs: dict[int, float], spread: float) -> dict[int, float]:
    if not spread > 0.0:
        raise DataError("The validation records all lie in one place: there is nothing to be worth.")
    worths = {0: 0.0} | {coalition: 1.0 - cost / spread for coalition, cost in costs.items()}
    if not all(map(math.isfinite, worths.values())):
        raise DataError("A party lies too far from the validation side for how little that spreads: check the units.")
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
        worth=worths[plan.everybody],
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
    """The same with guarantees and, given how far noise moves values, with intervals and decided orders."""
    found = replace(found, guarantees=guarantees, validation=validation)
    if moved is None:
        return found
    value = found.value
    apart = value[:, None] - value
    wide = np.zeros_like(apart)
    if found.error is not None and found.orders is not None:
        # errors come from a handful of groups of orders: Student's quantile, not 1.96
        wide = found.error * float(stdtrit(found.orders / (2 * len(value)) - 1, 1.0 - LEVEL / 2.0))
    half = _half_width(moved, np.diag(wide))
    # the value of the only party is the worth of all, at most 1; beside parties that do harm a value may be more
    highest = 1.0 if len(value) == 1 else math.inf
    decided = np.abs(apart) > _half_width(moved[:, :, None] - moved[:, None, :], wide)
    interval = np.stack([value - half, np.minimum(value + half, highest)], axis=1)
    return replace(found, interval=interval, decided=np.asarray(decided))


def _half_width(moved: Array, wide: Array) -> Array:
    """How far noise moves a value in 95 % of draws, either way (Hall 1988, "On symmetric bootstrap intervals").

    Either way, because noise hides spread, which is then taken for less than it is, on stand-ins as well: an interval
    turned round would lean the wrong way. `wide` is how far random orders do, independent of the noise: widths add in
    square.
    """
    by_noise = np.quantile(np.abs(moved), 1.0 - LEVEL, axis=0, method=_METHOD)
    return np.asarray(np.hypot(by_noise, wide))


def _check_some(parties: Sequence[object]) -> None:
    if not parties:
        raise UsageError("There must be at least one party.")
