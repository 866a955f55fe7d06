"""Wasserstein differential privacy: the type, the exact distances, and the published claims, each with its standing."""
