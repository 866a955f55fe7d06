"""Neighbouring data sets in vaults, runs of a mechanism on them, and runs without its noise."""
