"""Studies of DP-Sinkhorn."""
