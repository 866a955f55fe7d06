"""Refinements paid by a later part of the budget: labels of samples, and the warp of samples."""
