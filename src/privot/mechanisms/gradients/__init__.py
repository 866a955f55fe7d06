"""Mechanisms that release gradients: DP-SGD, DP-Sinkhorn, a generator's parameters, a linear head."""
