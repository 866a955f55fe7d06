"""Accountants that count while a run goes on, all behind one interface; each says how firmly its number stands."""

from privot.accounting.accountants.bayesian_accountant import BayesianAccountant
from privot.accounting.accountants.gdp_accountant import GaussianLimitAccountant
from privot.accounting.accountants.moments_accountant import MomentsAccountant
from privot.accounting.accountants.opacus_history import history_event
from privot.accounting.accountants.pld_accountant import PrivacyLossAccountant
from privot.accounting.accountants.rdp_accountant import RenyiAccountant
from privot.accounting.accountants.running_accountant import (
    CountedEpsilon,
    RunningAccountant,
    all_pairs,
    gradient_distances,
)

__all__ = [
    "BayesianAccountant",
    "CountedEpsilon",
    "GaussianLimitAccountant",
    "MomentsAccountant",
    "PrivacyLossAccountant",
    "RenyiAccountant",
    "RunningAccountant",
    "all_pairs",
    "gradient_distances",
    "history_event",
]
