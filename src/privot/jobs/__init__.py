"""Charge, release, keep, resume: how a job pays once and continues after a kill, for every floor above."""
