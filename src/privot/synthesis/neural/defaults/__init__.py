"""Defaults from public facts alone: what to build, how long to train; no record, no release."""
