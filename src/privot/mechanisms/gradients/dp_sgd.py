"""Releases noisy sums of clipped gradients of a model's public weights (DP-SGD); it shows nothing else of a record.

The training loop runs outside the vault. Between two releases it puts the current weights, which are public because
they follow from earlier releases, into the mechanism's `Query`; the mechanism calls a *public* function for gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.calibration import calibrate
from privot.accounting.events import Event, Gaussian, Sampled, repeated
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.common import arguments
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.gradients.clipped_sums import MAX_SAMPLE, clipped_sum, float_of
from privot.mechanisms.gradients.dp_sgd_terms import (
    LEFT_OUT,
    check_clip_norm,
    check_fields,
    check_terms,
    event_parts,
    tell_witnesses,
)
from privot.mechanisms.gradients.gradient_function import CHUNK, Array, Gradients, Query
from privot.mechanisms.gradients.gradient_trial import try_gradients
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.noise import NoiseSource
from privot.noise.adding import LARGEST_RATIO, add_noise, check_ratio

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ClippedGradients:
    """DP-SGD: Σ over a Poisson sample of g_i·min(1, C/‖g_i‖), plus N(0, σ²) in every coordinate.

    The *sum* is released: the training loop divides it by a public number, the expected batch size, never by the
    size of the sample. `for_target` chooses σ for a target (ε, δ).

    Parameters
    ----------
    gradients
        A public function that gives one gradient per record, of shape (records, parameters).
    query
        The public weights, of shape (parameters,), that the next gradient is taken at.
    sigma
        σ, the standard deviation of the noise; not a multiple of `clip_norm`.
    clip_norm
        C, the largest norm of one record's gradient.
    sampling
        `Poisson` under add-remove, `FixedSize` under replace-one. The object that draws the sample is the one that the
        accountant counts.
    steps
        How many sums are released for one charge.
    witnesses
        Accountants that look at gradients. They receive distances between clipped gradients, without noise.
    labels
        Whether the loss looks at labels.

    Raises
    ------
    UsageError
        If a parameter is out of range; and before anything is paid, if the gradients fail on public rows, or rounding
        could outgrow its margin.

    Notes
    -----
    Formal guarantees, add-remove neighbours, Poisson sampling (replace-one: fixed size, Δ = 2C):
      * a record enters the sum through its own gradient only, and that is clipped to C(1 − 1e-6); gradients are added
        as whole numbers (`clipped_sums`), so the sum is exact for every sample. The rounding that is left, to float64
        and to the grid on which noise is added, stays below the margin of 1e-6 for every sample of fewer than 2³¹
        records, or the release is refused before it is paid;
      * the function promises that a gradient depends on its record alone, not on the record's place or on other
        records; the function is tried on public rows before anything is paid (`try_gradients`);
      * a gradient that is not finite counts as 0, so no record can spoil the release;
      * an empty sample is released as noise alone.

    With any witnesses the standing is UNPROVEN, because their numbers are computed from the records without noise.

    References
    ----------
    Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar & Zhang 2016, "Deep learning with differential privacy".

    Examples
    --------
    >>> from privot import Vault
    >>> class Squares:  # the loss ‖w − x‖²/2, whose gradient is w − x
    ...     size = 2
    ...     def each(self, weights, rows, labels):
    ...         return weights - rows
    >>> vault = Vault(np.eye(2), clip=1.0, adjacency="add-remove", budget=(1.0, 1e-5))
    >>> mechanism = ClippedGradients.for_target(
    ...     Squares(), Query(np.zeros(2)), target_epsilon=1.0, target_delta=1e-5, clip_norm=1.0,
    ...     sampling=Poisson(0.1), steps=10, adjacency="add-remove", labels=False,
    ... )
    >>> stream = vault.stream(mechanism, purpose="ten steps")
    >>> next(stream).value.shape, 0.99 < stream.guarantee.epsilon() <= 1.0
    ((2,), True)
    """

    gradients: Gradients
    query: Query
    sigma: float
    clip_norm: float
    sampling: Sampling
    steps: int = 1
    witnesses: tuple[RunningAccountant, ...] = ()
    labels: bool = True
    """Whether the loss looks at labels; where it does not, every label is 0 and the vault needs none."""
    _tried: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    """Columns for which the gradients were tried on public rows."""

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def for_target(
        cls,
        gradients: Gradients,
        query: Query,
        *,
        target_epsilon: float,
        target_delta: float,
        clip_norm: float,
        sampling: Sampling,
        steps: int,
        adjacency: Adjacency | str,
        witnesses: tuple[RunningAccountant, ...] = (),
        labels: bool = True,
    ) -> ClippedGradients:
        """The mechanism whose `steps` steps together cost at most (`target_epsilon`, `target_delta`).

        σ exceeds the smallest that meets the target by at most two parts in ten thousand (`sigma_for_target`). The
        other parameters are those of the class; `adjacency` is the vault's.

        Raises
        ------
        UsageError
            If a parameter is out of range, or no σ meets the target.
        """
        sigma = sigma_for_target(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            clip_norm=clip_norm,
            sampling=sampling,
            steps=steps,
            adjacency=adjacency,
        )
        return cls(gradients, query, sigma, clip_norm, sampling, steps, witnesses, labels)

    @property
    def needs(self) -> Needs:
        """Labels, unless the loss needs none."""
        return Needs(labels=self.labels)

    @property
    def standing(self) -> Standing:
        """PROVEN without witnesses."""
        return Standing.UNPROVEN if self.witnesses else Standing.PROVEN

    @property
    def seed(self) -> int | None:
        """None: nothing public is random here."""
        return None

    def event(self, facts: Facts) -> Event:
        """What one step costs: a sampled Gaussian whose sensitivity is C (add-remove) or 2C (replace-one)."""
        # before anything is paid for: noise this small could not be added safely to a sum of about a sample
        check_ratio(self.clip_norm, self.sigma)
        check_terms(self.sampling, facts, self.sigma, self.clip_norm, self.gradients.size)
        if facts.dim not in self._tried:
            try_gradients(self.gradients, self.query.weights, facts.dim, (self.labels and facts.classes) or 1)
            self._tried.add(facts.dim)
        return Sampled(
            Gaussian(self.sigma, facts.adjacency.sensitivity(self.clip_norm), facts.adjacency), self.sampling
        )

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Array, Mapping[str, Any]]:
        """The noisy sum, of shape (parameters,)."""
        sampled, gaussian = event_parts(event)
        indices = sampled.sampling.draw(noise, records.count)
        if len(indices) > MAX_SAMPLE:
            # cannot be checked before paying, since the number is private (`docs/sharp-edges.md`)
            raise UsageError(
                f"A sample of more than {MAX_SAMPLE} records cannot be summed exactly: use a smaller sampling rate."
            )
        clip = gaussian.sensitivity / gaussian.adjacency.sensitivity(1.0)
        bound, total = clip * (1.0 - MARGIN), np.zeros(self.gradients.size, dtype=np.int64)
        norms: list[float] = []
        for each, used in self._each(records, indices):
            part, lengths = clipped_sum(each, bound, used)
            total += part
            norms.extend(lengths.tolist() if self.witnesses else ())
        if self.witnesses:
            # leaving one record out moves the sum by its own clipped gradient
            tell_witnesses(self.witnesses, event, norms[:LEFT_OUT])
        value = add_noise(_within_reach(float_of(total, bound), gaussian.sigma), noise, gaussian.sigma)
        return value, {"mechanism": "parameters", "sigma": gaussian.sigma, "clip": clip, "step": step}

    def _each(self, records: Records, indices: NDArray[np.int64]) -> Iterator[tuple[Array | Tensor, int]]:
        """Gradients in blocks of CHUNK rows, each with how many rows belong to records; the other rows are zeros."""
        # one round for an empty sample too: otherwise timing would reveal it
        for start in range(0, max(1, len(indices)), CHUNK):
            part = indices[start : start + CHUNK]
            # always the same number of rows: with another number a product may round differently, and at a kink of the
            # loss the last bit can change the whole gradient of *another* record
            rows, labels = np.zeros((CHUNK, records.facts.dim)), np.zeros(CHUNK, dtype=np.int64)
            rows[: len(part)] = records.rows(part)
            if self.labels:
                labels[: len(part)] = records.labels(part)
            each = self.gradients.each(self.query.weights, rows, labels)
            if tuple(each.shape) != (CHUNK, self.gradients.size):
                raise UsageError("The gradients must have one row per record, of shape (records, parameters).")
            yield each, len(part)


def _within_reach(total: Array, sigma: float) -> Array:
    """Coordinates clamped to the range to which noise can be added safely; clamping does not increase Δ."""
    bound = LARGEST_RATIO * sigma * (1.0 - 1e-9)
    return np.asarray(np.clip(total, -bound, bound))


def sigma_for_target(
    *,
    target_epsilon: float,
    target_delta: float,
    clip_norm: float,
    sampling: Sampling,
    steps: int,
    adjacency: Adjacency | str,
) -> float:
    """The σ with which `steps` steps of DP-SGD cost at most (ε, δ).

    Parameters
    ----------
    target_epsilon, target_delta
        What all steps together may cost.
    clip_norm
        C, the largest norm of one record's gradient.
    sampling
        How every step draws its records.
    steps
        How many sums are released.
    adjacency
        "add-remove" (Δ = C) or "replace-one" (Δ = 2C).

    Returns
    -------
    float
        σ, the standard deviation of the noise. It exceeds the smallest that meets the target by at most two parts in
        ten thousand. The accountant counted this very σ, and it meets the target.

    Raises
    ------
    UsageError
        If a parameter is out of range, or no σ meets the target.

    Examples
    --------
    >>> sigma = sigma_for_target(
    ...     target_epsilon=1.0, target_delta=1e-5, clip_norm=1.0, sampling=Poisson(0.01), steps=1000,
    ...     adjacency="add-remove",
    ... )
    >>> round(sigma, 1)
    1.4
    """
    adjacency = Adjacency.parse(adjacency)
    check_clip_norm(clip_norm)
    if not isinstance(sampling, Poisson | FixedSize):
        raise UsageError("The sampling must be Poisson or FixedSize.")
    count, sensitivity = arguments.whole("The number of steps", steps, 1), adjacency.sensitivity(clip_norm)

    def whole(unit: float) -> Event:
        # in units of Δ, so that the search begins at σ = Δ; the event counted here is to the last bit the one charged
        return repeated(Sampled(Gaussian(unit * sensitivity, sensitivity, adjacency), sampling), count)

    return calibrate(whole, epsilon=target_epsilon, delta=target_delta) * sensitivity


def default_sampling(adjacency: Adjacency, sampling_rate: float, records: int | None) -> Sampling:
    """Poisson at `sampling_rate` under add-remove; under replace-one a fixed size of about as many records."""
    if adjacency is Adjacency.ADD_REMOVE:
        return Poisson(sampling_rate)
    if records is None:
        raise UsageError("Fixed-size samples are drawn from a public number of records.")
    return FixedSize(max(1, round(sampling_rate * records)), records)
