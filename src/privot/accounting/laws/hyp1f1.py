"""The logarithm of Kummer's function ₁F₁(a; b; x), for accountants that average e^{xt} over a Beta law.

This module knows no mechanism, no ε and no data: numbers in, numbers out; it may import numpy, scipy.special
and the errors, nothing else.

For 0 < a < b and x ≥ 0 (Olver et al., NIST Digital Library of Mathematical Functions, 13.2.2 and 13.4.1)

    ₁F₁(a; b; x) = Σₙ (a)ₙ xⁿ / ((b)ₙ n!) = E[e^{xt}],   t ~ Beta(a, b − a),

so a·x/b ≤ ln ₁F₁ ≤ x. Small x takes the series, whose terms are all positive; any other x takes the integral.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from privot.errors import UsageError

FloatArray = NDArray[np.float64]

SMALLEST_A = 1e-3
LARGEST_B = 1e9
"""Outside a ≥ 1e-3, b ≤ 1e9 rounding alone can cost more than the accuracy that is promised."""

_SERIES_RATIO = 0.5
_SERIES_TERMS = 64  # the ratio of terms is at most 1/2, so what is left out is below 2⁻⁶³ of the first term
_DROP = 45.0  # e⁻⁴⁵ = 3e-20: what lies further below the maximum cannot be seen in float64
_LONGEST_STEP = 0.08
_STEPS_PER_WIDTH = 3.0
_BISECTIONS = 40
_X_IS_HUGE = 1e25


@overload
def log_hyp1f1(a: float, b: float, x: float) -> float: ...
@overload
def log_hyp1f1(a: float, b: float, x: FloatArray) -> FloatArray: ...
def log_hyp1f1(a: float, b: float, x: float | FloatArray) -> float | FloatArray:
    """ln ₁F₁(a; b; x) for 1e-3 ≤ a ≤ b ≤ 1e9 and finite x ≥ 0, elementwise in x.

    The relative error *of the logarithm* is below 1e-10 for a ≥ 1/2, whether it is 1e-300 or 1e300: the tests
    compare it with sums exact to 40 digits. a = b gives x itself (₁F₁(a; a; x) = e^x) and x = 0 gives 0.

    Args:
        a: shape of the Beta law; r/2 for r columns of an orthonormal frame.
        b: sum of its two shapes; d/2 in dimension d.
        x: a number or an array of any shape.

    Returns:
        A float for a number, an array of the same shape for an array.

    Raises:
        UsageError: a, b or x is outside the range above.

    Example:
        >>> log_hyp1f1(1.0, 1.0, 3.0)
        3.0
        >>> round(log_hyp1f1(1.0, 2.0, 1.0), 12) == round(math.log(math.e - 1.0), 12)
        True
    """
    a, b, xs = _checked(a, b, x)
    if a == b:
        values = xs.copy()
    else:
        values = np.empty_like(xs)
        # The n-th ratio of terms, (a+n)x / ((b+n)(n+1)), is at most x·max(a, 1)/b.
        small = xs <= _SERIES_RATIO * b / max(a, 1.0)
        values[small] = _series(a, b, xs[small])
        # Beyond 1e25·b the logarithm is x − O(b·ln x): its slope is 1 to the last bit.
        far = np.minimum(xs[~small], _X_IS_HUGE * max(b, 1.0))
        values[~small] = _integral(a, b, far) + (xs[~small] - far)
    return float(values[0]) if np.ndim(x) == 0 else values.reshape(np.shape(x))


def _checked(a: float, b: float, x: float | FloatArray) -> tuple[float, float, FloatArray]:
    """The arguments as floats and one flat array, or an error."""
    try:
        a, b = float(a), float(b)
        xs = np.asarray(x, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise UsageError("Kummer's function takes real numbers: give a, b and x as floats.") from None
    if not SMALLEST_A <= a <= b <= LARGEST_B:
        raise UsageError(
            f"Expected {SMALLEST_A:g} <= a <= b <= {LARGEST_B:g} for Kummer's function, got a={a!r}, b={b!r}."
        )
    wrong = ~(np.isfinite(xs) & (xs >= 0.0))
    if wrong.any():
        raise UsageError(f"Expected a finite x >= 0 for Kummer's function, got x={float(xs[wrong][0])!r}.")
    return a, b, xs


def _series(a: float, b: float, x: FloatArray) -> FloatArray:
    """ln(1 + Σ_{n≥1} (a)ₙ xⁿ / ((b)ₙ n!)): the 1 is kept apart, so a tiny logarithm keeps all its digits."""
    term = x * (a / b)
    total = term.copy()
    for n in range(1, _SERIES_TERMS):
        term = term * (x * ((a + n) / ((b + n) * (n + 1.0))))
        total += term
    return np.log1p(total)


def _integral(a: float, b: float, x: FloatArray) -> FloatArray:
    """ln E[e^{xt}] by the trapezoidal rule in the logit y of t, which converges exponentially.

    In y the integrand is e^{f(y)}/B(a, c), with c = b − a and

        f(y) = x·t + a·ln t + c·ln(1 − t),    f'(y) = −x·t² + (x − b)·t + a,

    so f has one maximum, at the positive root t* of that quadratic, and f''(y*) = −t*(1 − t*)·R with R² its
    discriminant. x·t*, the rest of f and ln B are each far larger than the answer when b is large; therefore
    f(y*) and B are both measured from the Beta law's own maximum, t₀ = a/b, and f near y* from y*.
    """
    c = b - a
    R = np.sqrt((x - b) ** 2 + 4.0 * a * x)
    s = 2.0 * c / (x + b + R)  # 1 − t*, without subtracting from 1
    t = np.where(x > b, (x - b + R) / (2.0 * x), 2.0 * a / (np.maximum(b - x, 0.0) + R))
    logit = np.log(t / s)
    shift = np.log((t * b / a) * (c / b / s))  # y* − y₀ ≥ 0, y₀ the logit of t₀
    peak = x * t + a * shift - b * np.log1p(a / b * np.expm1(shift))

    step = np.minimum(1.0 / np.sqrt(t * s * R) / _STEPS_PER_WIDTH, _LONGEST_STEP)
    # Past these ends x·t and the other logarithm no longer change f: it is a straight line of slope a or −c.
    straight = _DROP + np.log(x + b)
    left = _where_it_drops(a, b, x, t, s, -(straight + logit))
    right = _where_it_drops(a, b, x, t, s, np.maximum(straight - logit, 1.0))

    area = np.empty_like(x)
    for i in range(x.size):
        h = step[i]
        u = h * np.arange(math.floor(left[i] / h), math.ceil(right[i] / h) + 1)
        height = np.exp(_below_peak(a, b, x[i], t[i], s[i], u))
        # The nodes left out on a straight line are a geometric series.
        tails = height[0] / math.expm1(min(a * h, 700.0)) + height[-1] / math.expm1(min(c * h, 700.0))
        area[i] = h * (height.sum() + tails)
    return peak + _log_beta_peak(a, b) + np.log(area)


def _below_peak(a: float, b: float, x: FloatArray, t: FloatArray, s: FloatArray, u: FloatArray) -> FloatArray:
    """f(y* + u) − f(y*), with t = t* and s = 1 − t*; x, t, s and u broadcast.

    With v = t·(e^u − 1) this is x·s·v/(1 + v) + a·u − b·ln(1 + v). Exchanging t and 1 − t turns (x, a, u)
    into (−x, b − a, −u); it is done where t > 1/2, so that 1 + v never loses digits.
    """
    swap = t > 0.5
    sign = np.where(swap, -1.0, 1.0)
    slope = np.where(swap, b - a, a)
    z = sign * u
    v = np.minimum(t, s) * np.expm1(z)
    result: FloatArray = sign * x * np.maximum(t, s) * (v / (1.0 + v)) + slope * z - b * np.log1p(v)
    return result


def _where_it_drops(a: float, b: float, x: FloatArray, t: FloatArray, s: FloatArray, end: FloatArray) -> FloatArray:
    """The u between 0 and `end` where f lies 45 below its maximum, or `end` if it does not fall so far."""
    near, far = np.zeros_like(end), end
    for _ in range(_BISECTIONS):
        middle = 0.5 * (near + far)
        high = _below_peak(a, b, x, t, s, middle) > -_DROP
        near, far = np.where(high, middle, near), np.where(high, far, middle)
    return far


def _log_beta_peak(a: float, b: float) -> float:
    """a·ln t₀ + c·ln(1 − t₀) − ln B(a, c) with t₀ = a/b, c = b − a, as it is left by Stirling's formula."""
    c = b - a
    remainder = _stirling_remainder(b) - _stirling_remainder(a) - _stirling_remainder(c)
    return 0.5 * math.log(a * (c / b) / (2.0 * math.pi)) + remainder


def _stirling_remainder(z: float) -> float:
    """ln Γ(z) − [(z − ½)·ln z − z + ½·ln 2π], by its expansion (NIST DLMF 5.11.1) once z is not small."""
    if z < 10.0:
        return float(gammaln(z)) - ((z - 0.5) * math.log(z) - z + 0.5 * math.log(2.0 * math.pi))
    w = 1.0 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z
