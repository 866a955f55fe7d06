"""Plan a budget before any data is touched: what a release will cost, or how much noise a budget needs."""

from privot.accounting.planning.plan_terms import Plan, choose_sampling, count_steps
from privot.accounting.planning.release_plans import Clipping, embedding, gradient, laplace, projection

__all__ = ["Clipping", "Plan", "choose_sampling", "count_steps", "embedding", "gradient", "laplace", "projection"]
