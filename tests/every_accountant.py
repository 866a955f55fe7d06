"""One running accountant of each kind, for tests of what holds for all of them."""

from __future__ import annotations

from privot.accounting.accountants.bayesian_accountant import BayesianAccountant
from privot.accounting.accountants.gdp_accountant import GaussianLimitAccountant
from privot.accounting.accountants.moments_accountant import MomentsAccountant
from privot.accounting.accountants.pld_accountant import PrivacyLossAccountant
from privot.accounting.accountants.rdp_accountant import RenyiAccountant
from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.wasserstein.wasserstein_accountant import WassersteinAccountant


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
