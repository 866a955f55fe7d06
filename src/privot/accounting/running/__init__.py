"""Accountants that count while a run goes on, all behind one interface; each says how firmly its number stands."""

from privot.accounting.running.base import (
    Count,
    RunningAccountant,
    all_pairs,
    gradient_distances,
)
from privot.accounting.running.bayesian import BayesianAccountant
from privot.accounting.running.history import history_event
from privot.accounting.running.limit import GaussianLimitAccountant
from privot.accounting.running.losses import PrivacyLossAccountant
from privot.accounting.running.moments import MomentsAccountant
from privot.accounting.running.renyi import RenyiAccountant

__all__ = [
    "BayesianAccountant",
    "Count",
    "GaussianLimitAccountant",
    "MomentsAccountant",
    "PrivacyLossAccountant",
    "RenyiAccountant",
    "RunningAccountant",
    "all_pairs",
    "gradient_distances",
    "history_event",
]
