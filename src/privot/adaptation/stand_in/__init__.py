"""Adaptation to a private stand-in: synthetic target records from one release, then adaptation as if they were real."""
