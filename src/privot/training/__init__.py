"""Training a model on records in a vault: DP-SGD, honest and as published, counted by any number of accountants.

Needs torch; the package imports without it, and its modules say so when it is missing.
"""

from privot.training.sgd import Training, train

__all__ = ["Training", "train"]
