"""Normal variates from a keystream, hardened against floating-point attacks; it may not see a record.

The weakness. A sampler that turns one or two uniforms into a normal can reach only some of the floats, and
which ones it reaches depends on what the noise is added to: from the low bits of a noisy value an attacker
can rule out one of two data sets, whatever ε says (Mironov 2012 for Laplace noise; Jin, McMurtry,
Rubinstein, Ohrimenko 2022 for Box–Muller, polar and ziggurat normals).

The mitigation, in two parts. Following Holohan and Braghin (2021), each normal is a rescaled sum of
independent normals,

    z = S^(−1/2) · Σ_{s ≤ S} √(−2 ln u_s) · cos 2πv_s ,       and the same with the sine for its partner,

u_s, v_s uniform with 53 bits each. In law it is exactly N(0, 1) up to float64 rounding; 106·S bits (S = 3:
318) lie behind a pair that 128 bits can hold, so the gaps of one term are filled by the others and undoing
the sum means searching all but one of its uniforms. The sum alone would still favour floats with an even
last bit (about 64 to 36 was measured), because its larger terms have a coarser grid, and multiplying by σ
would skip floats altogether. So the last operation adds a dither, uniform on ±2⁻³⁰·σ and much finer than the
grid: σz + dither. It is independent of everything, so in exact arithmetic it is post-processing.

This is a mitigation, not a proof that every float is reached with the right probability. What it cannot mend
is the addition that follows: add noise to values in float64 and round the *sum* (to float32, say) last, and
release scalars outside training with the discrete Gaussian, which is exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.noise.keystream import Keystream

SUMMANDS = 3
"""Box–Muller terms behind each normal; four barely make 20 million a second on two older Arm cores."""

DITHER = 2.0**-30
"""Half the width of the last, uniform term, in units of σ: it adds less than 10⁻¹⁸ to the variance."""

CHUNK = 1 << 16
"""Normals made from one key: few enough for the cache, enough that threads seldom wait for each other."""


def fill_normal(key: bytes, sigma: float, out: NDArray[np.float64]) -> None:
    """Fill `out` (contiguous, of even length) with independent N(0, σ²) variates from `key`'s keystream.

    The circle is covered by an angle φ in [−π/2, π/2) and a random sign of the radius, so that with t = tan
    φ/2 one tangent in its fastest range gives both cos φ = (1 − t²)/(1 + t²) and sin φ = 2t/(1 + t²).
    """
    pairs = out.size // 2
    cosines, sines = out[:pairs], out[pairs:]
    out.fill(0.0)
    stream = Keystream(key, 2 * pairs)
    sign = np.empty(pairs, dtype=np.uint64)
    radius, tangent, square, cosine = (np.empty(pairs) for _ in range(4))
    for _ in range(SUMMANDS):
        words = stream.words(2 * pairs)
        radial, angular = words[:pairs], words[pairs:].view(np.int64)
        # the lowest bit is one of the eleven that the 53-bit uniform leaves unused
        np.left_shift(radial, 63, out=sign)
        np.right_shift(radial, 11, out=radial)
        np.copyto(radius, radial, casting="unsafe")
        radius += 1.0  # u in {1, …, 2⁵³}·2⁻⁵³: the logarithm never sees 0
        radius *= 2.0**-53
        np.log(radius, out=radius)
        radius *= -2.0 / SUMMANDS
        np.sqrt(radius, out=radius)
        np.copysign(radius, sign.view(np.float64), out=radius)
        np.right_shift(angular, 11, out=angular)  # arithmetic: −2⁵² … 2⁵² − 1
        np.copyto(tangent, angular, casting="unsafe")
        tangent *= math.pi / 2 * 2.0**-53
        np.tan(tangent, out=tangent)
        np.multiply(tangent, tangent, out=square)
        np.subtract(1.0, square, out=cosine)
        square += 1.0
        radius /= square
        cosine *= radius
        cosines += cosine
        tangent *= radius
        sines += tangent
    cosines *= sigma
    sines *= 2.0 * sigma
    words = stream.words(2 * pairs).view(np.int64)
    for half, dither in ((cosines, words[:pairs]), (sines, words[pairs:])):
        np.copyto(radius, dither, casting="unsafe")
        radius *= sigma * DITHER * 2.0**-63
        half += radius
