"""Closed forms and special functions: the Gaussian mechanism, the projection law, ₁F₁."""
