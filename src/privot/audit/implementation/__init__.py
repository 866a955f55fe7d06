"""Audits of the code rather than the mathematics: floating point, key reuse, shapes, timing, errors, disk."""
