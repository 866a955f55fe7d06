"""Generators that are trained: vectors and images from released means or noisy gradients; no record comes here."""
