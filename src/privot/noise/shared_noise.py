"""Noise that many parties add together, each its own share, so that only the noisy sum over all of them is seen.

m parties hold disjoint records, and a mechanism asks for a sum over all of them plus N(0, σ²), in whole steps of a
public grid. Party p adds a share of the noise to its own sum and hands over the result through a secure sum, which
shows the total and nothing else (`privot.federation.secure_sum`). This class draws the share and stands where a
mechanism expects noise; it sends nothing itself.

Formal guarantee, for every party q, against the coordinator and any t other parties who pool all they know. Call the
other k = m − t parties, q among them, the honest ones. Everything that the attackers see of q's records is
S = Σ (c_p + R_p) over the honest parties (and what they know themselves), where c_p is p's sum, rounded to whole steps
of a public grid g, and

    R_p = rint(N_p / g),    N_p ~ N(0, σ²/k) independent.                                                      (1)

Let X = Σ N_p/g ~ N(0, σ²/g²) and U_2 … U_k be independent, uniform on [−½, ½]. Then

    Σ R_p   and   rint(X + U_2 + … + U_k)                                                                      (2)

have the same law up to a total variation below 2⁻¹⁰⁰⁰ (proof below). c_p being whole, S is therefore, up to that
distance, rint(Σ c_p + X + U_2 + … + U_k): a function of the Gaussian mechanism Σ c_p·g + N(0, σ²) on the honest
parties' sum, and of numbers drawn without the records. One record of q moves c_q alone, and as far as in one vault that
holds q's records: where it moves a sum of floats, which is then rounded to the grid, the mechanism's margin covers both
roundings. So one record of q costs what it costs in one vault with σ. The shares of the other t parties make the sum
noisier and are not counted on. With t = m − 1 every party carries σ itself.

Proof of (2). With s² = σ²/(k·g²) and f(v) = exp(−s²v²/2)·sin(v/2)/(v/2), Poisson's summation gives R_p the
characteristic function Σ_j f(u + 2πj), u ∈ [−π, π]; so Σ R_p has (Σ_j f(u + 2πj))ᵏ, and the right side of (2) has
Σ_j f(u + 2πj)ᵏ. The difference is a sum of products of k factors that do not all have the same j. The largest has one
factor j = ±1 and k − 1 factors j = 0; its exponent is −s²/2·((k − 1)u² + (2π − |u|)²) ≤ −2π²s²(k − 1)/k ≤ −π²s². (For
k = 1 there is nothing to prove.) `total` asks for σ/g ≥ 2²⁰, and there are at most 2¹⁰ parties, so s ≥ 2¹⁵ and every
probability differs by less than m·exp(−π²·2³⁰) < 2⁻¹⁰⁰⁰⁰⁰⁰⁰. Beyond ±2⁶² steps both laws have less than exp(−2⁴⁰) left
(σ/g < 2⁴¹), within it there are fewer than 2⁶⁴ whole numbers, and there are fewer than 2⁶⁴ coordinates. ∎

What is assumed of one party's normals is what a single vault assumes of them (`privot.noise.normals`).

Range. Every party cuts its sum at 2⁶²/m grid steps, which brings no two sums further apart (of counts that is 4 million
records in one cell at the smallest σ, 2⁻¹⁰, and 1,024 parties, and 2³² at σ = 1; of sums of floats, whose grid is
finer, 2²¹·σ/m), and its share of noise has less than 15·2⁴¹ of them, so
the total over all parties stays below 2⁶³: no sum wraps, whoever takes part. The sum of the cut numbers is that of one
vault to the bit where nothing is cut and nothing was rounded; a sum of floats is, but for half a grid step per party.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.guarantee import Standing
from privot.noise.kept_noise import KeptNoise
from privot.noise.noise_source import KeyedNoise, NoiseSource, SystemNoise

LEAST_STEPS, MOST_STEPS = 2.0**20, 2.0**41
"""From how many steps of its grid the deviation of the noise is, to below how many."""
LEAST_PARTIES = 3
MOST_PARTIES = 1 << 10
"""Shares then have 2¹⁵ grid steps or more, and no sum reaches 2⁶³."""
Whole = NDArray[np.int64]
Add = Callable[[Whole, NoiseSource, float, float], Whole]
Ask = Callable[[tuple[float, float, tuple[int, ...]], Callable[[bytes], Whole]], Whole]
"""((σ, grid, shape) of a question, what makes this party's noisy numbers for its digest) → the total of all parties.

It makes them once per question; asked again after a failure it sends the same ones (`privot.federation.secure_sum`).
"""


def check_shares(parties: int, collusion: int) -> None:
    """Refuse numbers of parties for which no share of the noise hides each party's sum from the others.

    >>> check_shares(3, 1)
    """
    if not LEAST_PARTIES <= parties <= MOST_PARTIES:
        raise UsageError(
            f"A sum is shared by {LEAST_PARTIES} to {MOST_PARTIES} parties, not by {parties}: with two, each would "
            "know the other's sum, so merge two releases instead."
        )
    if not 1 <= collusion <= parties - 1:
        raise UsageError(
            f"Of {parties} parties 1 to {parties - 1} may pool what they know (a party knows its own noise, so at "
            f"least one), not {collusion}."
        )


def share_sigma(sigma: float, parties: int, collusion: int) -> float:
    """The deviation of each party's share: σ/√(m − t), so that the m − t parties outside a collusion add up to σ.

    >>> round(share_sigma(6.0, 10, 1), 12)
    2.0
    """
    check_shares(parties, collusion)
    # upwards by more than the rounding of root, quotient and product takes: half a unit in the last place each
    return sigma / math.sqrt(parties - collusion) * (1.0 + 2.0**-51)


def agree(noise: NoiseSource, asked: object) -> None:
    """Bind the next sum to `asked`, by its `repr`: parties who would mean different things by it find out."""
    if isinstance(noise, SharedNoise):
        noise.about(repr(asked).encode())


def carried(noise: NoiseSource, sigma: float) -> float:
    """The deviation that a value with noise σ carries: σ, or σ·√(m/(m − t)) where m parties add shares of it."""
    return noise.carried(sigma) if isinstance(noise, SharedNoise) else sigma


class SharedNoise(KeyedNoise):
    """This party's shares of the noise of one release, and the sums over all parties that they make.

    `own` draws the shares; `ask` turns noisy numbers into their total (`Ask`); `about` binds the next question to what
    is asked. It adds to whole steps of a grid only: whatever else a mechanism draws (samples, permutations, noise for
    tensors) cannot be shared, and is refused.
    """

    def __init__(
        self,
        own: NoiseSource,
        parties: int,
        collusion: int,
        ask: Ask,
        about: Callable[[bytes], object] = lambda asked: None,
    ) -> None:
        check_shares(parties, collusion)
        self._own, self._parties, self._collusion, self._ask, self.about = own, parties, collusion, ask, about

    @property
    def standing(self) -> Standing:
        """That of the party's own noise."""
        return self._own.standing

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee that rests on this noise takes for granted, in words."""
        kept = isinstance(self._own, KeptNoise)
        own = SystemNoise().assumptions if kept else self._own.assumptions
        return (
            *own,
            *(["what lets a party make its share of the noise again stays with that party"] if kept else []),
            "it holds against the coordinator, whatever that sends, pooling what it knows with at most "
            f"{self._collusion} of the {self._parties} parties; the others add their share of the noise, "
            "the keys that every party pinned belong to different parties, and masks made by X25519, HKDF and ChaCha20 "
            "cannot be told from uniform bits",
            "whoever has records with several of the parties is protected by this guarantee with each of them, not "
            "over all of them together",
        )

    def carried(self, sigma: float) -> float:
        """The deviation of the sum of all shares, those of the parties who collude included."""
        return share_sigma(sigma, self._parties, self._collusion) * math.sqrt(self._parties)

    def total(self, whole: Whole, sigma: float, grid: float, add: Add) -> Whole:
        """The sum of `whole` over all parties plus N(0, σ²), in steps of `grid`, many of which must make up σ.

        `add`(whole, own noise, σ, grid) adds this party's share.
        """
        if not LEAST_STEPS <= sigma / grid < MOST_STEPS:
            self._key()
        share = share_sigma(sigma, self._parties, self._collusion)
        limit = (1 << 62) // self._parties

        def made(question: bytes) -> Whole:
            # noise that can be made again is that of one question: two questions about the same numbers, with noise of
            # the same draws, would show the numbers
            own = self._own.bound_to(question) if isinstance(self._own, KeptNoise) else self._own
            return add(np.clip(whole, -limit, limit), own, share, grid)

        return self._ask((sigma, grid, whole.shape), made)

    def _key(self) -> NoReturn:
        raise UsageError(
            "The noise of this release meets more than sums, so many parties cannot make it together: release a table, "
            "an embedding, a sketch, counts or a mean."
        )
