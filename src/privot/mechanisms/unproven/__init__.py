"""Mechanisms as published that no theorem covers, for comparison only; each needs an explicit opt-in."""
