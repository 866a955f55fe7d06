"""What a release costs: events, and the accountants that count them. Needs no tensor library and no data."""

from privot.accounting.accountant import EventCurve, account, read_guarantee
from privot.accounting.accountants import (
    BayesianAccountant,
    GaussianLimitAccountant,
    MomentsAccountant,
    PrivacyLossAccountant,
    RenyiAccountant,
    RunningAccountant,
    history_event,
)
from privot.accounting.calibration import calibrate, largest_count
from privot.accounting.events import (
    Composed,
    Downgraded,
    Event,
    Gaussian,
    Laplace,
    PerUnit,
    Projection,
    Renyi,
    Repeated,
    Sampled,
    Unbounded,
    event_from_dict,
)
from privot.accounting.planning import Plan, embedding, gradient, laplace, projection
from privot.accounting.privacy_filter import PrivacyFilter
from privot.accounting.pure import pure_epsilon
from privot.accounting.sampling import FixedSize, Poisson
from privot.accounting.units import for_unit
from privot.accounting.wasserstein import WassersteinAccountant, WassersteinPrivacy

__all__ = [
    "BayesianAccountant",
    "Composed",
    "Downgraded",
    "Event",
    "EventCurve",
    "FixedSize",
    "Gaussian",
    "GaussianLimitAccountant",
    "Laplace",
    "MomentsAccountant",
    "PerUnit",
    "Plan",
    "Poisson",
    "PrivacyFilter",
    "PrivacyLossAccountant",
    "Projection",
    "Renyi",
    "RenyiAccountant",
    "Repeated",
    "RunningAccountant",
    "Sampled",
    "Unbounded",
    "WassersteinAccountant",
    "WassersteinPrivacy",
    "account",
    "calibrate",
    "embedding",
    "event_from_dict",
    "for_unit",
    "gradient",
    "history_event",
    "laplace",
    "largest_count",
    "projection",
    "pure_epsilon",
    "read_guarantee",
]
