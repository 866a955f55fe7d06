"""Trains a model on records in a vault with DP-SGD, correct or as published, with any number of accountants.

Only the vault touches records; training sees noisy gradients. `train` takes any gradients; gradients of models need
PyTorch, and their modules name it if it is missing.
"""

from privot.training.dp_sgd_loop import train
from privot.training.private_steps import PrivateSteps, make_private_with_epsilon

__all__ = ["PrivateSteps", "make_private_with_epsilon", "train"]
