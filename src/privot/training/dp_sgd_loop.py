"""DP-SGD as a loop over releases: the vault hands out noisy gradients, everything here is post-processing of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from privot.accounting.accountants import Count, RunningAccountant
from privot.common.arguments import check_count, check_positive
from privot.errors import UsageError, brief
from privot.guarantee import Guarantee, Standing
from privot.mechanisms.gradients.dp_sgd import ClippedGradients, Gradients, PublishedGradients, Query, default_sampling
from privot.vault import Vault

if TYPE_CHECKING:
    from privot.release import Release

Array = NDArray[np.float64]
Variant = Literal["honest", "published"]


@dataclass(frozen=True, eq=False)
class Training:
    """What came out: public weights, the guarantee the vault was charged for, and what every accountant says."""

    weights: Array
    guarantee: Guarantee
    accountants: tuple[RunningAccountant, ...]
    variant: Variant
    steps: int

    def counts(self, delta: float) -> list[Count]:
        """ε of every accountant at `delta`, each with its adjacency, standing and meaning.

        The standing is that of counting the noisy gradients. The published variant lets more out than those (batch
        statistics, if the model has any), so nothing that is said of it is proven.
        """
        found = [a.count(delta) for a in self.accountants]
        return found if self.variant == "honest" else [replace(c, standing=Standing.UNPROVEN) for c in found]


def train(
    vault: Vault,
    gradients: Gradients,
    weights: Array,
    *,
    sigma: float,
    clip: float,
    rate: float,
    steps: int,
    learning_rate: float,
    purpose: str,
    lot: float | None = None,
    momentum: float = 0.0,
    variant: Variant = "honest",
    keep: float = 0.1,
    accountants: Sequence[RunningAccountant] = (),
    allow_unproven: bool = False,
    delta: float | None = None,
) -> Training:
    """Train for `steps` steps from `weights`, all charged before the first.

    `honest`: sums of per-example clipped gradients of a Poisson sample (add-remove; fixed-size under replace-one) plus
    N(0, `sigma`²), divided by the public number `lot`, the expected sample. `sigma` is the noise's standard deviation,
    not a multiple of `clip`. `published`: see `PublishedGradients`; the mean of the sample, so no `lot`.

    Accountants that look at gradients make the run UNPROVEN: what they answer is computed from records without noise.
    """
    check_count("The number of steps", steps)
    check_positive("The learning rate", learning_rate)
    if variant not in ("honest", "published"):
        raise UsageError(f"Unknown variant {brief(variant)}: say honest or published.")
    if variant == "honest" and lot is None:
        raise UsageError("Say lot, the public number that a sum of gradients is divided by (the expected sample).")
    if lot is not None:
        check_positive("The lot", lot)
    witnesses = tuple(a for a in accountants if a.need_distances)
    others = [a for a in accountants if not a.need_distances]
    query = Query(weights)
    sampling = default_sampling(vault.facts.adjacency, rate, vault.facts.records)
    mechanism: ClippedGradients | PublishedGradients
    if variant == "honest":
        mechanism = ClippedGradients(gradients, query, sigma, clip, sampling, steps, witnesses)
    else:
        mechanism = PublishedGradients(gradients, query, sigma, clip, sampling, steps, keep, witnesses)
    event = mechanism.event(vault.facts)
    stream = vault.stream(mechanism, purpose=purpose, allow_unproven=allow_unproven, delta=delta)
    velocity = np.zeros_like(query.weights)
    for release in stream:
        for accountant in others:
            accountant.step(event)
        velocity = momentum * velocity + _gradient(release, lot if variant == "honest" else None)
        query.set(query.weights - learning_rate * velocity)
    return Training(query.weights, stream.guarantee, tuple(accountants), variant, steps)


def _gradient(release: Release, lot: float | None) -> Array:
    """The released vector as a mean gradient."""
    value = release.value
    if not isinstance(value, np.ndarray):
        raise UsageError("A step of training releases one vector.")
    return np.asarray(value) if lot is None else np.asarray(value) / lot
