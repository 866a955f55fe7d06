"""What a release costs: events, and the accountants that count them. Needs no tensor library and no data."""

from privot.accounting.accountant import account, read_guarantee
from privot.accounting.accountants.bayesian_accountant import BayesianAccountant
from privot.accounting.accountants.gdp_accountant import GaussianLimitAccountant
from privot.accounting.accountants.moments_accountant import MomentsAccountant
from privot.accounting.accountants.pld_accountant import PrivacyLossAccountant
from privot.accounting.accountants.rdp_accountant import RenyiAccountant
from privot.accounting.calibration import calibrate
from privot.accounting.events import Composed, Gaussian, Laplace, Repeated, Sampled
from privot.accounting.planning.release_plans import embedding, gradient, laplace, projection
from privot.accounting.privacy_filter import PrivacyFilter
from privot.accounting.sampling import FixedSize, Poisson
from privot.accounting.wasserstein.wasserstein_accountant import WassersteinAccountant

__all__ = [
    "BayesianAccountant",
    "Composed",
    "FixedSize",
    "Gaussian",
    "GaussianLimitAccountant",
    "Laplace",
    "MomentsAccountant",
    "Poisson",
    "PrivacyFilter",
    "PrivacyLossAccountant",
    "RenyiAccountant",
    "Repeated",
    "Sampled",
    "WassersteinAccountant",
    "account",
    "calibrate",
    "embedding",
    "gradient",
    "laplace",
    "projection",
    "read_guarantee",
]
