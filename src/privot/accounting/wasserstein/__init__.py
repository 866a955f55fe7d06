"""Wasserstein differential privacy: the type, the exact distances, and the published claims, each with its standing."""

from privot.accounting.wasserstein import published
from privot.accounting.wasserstein.absolute_moment import log_absolute_moment
from privot.accounting.wasserstein.distance import (
    distance,
    kantorovich,
    potential,
    sampled_distance,
    translation_distance,
)
from privot.accounting.wasserstein.line_laws import LineLaw, additive, sampled
from privot.accounting.wasserstein.wasserstein_accountant import WassersteinAccountant
from privot.accounting.wasserstein.wasserstein_privacy import (
    WassersteinPrivacy,
    additive_mechanism,
    additive_to_dp,
    from_dp,
    from_kl,
    sampled_mechanism,
)

__all__ = [
    "LineLaw",
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
