"""The neighbour game: a whole job on two neighbours, with the same noisy numbers; nothing else may tell them apart.

A job runs twice in a folder of the same name, once on each neighbour. Every draw of the operating system's entropy is
the same in both runs, and so is every noisy number: what noise is added to is recorded, and in the second run the noisy
number of the first one is handed back. What an attacker sees of the two runs then differs only by a leak: by a byte
that does not come from the noisy numbers.

What enters noise. At each addition both values get the same noise; what comes out then differs by exactly d, what the
noise must hide. Additions of independent Gaussian noise are one Gaussian mechanism, so with σ as it was *drawn*

    µ measured = √Σ (‖d‖ / σ)²      must not exceed      µ claimed = √Σ times·(Δ / σ)²  of the events that were charged.

Where a step runs on a random sample, the sample is the same in both runs, and the claim is one for each step: no step
may move by more than Δ/σ, and no more steps than were charged.

What else counts as lost: noise that is used twice, also in part; a number that leaves without noise of its own; noise
drawn elsewhere; other questions, or more of them, to one neighbour; a charge that depends on a record; a file, a byte,
a size, a message, a step of progress, a warning, an exit code or a dtype that differs.

Not compared: the data themselves, what lies in the ledger (it stays with the records and names them by a keyed hash),
and how long things took, which `privot.audit.implementation.timing` looks at.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import math
import os
import random
import sys
import threading
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from privot.accounting.events import Gaussian, Projection, Sampled, leaves
from privot.cli.printing import progress
from privot.ledger import Ledger, ledger_rows
from privot.ledger import ledger as ledger_home
from privot.noise.adding import add_noise
from privot.noise.adding_tensor import add_drawn
from privot.noise.noise_source import KeyedNoise
from privot.noise.noisy_counts import add_noise_to_counts

ADDERS = (add_noise, add_noise_to_counts, add_drawn)
"""Every Gaussian noise is added to a value in one of these; what is drawn elsewhere is reported."""

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


@dataclass(frozen=True)
class Addition:
    """One addition of noise, and what came out of it."""

    place: str
    shape: tuple[int, ...]
    drawn: np.ndarray
    sigma: float
    noisy: Any
    """What came out: in the first run as it was, in the second the first one's."""
    moved: float = 0.0
    """‖d‖/σ: how far the second neighbour moves what enters."""


@dataclass(frozen=True)
class Draw:
    """Noise as it was drawn: by which function of the product, unless by what adds it."""

    noise: np.ndarray
    sigma: float
    place: str


