"""What one input of the fuzzer is: a command, the folder it runs in, and the exit codes that are right for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

DONE, USAGE, DATA, BUDGET, UNPROVEN, CONVERGENCE, REFUTED = 0, 2, 3, 4, 5, 6, 7


@dataclass(frozen=True)
class Case:
    """`arguments` of privot, run in a folder that `prepare` fills from the kit; `codes` are the right exit codes.

    Arguments that begin with `@` name a function of `fuzz.calls` in place of a command.
    """

    kind: str
    number: int
    arguments: list[str]
    prepare: Callable[[Path, Path], None]
    codes: frozenset[int]
    note: str = ""

    @property
    def name(self) -> str:
        """How it is named in `--only`."""
        return f"{self.kind}:{self.number}"


def random_of(seed: int, kind: str, number: int) -> Random:
    """All choices of one case: they depend on the seed and the case's name, not on the cases before it."""
    return Random(f"{seed} {kind} {number}")  # noqa: S311
