"""From a budget back to a parameter: the noise that meets it, the steps it pays for, the largest batch.

Nothing here is trusted on the way out: what is returned was counted by the accountant and meets the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from privot.accounting.accountant import account
from privot.accounting.events import Event
from privot.accounting.laws import gaussian
from privot.common.arguments import check_count, check_delta, check_epsilon
from privot.errors import BudgetError, ConvergenceError, UsageError

_TOLERANCE = 2e-4
_PATIENCE = 9
_LIMIT = 1e12


def calibrate(make: Callable[[float], Event], *, epsilon: float, delta: float) -> float:
    """The smallest σ (to two parts in ten thousand, never below) for which `make`(σ) costs at most (ε, δ).

    Parameters
    ----------
    make
        σ → the event that a release with this noise costs. Its ε must fall as σ grows.
    epsilon, delta
        The target.

    Returns
    -------
    float
        σ. What is returned was counted by the accountant and meets the target.

    Raises
    ------
    UsageError
        If the target is out of range, or no σ between 1e-12 and 1e12 meets it.
    ConvergenceError
        If none was found in 100 evaluations.

    Notes
    -----
    Seen through the shift μ of the one Gaussian release that costs as much, the curve is nearly a straight line of
    slope −1 in logarithms, so a bracketed secant needs a handful of evaluations.

    Examples
    --------
    >>> from privot import Adjacency
    >>> from privot.accounting import Gaussian, calibrate
    >>> sigma = calibrate(lambda s: Gaussian(s, 1.0, Adjacency.ADD_REMOVE), epsilon=1.0, delta=1e-5)
    >>> 3.730 < sigma < 3.732
    True
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    largest = gaussian.largest_shift(epsilon, delta)
    if largest <= 0.0:
        raise UsageError(f"ε = {epsilon:g} at δ = {delta:g} asks for more noise than privot counts: raise one of them.")
    wanted = math.log(largest)
    known: list[tuple[float, float]] = []  # (ln σ, ln μ − ln μ wanted): positive where ε is too large
    low, high, reached = -math.inf, math.inf, 0.0
    at = 0.0
    for _ in range(100):
        cost = account(make(math.exp(at)), delta).epsilon()
        if cost == epsilon:
            return math.exp(at)
        if cost < epsilon:
            high, reached = at, cost
        else:
            low = at
        shift = gaussian.largest_shift(cost, delta) if 0.0 < cost < math.inf else 0.0
        if shift > 0.0:
            known.append((at, math.log(shift) - wanted))
        root = _root(known, low, high, up=cost > epsilon)
        # close enough: by the bracket, or by the secant where it may be believed, close to the target
        if high - low <= _TOLERANCE or (high - root <= _TOLERANCE and reached >= 0.99 * epsilon):
            return math.exp(high)
        # aim a little to the safe side, so that the answer itself is soon among the points tried
        at = root + 0.3 * _TOLERANCE
        if abs(at) > math.log(_LIMIT):
            if low == -math.inf:
                raise UsageError(
                    f"Even without noise ε = {epsilon:g} is met at δ = {delta:g}, since records are sampled less "
                    "often than δ allows to show them: choose a much smaller δ."
                )
            raise UsageError(f"No σ between {1 / _LIMIT:g} and {_LIMIT:g} meets ε = {epsilon:g} at δ = {delta:g}.")
    raise ConvergenceError(f"No σ for ε = {epsilon:g}, δ = {delta:g} was found in 100 evaluations.")


def _root(known: list[tuple[float, float]], low: float, high: float, up: bool) -> float:
    """Where the cost is expected to meet the budget: the secant through the two nearest points, kept in the bracket."""
    if not known:
        return (high if low == -math.inf else low) + (2.0 if up else -2.0)
    (x0, y0), *rest = sorted(known, key=lambda point: abs(point[1]))[:2]
    slope = -1.0
    if rest and rest[0][0] != x0:
        slope = min((rest[0][1] - y0) / (rest[0][0] - x0), -0.05)
    guess = min(max(x0 - y0 / slope, x0 - 8.0), x0 + 8.0)
    # where the secant creeps, because the curve bends sharply, steps of one and halves take over
    creeping = len(known) > _PATIENCE
    if low == -math.inf:
        return min(guess, high - (1.0 if creeping else 10.0 * _TOLERANCE))
    if high == math.inf:
        return max(guess, low + (1.0 if creeping else 2.0 * _TOLERANCE))
    return guess if low < guess < high and not creeping else 0.5 * (low + high)


def largest_count(make: Callable[[int], Event], *, epsilon: float, delta: float, limit: int) -> int:
    """The largest n ≤ `limit` (to a part in a thousand, exactly below 1,000) for which `make`(n) costs at most (ε, δ).

    For the steps that a σ pays for, or the largest batch; ε must grow with n.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_count("The limit", limit)

    def meets(n: int) -> bool:
        return account(make(n), delta).epsilon() <= epsilon

    if not meets(1):
        raise BudgetError(f"Not even one step fits in ε = {epsilon:g} at δ = {delta:g}: raise σ or the budget.")
    good, bad = 1, limit + 1
    step = 8
    while good < limit:
        n = min(good * step, limit)
        if not meets(n):
            bad = n
            break
        good = n
    while bad - good > max(1, good // 1000):
        middle = math.isqrt(good * bad) if bad > 2 * good else (good + bad) // 2
        middle = min(max(middle, good + 1), bad - 1)
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good
