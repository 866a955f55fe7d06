"""privot with short training: what the documents print is run as it is printed, but a generator trains for few steps.

Run as a program it is the `privot` command; `short_training` does the same for code in this process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

STEPS = 20


@contextmanager
def short_training() -> Iterator[None]:
    """Every generator trains for `STEPS` steps unless a number is given; what is released and paid stays."""
    from privot.synthesis.neural.defaults import generator_defaults

    usual = generator_defaults.steps
    generator_defaults.steps = lambda problem: STEPS
    try:
        yield
    finally:
        generator_defaults.steps = usual


if __name__ == "__main__":
    from privot.cli import main

    # only what trains needs the patch, and the seconds that its import takes
    with short_training() if "synth" in sys.argv else nullcontext():
        main()
