"""The neighbour game: a whole job on two neighbours, with the same noisy numbers; nothing else may tell them apart.

A job runs twice in a folder of the same name, once on each neighbour. Every draw of the operating system's entropy is
the same in both runs, and so is every noisy number: what noise is added to is recorded, and in the second run the noisy
number of the first one is handed back. What an attacker sees of the two runs then differs only by a leak: by a byte
that does not come from the noisy numbers.

What enters noise. At each addition both values get the same noise; what comes out then differs by exactly d, what the
noise must hide. Additions of independent Gaussian noise are one Gaussian mechanism, so with σ as it was *drawn*

    µ measured = √Σ (‖d‖ / σ)²      must not exceed      µ claimed = √Σ times·(Δ / σ)²  of the events that were charged.

Where a step runs on a random sample, the sample is the same in both runs, with the record in which they differ always
in it. The claim is one for each step then: no step may move by more than Δ/σ, and no more steps than were charged.

What else counts as lost: noise that is used twice, also in part; a number that leaves without noise of its own; noise
drawn elsewhere; other questions, or more of them, to one neighbour; a charge that depends on a record; a file, a byte,
a size, a message, a step of progress, a warning, an exit code or a dtype that differs.

Not compared: the data themselves, what lies in the ledger (it stays with the records and names them by a keyed hash),
and how long things took, which `privot.audit.implementation.timing` looks at.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recorded_world import World, entered

from privot.accounting.events import Gaussian, Projection, Sampled, leaves
from privot.ledger import Ledger

ROUNDING = 1e-9
"""Relative: a measured µ is a sum of floating-point numbers."""

PRIVATE = (".ledger", ".ledger.key", ".ledger.anchor", ".ledger-wal", ".ledger-shm", ".lock")
"""Endings of files that stay with the records."""


@dataclass(frozen=True)
class Job:
    """A whole job: how its inputs are laid out for either neighbour, and how it is run on them.

    Parameters
    ----------
    name, adjacency
        Said in the table of results; `adjacency` with its unit, where it has one.
    lay
        `lay(folder, second)` writes the inputs: those of the second neighbour differ by one record or unit.
    run
        Called in that folder; what it returns is compared too.
    private
        More names of input files and folders, of which the bytes are not compared.
    """

    name: str
    adjacency: str
    lay: Callable[[Path, bool], None]
    run: Callable[[], Any]
    private: tuple[str, ...] = ()


def _ran(job: Job, folder: Path, second: bool, first: World | None) -> World:
    """One run of the job in `folder`, which is made for it."""
    world = World(first)
    folder.mkdir(parents=True)
    job.lay(folder, second)
    inputs = {path.relative_to(folder) for path in folder.rglob("*")}
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler, root, before = logging.StreamHandler(log), logging.getLogger(), os.getcwd()
    root.addHandler(handler)
    os.chdir(folder)
    answer: Any = None
    try:
        with (
            entered(world),
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            warnings.simplefilter("always")
            try:
                answer = job.run()
            except Exception as error:
                answer = "".join(traceback.format_exception_only(error))
                world.seen["exception"] = answer
        # whoever is public, or another party, has the same budget beside either neighbour
        for path in sorted(path for path in folder.rglob("*.ledger") if not path.name.startswith("public")):
            with Ledger.open(path) as book:
                world.charged += [entry.event for entry in book.entries()]
    finally:
        os.chdir(before)
        root.removeHandler(handler)
    world.codes = [code for code in answer if isinstance(code, int)] if isinstance(answer, list) else []
    world.seen |= {"answer": shape_of(answer), "standard output": out.getvalue(), "standard error": err.getvalue()}
    world.seen |= {
        "log": log.getvalue(),
        "warnings": [str(w.message) for w in warned if not _old(w)],
        "progress": world.progress,
    }
    world.seen["charges"] = repr(world.charged)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name not in inputs and not str(name).endswith(PRIVATE) and not set(name.parts) & set(job.private):
            world.seen[f"file {name}"] = path.read_bytes() if path.is_file() else "a folder"
    return world


def _old(warning: Any) -> bool:
    """Python says once in a process that something is deprecated."""
    return issubclass(warning.category, (DeprecationWarning, FutureWarning))


def shape_of(answer: Any) -> Any:
    """An answer of Python, dtypes and all, as something that can be compared."""
    if isinstance(answer, dict):
        return {str(name): shape_of(part) for name, part in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [type(answer).__name__, *(shape_of(part) for part in answer)]
    if isinstance(answer, np.ndarray):
        return ["array", str(answer.dtype), answer.shape, answer.tobytes()]
    if torch.is_tensor(answer):
        return ["tensor", str(answer.dtype), shape_of(answer.detach().cpu().numpy())]
    kind = f"{type(answer).__module__}.{type(answer).__name__}"
    if kind.startswith("pandas."):
        kinds = {str(name): str(dtype) for name, dtype in answer.dtypes.items()}
        return [kind, kinds, repr(answer.index), {str(n): repr(list(answer[n])) for n in answer.columns}]
    if kind.startswith("polars."):
        return [kind, {n: str(d) for n, d in answer.schema.items()}, repr(answer.to_dict(as_series=False))]
    if kind.startswith("pyarrow."):
        return [kind, str(answer.schema), repr(answer.to_pydict())]
    return [kind, repr(answer)]


# --- the verdict

HEAD = """| job | neighbours | µ claimed | µ measured | over | what differs |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Result:
    """What one game showed; `claimed` and `measured` are per step where steps run on samples."""

    job: Job
    claimed: float
    measured: float
    additions: int
    steps: str
    faults: tuple[str, ...]
    differs: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether the attacker lost: no more was measured than claimed, and nothing else differs."""
        return not self.faults and not self.differs and self.measured <= self.claimed * (1 + ROUNDING)

    def line(self) -> str:
        """A row of the table of results."""
        lost = "; ".join((*self.faults, *self.differs)) or "nothing"
        told = f"{self.measured:.4f}" if self.measured <= self.claimed * (1 + ROUNDING) else f"**{self.measured:.4f}**"
        return f"| {self.job.name} | {self.job.adjacency} | {self.claimed:.4f} | {told} | {self.steps} | {lost} |"


def play(job: Job, folder: Path) -> Result:
    """Run the job on both neighbours below `folder`, and say what tells them apart."""
    ways = folder / "work"
    one = _ran(job, ways, False, None)
    ways.rename(folder / "first")
    two = _ran(job, ways, True, one)
    ways.rename(folder / "second")
    faults = [*one.faults, *(fault for fault in two.faults if fault not in one.faults), *_reused(one), *_elsewhere(one)]
    if len(two.additions) != len(one.additions):
        faults.append(
            f"noise is added {len(one.additions)} times for one neighbour, {len(two.additions)} for the other"
        )
    if "exception" in one.seen or any(one.codes):
        said = one.seen.get("exception") or one.seen["standard error"]
        faults.append(f"the job failed, with the codes {one.codes}: {said.strip()}")
    if not one.additions:
        faults.append("no noise was added at all")
    moved = [addition.moved for addition in two.additions]
    if not any(moved):
        faults.append("the neighbours move nothing: the game was played on equal records")
    claimed, measured, steps = _compared(one.charged, moved, faults)
    return Result(job, claimed, measured, len(moved), steps, tuple(faults), tuple(differences(one.seen, two.seen)))


def _compared(charged: list[Any], moved: list[float], faults: list[str]) -> tuple[float, float, str]:
    """µ claimed and measured of the whole, or of the worst step where steps run on samples."""
    each: list[tuple[float, int, bool]] = []
    for event in charged:
        for leaf, times in leaves(event):
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            if isinstance(inner, Projection):
                # whole orthonormal frames move a row by Δ each, and a part of one by no more
                rises = math.sqrt(math.ceil(inner.slices / inner.dim)) if inner.frame == "orthogonal" else math.nan
                each.append((rises * inner.sensitivity / inner.sigma, times, isinstance(leaf, Sampled)))
            elif isinstance(inner, Gaussian):
                each.append((inner.sensitivity / inner.sigma, times, isinstance(leaf, Sampled)))
            else:
                faults.append(f"a {inner.kind} event was charged, for which the game has no µ")
    if not each:
        faults.append("nothing was charged")
        return 0.0, math.sqrt(sum(m * m for m in moved)), "nothing charged"
    if not any(sampled for _, _, sampled in each):
        total = math.sqrt(sum(times * mu * mu for mu, times, _ in each))
        return total, math.sqrt(sum(m * m for m in moved)), f"{len(moved)} additions"
    steps = sum(times for _, times, _ in each)
    if sum(m > 0 for m in moved) > steps:
        faults.append(f"{sum(m > 0 for m in moved)} steps moved, {steps} were charged")
    return max(mu for mu, _, _ in each), max(moved, default=0.0), f"a step, of {steps} on samples"


def _reused(world: World) -> list[str]:
    """Noise that serves twice, at whatever σ: two additions, or two numbers of one."""
    found, used = [], np.zeros(0)
    for number, addition in enumerate(world.additions):
        # twelve digits of a standard normal number: two of 10⁵ independent ones agree once in a thousand games
        drawn = np.round(addition.drawn.ravel() / addition.sigma, 12)
        by_chance = 1e-11 * drawn.size * (drawn.size + used.size)
        if drawn.size - len(np.unique(drawn)) > by_chance:
            found.append(f"addition {number} ({addition.place}) uses one draw for several numbers")
        if np.isin(drawn, used).sum() > by_chance:
            found.append(f"addition {number} ({addition.place}) uses noise of an earlier one again")
        used = np.concatenate([used, drawn])
    return found


def _elsewhere(world: World) -> list[str]:
    """Noise that was drawn, but that nothing recorded adds to anything."""
    used = np.concatenate([np.zeros(0), *(addition.drawn.ravel() for addition in world.additions)])
    places = {draw.place for draw in world.draws if draw.place and not np.isin(draw.noise, used).any()}
    return [f"noise is drawn in {place}, and added where the game does not see it" for place in sorted(places)]


def differences(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """What differs between what two runs showed, in words."""
    found = []
    for name in sorted({*one, *two}):
        if name not in one or name not in two:
            found.append(f"{name} is there for one neighbour only")
        elif one[name] != two[name]:
            found.append(f"{name}: {_difference(one[name], two[name])}")
    return found


def _difference(one: Any, two: Any) -> str:
    if isinstance(one, bytes) and isinstance(two, bytes):
        if one[:2] == two[:2] == b"PK":
            members = [dict(_members(content)) for content in (one, two)]
            return "; ".join(differences(*members)) or f"bytes of the archive, {len(one)} and {len(two)} in all"
        told = f"{len(one)} and {len(two)} bytes" if len(one) != len(two) else "bytes"
        at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
        return f"{told}, from {at} on: {one[max(0, at - 30) : at + 30]!r} and {two[max(0, at - 30) : at + 30]!r}"
    if isinstance(one, dict) and isinstance(two, dict):
        return "; ".join(differences(one, two))
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return "; ".join(_difference(a, b) for a, b in zip(one, two, strict=True) if a != b)
    if isinstance(one, str) and isinstance(two, str):
        return _difference(one.encode(), two.encode())
    return f"{one!r} and {two!r}"


def _members(content: bytes) -> Iterator[tuple[str, Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        for info in file.infolist():
            yield info.filename, file.read(info)
