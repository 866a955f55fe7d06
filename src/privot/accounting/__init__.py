"""What a release costs: events, and the accountants that count them. Needs no tensor library and no data."""

from privot.accounting.accountant import EventCurve, account, read_guarantee
from privot.accounting.calibration import calibrate, largest_count
from privot.accounting.events import (
    Composed,
    Downgraded,
    Event,
    Gaussian,
    Laplace,
    Projection,
    Renyi,
    Repeated,
    Sampled,
    Unbounded,
    event_from_dict,
)
from privot.accounting.plans import Plan, embedding, gradient, projection
from privot.accounting.sampling import FixedSize, Poisson

__all__ = [
    "Composed",
    "Downgraded",
    "Event",
    "EventCurve",
    "FixedSize",
    "Gaussian",
    "Laplace",
    "Plan",
    "Poisson",
    "Projection",
    "Renyi",
    "Repeated",
    "Sampled",
    "Unbounded",
    "account",
    "calibrate",
    "embedding",
    "event_from_dict",
    "gradient",
    "largest_count",
    "projection",
    "read_guarantee",
]
