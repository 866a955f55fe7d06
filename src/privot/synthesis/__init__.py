"""Turns a private data set into a generator and synthetic records; after its release it may not touch the vault."""
