"""Training a model on records in a vault: DP-SGD, honest and as published, counted by any number of accountants.

`train` takes any gradients; models and their gradients need PyTorch, which their modules say where it is missing.
"""

from privot.training.dp_sgd_loop import Training, train

__all__ = ["Training", "train"]
