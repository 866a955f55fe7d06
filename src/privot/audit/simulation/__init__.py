"""Neighbouring data sets of the audit's own, runs of a mechanism on them, and runs without its noise."""
