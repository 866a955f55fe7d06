"""Ours and the peers', timed in one run: the only place where speed is shown."""
