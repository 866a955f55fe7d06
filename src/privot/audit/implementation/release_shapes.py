"""Compares everything of releases but their numbers: shapes, public facts and failures must not depend on a record.

An empty sample is the critical case: a Poisson sample is sometimes empty, and a mechanism that then returns a shorter
array, another fact or an error reveals it. The records are the audit's own.
"""

from __future__ import annotations

from typing import Any

from privot.audit.findings import Check
from privot.audit.simulation.neighbours import Neighbour, open_stream
from privot.errors import PrivotError
from privot.guarantee import Adjacency
from privot.mechanisms import Mechanism
from privot.noise import NoiseSource

SEEDS = ("seed", "step")
"""Public facts that may differ: they are drawn independently of records, or count steps."""


def outline(release: Any) -> str:
    """Everything of a release that is not a number the noise covers, as one text."""
    arrays = {name: (a.shape, str(a.dtype)) for name, a in release._arrays().items()}
    facts = {name: value for name, value in release.public.items() if name not in SEEDS}
    return repr((sorted(arrays.items()), sorted(facts.items(), key=lambda item: item[0])))


def outlines(
    mechanism: Mechanism,
    held: Neighbour,
    steps: int,
    *,
    clip: float,
    adjacency: Adjacency,
    noise: NoiseSource,
    query: Any = None,
) -> set[str]:
    """The distinct outlines of `steps` steps; a failure counts as one."""
    try:
        stream = open_stream(held, mechanism, steps, clip=clip, adjacency=adjacency, noise=noise)
    except PrivotError as error:
        return {f"refused: {type(error).__name__}"}
    found: set[str] = set()
    for _ in range(steps):
        try:
            found.add(outline(next(stream) if query is None else stream.answer(query)))
        except PrivotError as error:
            found.add(f"failed: {type(error).__name__}")
    return found


def same_outline(
    name: str,
    mechanism: Mechanism,
    without: Neighbour,
    with_: Neighbour,
    *,
    steps: int = 50,
    clip: float,
    adjacency: Adjacency,
    noise: NoiseSource,
    query: Any = None,
) -> Check:
    """Whether all steps on both data sets, including empty samples, have the same outline."""
    seen: set[str] = set()
    for held in (without, with_):
        seen |= outlines(mechanism, held, steps, clip=clip, adjacency=adjacency, noise=noise, query=query)
    passed = len(seen) == 1 and not any(text.startswith(("failed", "refused")) for text in seen)
    detail = f"{2 * steps} steps, {len(seen)} different outline{'s' if len(seen) > 1 else ''}"
    return Check(f"shapes and public facts of {name}", passed, detail)
