"""One running accountant of each kind, for tests of what holds for all of them."""

from __future__ import annotations

from privot.accounting.accountants import (
    BayesianAccountant,
    GaussianLimitAccountant,
    MomentsAccountant,
    PrivacyLossAccountant,
    RenyiAccountant,
    RunningAccountant,
)
from privot.accounting.wasserstein import WassersteinAccountant


def every_accountant(steps: int, *, allow_unproven: bool = False) -> list[RunningAccountant]:
    """For a run of `steps` steps; the unproven ones only if they are allowed."""
    found: list[RunningAccountant] = [
        PrivacyLossAccountant(),
        RenyiAccountant(),
        MomentsAccountant(),
        GaussianLimitAccountant(),
    ]
    if allow_unproven:
        found += [BayesianAccountant(steps, allow_unproven=True), WassersteinAccountant(allow_unproven=True)]
    return found
