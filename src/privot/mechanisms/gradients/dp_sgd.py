"""Releases noisy sums of clipped gradients of a model's public weights (DP-SGD); it shows nothing else of a record.

The loop that trains sits outside the vault. Between two releases it puts the current weights, which are public because
they are made of earlier releases, into the mechanism's `Query`; the mechanism asks a *public* function for gradients.
"""

from __future__ import annotations

import math
import pickle
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.accounting.accountants import RunningAccountant
from privot.accounting.calibration import calibrate
from privot.accounting.events import Event, Gaussian, Sampled, repeated
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.common import arguments
from privot.errors import UsageError, brief
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.clipping import MARGIN, clip_rows
from privot.mechanisms.gradients.clipped_sums import MAX_SAMPLE, clipped_sum, float_of, norm_rounding, sum_rounding
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.noise import NoiseSource, add_noise
from privot.noise.adding import LARGEST_RATIO, check_ratio, grid_of

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]
CHUNK = 64
"""Records whose gradients are held at once."""
_ALIKE = 1e-3
"""Up to this share of its norm two gradients of one row may differ by rounding."""
LEFT_OUT = 8
"""Gradients with one record left out that the published variant compares, pair by pair, at every step."""


class Gradients(Protocol):
    """A public function: gradients of a public loss at given weights, record by record or of a batch's mean."""

    size: int
    """How many parameters there are."""

    def each(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array | Tensor:
        """One gradient per record, of shape (records, size), each of that record alone; a tensor keeps its device."""
        ...

    def mean(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array:
        """The gradient of the mean loss of all rows together."""
        ...


class Query:
    """The public weights that the next gradient is taken at; the training loop sets them between two releases."""

    def __init__(self, weights: Array) -> None:
        self.weights = np.array(weights, dtype=np.float64)

    def set(self, weights: Array) -> None:
        """Ask at other weights from now on."""
        given = np.array(weights, dtype=np.float64)
        if given.shape != self.weights.shape or not np.isfinite(given).all():
            raise UsageError("The weights must be finite and keep their shape: use a smaller learning rate.")
        self.weights = given


@dataclass(frozen=True)
class ClippedGradients:
    """DP-SGD: Σ over a Poisson sample of g_i·min(1, C/‖g_i‖), plus N(0, σ²) in every coordinate.

    The *sum* is released: the loop that trains divides it by a public number, the expected batch size, never by the
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
        Accountants that look at gradients. They are told distances between clipped gradients, without noise.
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
        as whole numbers (`clipped_sums`), so the sum is exact whatever the sample. What is left, turning it to float64
        and to the grid that noise is added on, stays below the margin of 1e-6 for every sample of fewer than 2³¹
        records, or the release is refused before it is paid;
      * that a gradient is of its record alone, wherever it stands and whatever stands beside it, is the function's
        promise; it is tried on public rows before anything is paid (`try_gradients`);
      * a gradient that is not finite counts as 0, so no record can spoil the release;
      * an empty sample is released as noise alone.

    With any witnesses the standing is UNPROVEN, because what they answer is computed from the records without noise.

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
        _settle(self)

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

        σ is the smallest that meets the target, to two parts in ten thousand, never below (`sigma_for_target`). The
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
        """Labels, unless the loss does without."""
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
        _check_terms(self.sampling, facts, self.sigma, self.clip_norm, self.gradients.size)
        if facts.dim not in self._tried:
            try_gradients(self.gradients, self.query.weights, facts.dim, (self.labels and facts.classes) or 1)
            self._tried.add(facts.dim)
        return Sampled(
            Gaussian(self.sigma, facts.adjacency.sensitivity(self.clip_norm), facts.adjacency), self.sampling
        )

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Array, Mapping[str, Any]]:
        """The noisy sum, of shape (parameters,)."""
        sampled, gaussian = _parts(event)
        indices = sampled.sampling.draw(noise, records.count)
        if len(indices) > MAX_SAMPLE:
            # cannot be asked before paying, since the number is private (`docs/sharp-edges.md`)
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
            _tell(self.witnesses, event, norms[:LEFT_OUT])
        value = add_noise(_within_reach(float_of(total, bound), gaussian.sigma), noise, gaussian.sigma)
        return value, {"mechanism": "parameters", "sigma": gaussian.sigma, "clip": clip, "step": step}

    def _each(self, records: Records, indices: NDArray[np.int64]) -> Iterator[tuple[Array | Tensor, int]]:
        """Gradients by the CHUNK, each with how many of its rows are of records; the others are of rows of zeros."""
        # one round for an empty sample too: it would be told by the time it takes
        for start in range(0, max(1, len(indices)), CHUNK):
            part = indices[start : start + CHUNK]
            # always as many rows: with another number a product may round otherwise, and at a kink of the loss the last
            # bit of a *neighbour's* gradient decides about all of it
            rows, labels = np.zeros((CHUNK, records.facts.dim)), np.zeros(CHUNK, dtype=np.int64)
            rows[: len(part)] = records.rows(part)
            if self.labels:
                labels[: len(part)] = records.labels(part)
            each = self.gradients.each(self.query.weights, rows, labels)
            if tuple(each.shape) != (CHUNK, self.gradients.size):
                raise UsageError("The gradients must have one row per record, of shape (records, parameters).")
            yield each, len(part)


def try_gradients(gradients: Gradients, weights: Array, dim: int, classes: int) -> None:
    """Refuse a function that fails on public rows, draws random numbers, or gives a row another gradient elsewhere.

    Rows come again in another order, with others beside them and other labels there; and once more as they came; at the
    first weights and at others, since a gradient may be 0 at those. That finds dropout, batch statistics and whatever
    goes by place or company. It is a test of what the function promises, not a proof; rounding, which the clipping
    margin is for, is let pass.
    """
    dice = np.random.default_rng(0)
    rows, labels = dice.uniform(size=(CHUNK, dim)), dice.integers(0, classes, CHUNK)
    order, kept = dice.permutation(CHUNK), np.arange(CHUNK) < CHUNK // 2
    others = dice.uniform(size=rows.shape), dice.integers(0, classes, CHUNK)
    again = rows, labels, np.flatnonzero(kept)
    elsewhere = (
        np.where(kept[:, None], rows, others[0])[order],
        np.where(kept, labels, others[1])[order],
        np.argsort(order)[kept],
    )
    states = _random_states()
    for at in (weights, weights + 0.1 * dice.normal(size=weights.shape)):
        first = _public_gradients(gradients, at, *again)
        limit = _ALIKE * (np.linalg.norm(first, axis=1) + 1e-12)
        for given in (again, elsewhere):
            off = np.linalg.norm(_public_gradients(gradients, at, *given) - first, axis=1)
            if (off > limit).any():
                raise UsageError(
                    "A record's gradient changes with its place, with the records beside it or from call to call, so "
                    "clipping it does not bound the record: remove dropout, batch statistics and "
                    "anything that keeps state."
                )
    if states != _random_states():
        raise UsageError("The gradients use random numbers, which depend on a record's place: remove what draws them.")


def _public_gradients(
    gradients: Gradients, weights: Array, rows: Array, labels: NDArray[np.int64], places: NDArray[np.int64]
) -> Array:
    """Those at `places`, where they are finite."""
    try:
        each = gradients.each(weights, rows, labels)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"The gradients cannot be computed on public rows ({type(error).__name__}): there must be one per "
            "record, without random numbers."
        ) from None
    if tuple(each.shape) != (CHUNK, gradients.size):
        raise UsageError(
            f"The gradients must have one row per record, {CHUNK} rows of {gradients.size} numbers here, got shape "
            f"{tuple(each.shape)}."
        )
    held = each[places]
    held = held if isinstance(held, np.ndarray) else held.double().cpu().numpy()
    return np.where(np.isfinite(held), held, 0.0)


def _random_states() -> list[bytes]:
    """What the generators that everybody shares stand at."""
    found = [pickle.dumps(random.getstate()), pickle.dumps(np.random.get_state())]
    torch = sys.modules.get("torch")
    if torch is not None:
        states = [torch.get_rng_state()]
        states += torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        found += [state.numpy().tobytes() for state in states]
    return found


def _settle(mechanism: ClippedGradients | PublishedGradients) -> None:
    """Check what both kinds of gradients are built from, and fix it for good."""
    set_ = object.__setattr__
    set_(mechanism, "sigma", arguments.sigma(mechanism.sigma))
    set_(mechanism, "steps", arguments.whole("The number of steps", mechanism.steps, 1))
    _check_clip_norm(mechanism.clip_norm)
    if not isinstance(mechanism.sampling, Poisson | FixedSize):
        raise UsageError("The sampling must be Poisson or FixedSize.")
    # a list could grow after the standing was read
    set_(mechanism, "witnesses", tuple(mechanism.witnesses))
    if not all(w.need_distances for w in mechanism.witnesses):
        raise UsageError("A witness is an accountant that needs distances between gradients: leave out the others.")


def _check_clip_norm(clip_norm: float) -> None:
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, int | float) or not 1e-100 <= clip_norm <= 1e100:
        raise UsageError(f"The clipping bound clip_norm must be a number from 1e-100 to 1e100, got {brief(clip_norm)}.")


def _check_terms(sampling: Sampling, facts: Facts, sigma: float, clip_norm: float, size: int) -> None:
    """Refuse before anything is paid what could only fail, or round too coarsely, afterwards."""
    if isinstance(sampling, FixedSize) and sampling.records != facts.records:
        raise UsageError("The fixed-size sampling must be made for the public number of records of this vault.")
    # the size of a Poisson sample is private: the largest that can be summed decides, whatever this one will be
    sample = sampling.batch if isinstance(sampling, FixedSize) else MAX_SAMPLE
    # for both neighbours: the grid on which noise is added moves each of `size` coordinates by half a step at most
    rounding = sum_rounding(sample) + norm_rounding(size) + grid_of(sigma) * math.sqrt(size) / clip_norm
    # written so that what is no number is refused
    if not (sample <= MAX_SAMPLE and rounding <= MARGIN):
        raise UsageError(
            "Rounding could outgrow the margin that keeps this release private: use fewer parameters, less noise or a "
            "smaller sample."
        )


def _parts(event: Event) -> tuple[Sampled, Gaussian]:
    if not isinstance(event, Sampled) or not isinstance(event.event, Gaussian):
        raise UsageError("Gradients are released on the event the mechanism made.")
    return event, event.event


def _within_reach(total: Array, sigma: float) -> Array:
    """Coordinates cut to what noise can be added to safely: no coordinate moves further than before, so Δ stays."""
    bound = LARGEST_RATIO * sigma * (1.0 - 1e-9)
    return np.asarray(np.clip(total, -bound, bound))


def _tell(witnesses: tuple[RunningAccountant, ...], event: Event, distances: list[float]) -> None:
    """Tell the witnesses; where a sample is too small for enough pairs, the worst distance stands in."""
    padded = distances + [_parts(event)[1].sensitivity] * max(0, 3 - len(distances))
    for witness in witnesses:
        witness.step(event, padded)


@dataclass(frozen=True)
class PublishedGradients:
    """The variant of Yang, Qi & Zhou 2024 as their program runs it. UNPROVEN.

    It releases the *mean* gradient of a batch, clipped as a whole, noised, and sparsified (a random share `keep` of its
    coordinates survives). The other parameters are those of `ClippedGradients`.

    What can be said of it: a vector clipped as a whole to C moves by at most 2C whatever changed, so under the sampler
    used here a step costs a sampled Gaussian with Δ = 2C and σ = `sigma`, and that is what the vault is charged. The
    authors count d = distances between gradients of the batch with one of `LEFT_OUT` records left out, each clipped and
    sparsified, and shuffle instead of sampling; none of that is a bound. Batch normalisation, if the model has it, is
    allowed here.
    """

    gradients: Gradients
    query: Query
    sigma: float
    clip_norm: float
    sampling: Sampling
    steps: int = 1
    keep: float = 0.1
    witnesses: tuple[RunningAccountant, ...] = ()

    def __post_init__(self) -> None:
        _settle(self)
        if not 0.0 < self.keep <= 1.0:
            raise UsageError(f"The share of coordinates that is kept must lie in (0, 1], got {self.keep!r}.")

    @property
    def needs(self) -> Needs:
        """Labels."""
        return Needs(labels=True)

    @property
    def standing(self) -> Standing:
        """UNPROVEN: what is claimed for it has no theorem."""
        return Standing.UNPROVEN

    @property
    def seed(self) -> int | None:
        """None: nothing public is random here."""
        return None

    def event(self, facts: Facts) -> Event:
        """A sampled Gaussian with Δ = 2C: what whole clipping can promise."""
        check_ratio(self.clip_norm, self.sigma)
        _check_terms(self.sampling, facts, self.sigma, self.clip_norm, self.gradients.size)
        return Sampled(Gaussian(self.sigma, 2.0 * self.clip_norm, facts.adjacency), self.sampling)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Array, Mapping[str, Any]]:
        """The noisy, sparse mean gradient, of shape (parameters,)."""
        sampled, gaussian = _parts(event)
        indices = sampled.sampling.draw(noise, records.count)
        rows, labels = records.rows(indices), records.labels(indices)
        clip = gaussian.sensitivity / 2.0
        mean = self._whole(rows, labels, clip)
        if self.witnesses:
            mask = self._mask(noise)
            left = [
                mask * self._whole(np.delete(rows, j, axis=0), np.delete(labels, j), clip)
                for j in range(min(LEFT_OUT, len(indices)))
            ]
            _tell(self.witnesses, event, [float(np.linalg.norm(a - b)) for a, b in combinations(left, 2)])
        value = add_noise(mean, noise, gaussian.sigma) * self._mask(noise)
        return value, {"mechanism": "published parameters", "sigma": gaussian.sigma, "clip": clip, "step": step}

    def _whole(self, rows: Array, labels: NDArray[np.int64], clip: float) -> Array:
        """The mean gradient clipped as a whole; 0 where there is none or it is not finite."""
        if len(rows) < 2:
            return np.zeros(self.gradients.size)
        mean = np.asarray(self.gradients.mean(self.query.weights, rows, labels), dtype=np.float64)
        whole: Array = clip_rows(mean[None] if np.isfinite(mean).all() else np.zeros((1, mean.size)), clip)
        return np.asarray(whole[0])

    def _mask(self, noise: NoiseSource) -> Array:
        """A random share `keep` of ones."""
        words = noise.uniform_bits(self.gradients.size)
        return np.asarray(words < np.uint64(min(int(self.keep * 2.0**64), 2**64 - 1)), dtype=np.float64)


def sigma_for_target(
    *,
    target_epsilon: float,
    target_delta: float,
    clip_norm: float,
    sampling: Sampling,
    steps: int,
    adjacency: Adjacency | str,
) -> float:
    """The noise that DP-SGD needs for a target: σ for which `steps` steps cost at most (ε, δ).

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
        σ, the standard deviation of the noise: the smallest to two parts in ten thousand, never below. What is returned
        was counted by the accountant and meets the target.

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
    _check_clip_norm(clip_norm)
    if not isinstance(sampling, Poisson | FixedSize):
        raise UsageError("The sampling must be Poisson or FixedSize.")
    count, sensitivity = arguments.whole("The number of steps", steps, 1), adjacency.sensitivity(clip_norm)

    def whole(unit: float) -> Event:
        # in units of Δ, so that the search begins at σ = Δ; and what is counted is to the last bit what will be charged
        return repeated(Sampled(Gaussian(unit * sensitivity, sensitivity, adjacency), sampling), count)

    return calibrate(whole, epsilon=target_epsilon, delta=target_delta) * sensitivity


def default_sampling(adjacency: Adjacency, sampling_rate: float, records: int | None) -> Sampling:
    """Poisson at `sampling_rate` under add-remove; under replace-one a fixed size of about as many records."""
    if adjacency is Adjacency.ADD_REMOVE:
        return Poisson(sampling_rate)
    if records is None:
        raise UsageError("Fixed-size samples are drawn from a public number of records.")
    return FixedSize(max(1, round(sampling_rate * records)), records)
