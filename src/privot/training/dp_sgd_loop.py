"""DP-SGD as a loop over releases: the vault releases noisy gradients, and everything here is post-processing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from privot.accounting.accountants.running_accountant import CountedEpsilon, RunningAccountant
from privot.common.arguments import check_count, check_positive
from privot.errors import UsageError, brief
from privot.guarantee import Guarantee, Standing
from privot.mechanisms.gradients.dp_sgd import ClippedGradients, default_sampling, sigma_for_target
from privot.mechanisms.gradients.gradient_function import Gradients, Query
from privot.mechanisms.unproven.published_gradients import PublishedGradients
from privot.vault import Vault

if TYPE_CHECKING:
    from privot.release import Release

Array = NDArray[np.float64]
Variant = Literal["honest", "published"]


@dataclass(frozen=True, eq=False)
class Training:
    """The result of `train`: public weights, the guarantee that the vault was charged for, and the accountants."""

    weights: Array
    guarantee: Guarantee
    accountants: tuple[RunningAccountant, ...]
    variant: Variant
    steps: int

    def counts(self, delta: float) -> list[CountedEpsilon]:
        """ε of every accountant at `delta`, each with its adjacency, standing and meaning.

        The standing is that of accounting for the noisy gradients. The published variant releases more than those
        (batch statistics, if the model has any), so no count of it is proven.
        """
        found = [a.count(delta) for a in self.accountants]
        return found if self.variant == "honest" else [replace(c, standing=Standing.UNPROVEN) for c in found]


def train(
    vault: Vault,
    gradients: Gradients,
    weights: Array,
    *,
    sigma: float | None = None,
    target_epsilon: float | None = None,
    clip_norm: float,
    sampling_rate: float,
    steps: int,
    learning_rate: float,
    purpose: str,
    expected_batch_size: float | None = None,
    momentum: float = 0.0,
    variant: Variant = "honest",
    keep: float = 0.1,
    accountants: Sequence[RunningAccountant] = (),
    allow_unproven: bool = False,
    delta: float | None = None,
    progress: Callable[[int, Array], None] | None = None,
) -> Training:
    """Train with DP-SGD for `steps` steps from `weights`; all steps are charged before the first.

    Parameters
    ----------
    vault
        The records, (records, columns), with labels.
    gradients
        A public function from weights and records to gradients, such as `ModelGradients`.
    weights
        Initial weights, (size,); public.
    sigma
        Standard deviation of the noise; it is not multiplied by `clip_norm`.
    target_epsilon
        In place of `sigma`: the ε at `delta` that all steps together may cost; the noise is calibrated to it. Of the
        variant "honest" only.
    clip_norm
        Largest norm of one record's gradient: longer ones are clipped.
    sampling_rate
        Probability with which each record is in a sample (Poisson sampling under add-remove); under replace-one the
        share of records in a sample of fixed size.
    steps, learning_rate, momentum
        Of gradient descent.
    purpose
        What the ledger records as the reason of the charge.
    expected_batch_size
        The public number that a noisy sum of gradients is divided by. The variant "honest" needs it.
    variant
        "honest": sums of per-record clipped gradients plus N(0, `sigma`²). "published": see `PublishedGradients`, the
        clipped mean of a sample, without a theorem.
    keep
        Of `PublishedGradients`.
    accountants
        Each counts every step. Accountants that use gradient distances make the run UNPROVEN: they compute their ε from
        records, without noise.
    allow_unproven
        Required for the published variant and for accountants that use gradient distances.
    delta
        The δ at which the guarantee is stated; `target_epsilon` needs it.
    progress
        Called after every step with its number, from 1, and the weights, which are public. It must not change them.

    Returns
    -------
    Training
        `weights`, `guarantee`, `accountants`, `steps`; `counts(delta)` is ε of every accountant.

    Raises
    ------
    UsageError
        If a number is out of range, the variant is unknown, or `expected_batch_size` is missing.
    BudgetError
        If the vault's budget does not cover all steps; no record is read then.
    UnprovenError
        If `allow_unproven` is required and not set.

    Formal guarantees
    -----------------
      * "honest": the composition of `steps` sampled Gaussian mechanisms with sensitivity `clip_norm` (twice that under
        replace-one); the sampler that runs is the one that is counted;
      * weights are post-processing of the noisy sums.
    """
    check_count("The number of steps", steps)
    check_positive("The learning rate", learning_rate)
    if variant not in ("honest", "published"):
        raise UsageError(f"Unknown variant {brief(variant)}: use honest or published.")
    if variant == "honest" and expected_batch_size is None:
        raise UsageError("The honest variant needs expected_batch_size, the public number that sums are divided by.")
    if expected_batch_size is not None:
        check_positive("The expected batch size", expected_batch_size)
    witnesses = tuple(a for a in accountants if a.need_distances)
    others = [a for a in accountants if not a.need_distances]
    query = Query(weights)
    sampling = default_sampling(vault.facts.adjacency, sampling_rate, vault.facts.records)
    if sigma is None:
        if target_epsilon is None or delta is None or variant != "honest":
            raise UsageError("Give sigma, or for the honest variant target_epsilon and delta.")
        sigma = sigma_for_target(
            target_epsilon=target_epsilon,
            target_delta=delta,
            clip_norm=clip_norm,
            sampling=sampling,
            steps=steps,
            adjacency=vault.facts.adjacency,
        )
    elif target_epsilon is not None:
        raise UsageError("Give sigma or target_epsilon, not both.")
    mechanism: ClippedGradients | PublishedGradients
    if variant == "honest":
        mechanism = ClippedGradients(gradients, query, sigma, clip_norm, sampling, steps, witnesses)
    else:
        mechanism = PublishedGradients(gradients, query, sigma, clip_norm, sampling, steps, keep, witnesses)
    event = mechanism.event(vault.facts)
    stream = vault.stream(mechanism, purpose=purpose, allow_unproven=allow_unproven, delta=delta)
    velocity = np.zeros_like(query.weights)
    for number, release in enumerate(stream, 1):
        for accountant in others:
            accountant.step(event)
        velocity = momentum * velocity + _gradient(release, expected_batch_size if variant == "honest" else None)
        query.set(query.weights - learning_rate * velocity)
        if progress is not None:
            progress(number, query.weights)
    return Training(query.weights, stream.guarantee, tuple(accountants), variant, steps)


def _gradient(release: Release, divisor: float | None) -> Array:
    """The released vector, divided by `divisor` if it is a sum."""
    value = release.value
    if not isinstance(value, np.ndarray):
        raise UsageError(f"Expected one vector per step of training, got {type(value).__name__}.")
    return np.asarray(value) if divisor is None else np.asarray(value) / divisor
