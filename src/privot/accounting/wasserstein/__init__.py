"""Wasserstein differential privacy: the type, the exact distances, and the published claims, each with its standing."""

from privot.accounting.wasserstein import published
from privot.accounting.wasserstein.accountant import WassersteinAccountant
from privot.accounting.wasserstein.distance import (
    distance,
    kantorovich,
    potential,
    sampled_distance,
    translation_distance,
)
from privot.accounting.wasserstein.laws import Law, additive, sampled
from privot.accounting.wasserstein.moment import log_absolute_moment
from privot.accounting.wasserstein.privacy import (
    WassersteinPrivacy,
    additive_mechanism,
    additive_to_dp,
    from_dp,
    from_kl,
    sampled_mechanism,
)

__all__ = [
    "Law",
    "WassersteinAccountant",
    "WassersteinPrivacy",
    "additive",
    "additive_mechanism",
    "additive_to_dp",
    "distance",
    "from_dp",
    "from_kl",
    "kantorovich",
    "log_absolute_moment",
    "potential",
    "published",
    "sampled",
    "sampled_distance",
    "sampled_mechanism",
    "translation_distance",
]
