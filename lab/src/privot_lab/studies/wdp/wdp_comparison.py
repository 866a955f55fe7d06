"""ε against σ for every accountant on one run of DP-SGD: the comparison that the paper's figures lack. No data."""

from __future__ import annotations

import numpy as np

from privot.accounting import (
    BayesianAccountant,
    Gaussian,
    GaussianLimitAccountant,
    MomentsAccountant,
    Poisson,
    PrivacyLossAccountant,
    RenyiAccountant,
    Sampled,
    WassersteinAccountant,
)
from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.comparison import AccountantComparison, AccountantCurve
from privot.common.arguments import check_count, check_delta, check_positive
from privot.errors import UsageError
from privot.guarantee import Adjacency


def every_accountant(steps: int, *, allow_unproven: bool = False) -> list[RunningAccountant]:
    """One accountant of each kind, for a run of `steps` steps; unproven ones only if they are allowed."""
    out: list[RunningAccountant] = [
        PrivacyLossAccountant(),
        RenyiAccountant(),
        MomentsAccountant(),
        GaussianLimitAccountant(),
    ]
    if allow_unproven is True:
        out.append(BayesianAccountant(steps, allow_unproven=True))
        out.append(WassersteinAccountant(allow_unproven=True))
    return out


def compare_accountants(
    *,
    rate: float,
    steps: int,
    delta: float,
    smallest: float,
    largest: float,
    points: int,
    allow_unproven: bool = False,
) -> AccountantComparison:
    """ε at `points` σ, sensitivity 1, Poisson sampling at `rate`, add-remove.

    Accountants that use gradient distances get the distance 1 for every pair, the largest that clipping allows.
    """
    check_positive("The smallest σ", smallest)
    check_positive("The largest σ", largest)
    check_count("The number of points", points, 2, 1000)
    check_count("The number of steps", steps)
    check_delta(delta)
    if largest <= smallest:
        raise UsageError("The largest σ must exceed the smallest one.")
    sigmas = tuple(float(s) for s in np.geomspace(smallest, largest, points))
    columns: list[list[float]] = []
    for sigma in sigmas:
        accountants = every_accountant(steps, allow_unproven=allow_unproven)
        event = Sampled(Gaussian(sigma, 1.0, Adjacency.ADD_REMOVE), Poisson(rate))
        for accountant in accountants:
            accountant.step(event, np.ones(3) if accountant.need_distances else None, steps)
        columns.append([a.epsilon(delta) for a in accountants])
    names = every_accountant(steps, allow_unproven=allow_unproven)
    curves = tuple(AccountantCurve(a.name, a.standing, tuple(c[i] for c in columns)) for i, a in enumerate(names))
    sampling = Poisson(rate).describe()
    return AccountantComparison(Adjacency.ADD_REMOVE, sampling, delta, steps, sigmas, curves)
