"""The laboratory of privot: published tables and figures recomputed, and benchmarks of privot beside its peers.

It is plugged into privot by entry points. It imports privot's public API and the modules that `SECOND_TIER` lists, and
nothing in privot imports it.
"""

__version__ = "0.1.0"
