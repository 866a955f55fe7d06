"""Public feature maps φ with ‖φ(x)‖ ≤ 1, whose class means are released and matched."""