class World:
    """One of the two runs; the second one is given the first."""

    def __init__(self, first: World | None = None) -> None:
        self.first = first
        self.additions: list[Addition] = []
        self.draws: list[Draw] = []
        self.faults: list[str] = []
        self.seen: dict[str, Any] = {}
        self.progress: list[tuple[Any, ...]] = []
        self.charged: list[Any] = []
        self._keys: dict[str, int] = {}
        self._words = 0
        self._lock = threading.RLock()
        self._adding = threading.local()

    # --- the entropy, the same in both runs

    def urandom(self, count: int) -> bytes:
        """The same bytes at the same call of both runs."""
        with self._lock:
            # counted by who asks: what a first import draws is nobody's noise
            asked = self._keys[_caller()] = self._keys.get(_caller(), 0) + 1
            return hashlib.shake_256(f"entropy {_caller()} {asked}".encode()).digest(count)

    def uniform_bits(self, source: KeyedNoise, count: int) -> np.ndarray:
        """The same words at the same call of both runs: for fewer of them, the first ones."""
        with self._lock:
            self._words += 1
            return np.random.Philox(key=self._words).random_raw(int(count)).astype(np.uint64)

    # --- noise

    def normal(self, source: KeyedNoise, shape: Any, sigma: float) -> np.ndarray:
        """Noise as it is drawn in the first run; in the second one the same."""
        drawn = _NORMAL(source, shape, sigma)
        under_way: list[Draw] | None = getattr(self._adding, "draws", None)
        with self._lock:
            number = len(self.draws)
            if self.first is not None and number < len(self.first.draws):
                then = self.first.draws[number]
                if then.noise.shape == drawn.shape and then.sigma == sigma:
                    drawn = then.noise.copy()
            self.draws.append(Draw(drawn.copy(), float(sigma), _caller() if under_way is None else ""))
            if under_way is not None:
                under_way.append(self.draws[-1])
        return drawn

    def adder(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, recorded; in the second run its answer is the first run's."""

        def add(value: Any, *more: Any, **how: Any) -> Any:
            self._adding.draws = []
            try:
                noisy = original(value, *more, **how)
                drawn = self._adding.draws
            finally:
                self._adding.draws = None
            with self._lock:
                if torch.is_tensor(value):
                    # drawn beforehand, and handed in
                    drawn = [self._drawn_before(_numbers(how.get("drawn", more[0] if more else None)))]
                return self._added(_caller(), tuple(value.shape), noisy, drawn)

        return add

    def _drawn_before(self, handed: np.ndarray) -> Draw:
        """Noise that was handed in, with the σ it was drawn with; NaN if it was never drawn."""
        for draw in reversed(self.draws):
            if draw.place and np.isin(handed, draw.noise).all():
                return Draw(handed.copy(), draw.sigma, draw.place)
        return Draw(handed.copy(), math.nan, "nowhere")

    def _added(self, place: str, shape: tuple[int, ...], noisy: Any, drawn: list[Draw]) -> Any:
        number, moved = len(self.additions), 0.0
        what = f"addition {number} ({place})"
        if len(drawn) != 1 or drawn[0].noise.shape != shape or math.isnan(drawn[0].sigma):
            told = [(draw.noise.shape, draw.sigma) for draw in drawn]
            self.faults.append(f"{what}: numbers of the shape {shape} leave without noise of their own, with {told}")
        one = drawn[0] if drawn else Draw(np.zeros(0), math.nan, "")
        if self.first is not None and number >= len(self.first.additions):
            self.faults.append(f"{what}: the other neighbour has no such addition")
        elif self.first is not None:
            then = self.first.additions[number]
            if (then.place, then.shape, then.sigma) != (place, shape, one.sigma):
                told = f"{then.place} {then.shape} σ {then.sigma:g}"
                self.faults.append(f"{what} {shape} σ {one.sigma:g} is {told} for the other neighbour")
            else:
                # both have the same noise now, so what comes out differs by what the noise must hide
                moved = float(np.linalg.norm(_numbers(noisy) - _numbers(then.noisy))) / one.sigma
                noisy = _copied(then.noisy)
        self.additions.append(Addition(place, shape, one.noise, one.sigma, _copied(noisy), moved))
        return noisy

    # --- what is printed

    def tells(self, what: str) -> Iterator[Callable[..., None]]:
        """In place of a bar or of lines: every step is kept, however fast the machine is."""
        yield lambda *step: self.progress.append((what, *(_shown(part) for part in step)))


_NORMAL = KeyedNoise.normal


def _caller() -> str:
    """The function of the product that asks, without its line."""
    frame = sys._getframe(1)
    passed = {"privot.noise.noise_source", "privot.noise.adding_tensor", __name__}
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("privot.") and name not in passed:
            return f"{name.removeprefix('privot.')}.{frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return "a test"


def _numbers(noisy: Any) -> np.ndarray:
    return np.asarray(noisy.detach().cpu().numpy() if torch.is_tensor(noisy) else noisy, dtype=np.float64)


def _copied(noisy: Any) -> Any:
    return noisy.clone() if torch.is_tensor(noisy) else noisy.copy()


def _shown(part: Any) -> Any:
    return part if isinstance(part, (int, float, str)) else repr(part)


# --- one run


@contextlib.contextmanager
def entered(world: World) -> Iterator[None]:
    """Within: entropy, noise, additions and progress are those of `world`."""
    recorders = {original: world.adder(original) for original in ADDERS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", world.urandom)
        patch.setattr(random, "_urandom", world.urandom)
        patch.setattr(KeyedNoise, "normal", _method(world.normal))
        patch.setattr(KeyedNoise, "uniform_bits", _method(world.uniform_bits))
        for original, recorded in recorders.items():
            for module in _modules():
                if vars(module).get(original.__name__) is original:
                    patch.setattr(module, original.__name__, recorded)
        patch.setattr(progress, "_bar", lambda what, *more: world.tells(what))
        patch.setattr(progress, "_lines", lambda what, *more: world.tells(what))
        # an archive tells when it was written, and a ledger's name follows from when it was made
        patch.setattr(ledger_rows, "now", lambda: "2026-01-01T00:00:00.000+00:00")
        patch.setattr(ledger_home, "now", ledger_rows.now)
        patch.setattr(zipfile, "time", SimpleNamespace(time=lambda: 0.0, localtime=lambda at: (2026, 1, 1, 0, 0, 0, 0)))
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        yield
    # what was imported meanwhile keeps what it found
    for original, recorded in recorders.items():
        for module in _modules():
            if vars(module).get(original.__name__) is recorded:
                setattr(module, original.__name__, original)


def _modules() -> list[Any]:
    return [module for name, module in list(sys.modules.items()) if name.startswith("privot") and module is not None]


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda source, *more: function(source, *more)


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
        for path in sorted(folder.rglob("*.ledger")):
            with Ledger.open(path) as book:
                world.charged += [entry.event for entry in book.entries()]
    finally:
        os.chdir(before)
        root.removeHandler(handler)
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
