"""One of the two runs of a neighbour game: its entropy is repeatable, and every addition of noise is recorded.

In the first run noise is drawn as ever. In the second one the same noise is drawn, and each addition answers what it
answered in the first run, whatever was to be hidden; by how much that differed is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import random
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from privot.cli.printing import progress
from privot.ledger import ledger as ledger_home
from privot.ledger import ledger_rows
from privot.noise.adding import add_noise
from privot.noise.adding_tensor import add_drawn
from privot.noise.noise_source import KeyedNoise
from privot.noise.noisy_counts import add_noise_to_counts

ADDERS = (add_noise, add_noise_to_counts, add_drawn)
"""Every Gaussian noise is added to a value in one of these; what is drawn elsewhere is reported."""


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
        self.sampled: list[int] = []
        self.charged: list[Any] = []
        self.codes: list[int] = []
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

    # --- samples: the record in which neighbours differ, the last one, is in all of them

    def poisson_sample(self, source: KeyedNoise, records: int, rate: float) -> np.ndarray:
        """The same sample in both runs, and the last record of the first run, where it is one of this run."""
        with self._lock:
            number = len(self.sampled)
            self.sampled.append(records)
        taken = np.random.Generator(np.random.Philox(key=number)).random(records) < rate
        first = self.first.sampled[number : number + 1] if self.first is not None else [records]
        if first == [records]:
            taken[-1] = True
        return np.flatnonzero(taken)

    def sample_without_replacement(self, source: KeyedNoise, records: int, batch: int) -> np.ndarray:
        """The same sample in both runs, with the last record."""
        taken = _SAMPLE(source, records, batch)
        if records - 1 not in taken:
            taken[0] = records - 1
        return taken

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


_NORMAL, _SAMPLE = KeyedNoise.normal, KeyedNoise.sample_without_replacement


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
        for drawn in ("normal", "uniform_bits", "poisson_sample", "sample_without_replacement"):
            patch.setattr(KeyedNoise, drawn, _method(getattr(world, drawn)))
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
