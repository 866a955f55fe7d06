"""The discrete Gaussian, drawn exactly, for numbers released outside training; it may not see them.

The law is P(X = x) ∝ exp(−x²/2σ²) on the integers. Canonne, Kamath and Steinke (2020), "The Discrete
Gaussian for Differential Privacy": integer queries of sensitivity Δ get the Rényi bound αΔ²/2σ² of the
continuous Gaussian (their theorem 4), and rejection from the discrete Laplace (their algorithms 1 to 3)
draws it with no floating-point number anywhere, so the attacks described in `privot.noise.normals` find
nothing to hold on to.
"""

from __future__ import annotations

import math
from fractions import Fraction

from privot.noise.record_sampling import Bits

_REFILL_WORDS = 512


class _Coins:
    """Exact uniform integers and Bernoulli trials, one at a time, from 64-bit words."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        """Uniform on {0, …, bound − 1}: whole random bit strings, those that are too large drawn again."""
        length = (bound - 1).bit_length()
        while True:
            value = 0
            for _ in range(-(-length // 64)):
                if not self._words:
                    self._words = self._bits(_REFILL_WORDS).tolist()
                value = value << 64 | self._words.pop()
            value >>= -length % 64
            if value < bound:
                return value

    def happens(self, probability: Fraction) -> bool:
        """True with exactly this rational probability in [0, 1]."""
        return self.below(probability.denominator) < probability.numerator

    def happens_exp(self, gamma: Fraction) -> bool:
        """True with probability exp(−γ), γ ≥ 0 rational (algorithm 1).

        For γ ≤ 1: count K until a trial of probability γ/K fails; K is odd with probability Σ (−γ)ᵏ/k! =
        e^−γ.
        """
        while gamma > 1:
            if not self.happens_exp(Fraction(1)):
                return False
            gamma -= 1
        k = 1
        while self.happens(gamma / k):
            k += 1
        return k % 2 == 1

    def discrete_laplace(self, scale: int) -> int:
        """P(X = x) ∝ exp(−|x|/scale), scale ≥ 1 an integer (algorithm 2)."""
        while True:
            low = self.below(scale)
            if not self.happens_exp(Fraction(low, scale)):
                continue
            high = 0
            while self.happens_exp(Fraction(1)):
                high += 1
            magnitude = low + scale * high
            negative = self.below(2) == 1
            if negative and magnitude == 0:
                continue  # otherwise 0 would be counted twice
            return -magnitude if negative else magnitude

    def discrete_gaussian(self, sigma_squared: Fraction) -> int:
        """P(X = x) ∝ exp(−x²/2σ²) (algorithm 3): a Laplace of scale ⌊σ⌋ + 1, kept with the right chance."""
        scale = math.isqrt(math.floor(sigma_squared)) + 1
        while True:
            candidate = self.discrete_laplace(scale)
            excess = abs(candidate) - sigma_squared / scale
            if self.happens_exp(excess * excess / (2 * sigma_squared)):
                return candidate


def discrete_gaussian(bits: Bits, sigma_squared: Fraction, count: int) -> list[int]:
    """`count` independent discrete Gaussians with parameter σ² > 0 (their variance is a hair below σ²)."""
    coins = _Coins(bits)
    return [coins.discrete_gaussian(sigma_squared) for _ in range(count)]
