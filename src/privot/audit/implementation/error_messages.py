"""Looks for values of records in all output of failures: errors, tracebacks, logs, warnings, representations.

The records are the audit's own and hold a number that occurs nowhere else. Each kind of failure is caused, and all its
output is searched for the number.
"""

from __future__ import annotations

import io
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from privot.accounting.events import Event, Gaussian
from privot.audit.findings import Check
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import Facts, Needs, RandomProjection
from privot.mechanisms.mechanism import Records
from privot.noise import NoiseSource, SystemNoise
from privot.vault import Vault

MARKER = 738291.4375
"""A number that float32 and float64 hold exactly and that nothing else here comes near."""
_TEXTS = ("738291", "7.38291")


def holds_marker(text: str) -> bool:
    """Whether a text holds the marker number in one of its written forms."""
    return any(t in text for t in _TEXTS)


@dataclass(frozen=True)
class Failing:
    """A mechanism that fails while it runs, and quotes records as careless code does."""

    how: str
    steps: int = 1

    @property
    def needs(self) -> Needs:
        """Anything."""
        return Needs()

    @property
    def standing(self) -> Standing:
        """PROVEN, so that the vault runs it."""
        return Standing.PROVEN

    @property
    def seed(self) -> int | None:
        """None."""
        return None

    def event(self, facts: Facts) -> Event:
        """A Gaussian."""
        return Gaussian(1.0, 1.0, facts.adjacency)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Any, Mapping[str, Any]]:
        """Fail."""
        rows = records.rows()
        if self.how == "quote":
            raise ValueError(f"cannot handle {rows.tolist()}")
        if self.how == "chain":
            try:
                raise KeyError(float(rows[0, 0]))
            except KeyError as error:
                raise RuntimeError(f"bad record {rows[0]}") from error
        if self.how == "public":
            return noise.normal(2, 1.0), {"first": rows[0]}
        if self.how == "object":
            return np.array([str(rows[0])], dtype=object), {}
        raise KeyboardInterrupt(str(rows))


def _attempts(x: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    def vault(rows: Any = x, **more: Any) -> Vault:
        fields: dict[str, Any] = {"clip": 1.0, "adjacency": Adjacency.REPLACE_ONE, "budget": (10.0, 1e-5), **more}
        return Vault(rows, **fields)

    for how in ("quote", "chain", "public", "object", "interrupt"):
        yield f"a mechanism that fails ({how})", lambda h=how: vault().release(Failing(h), purpose="audit")  # type: ignore[misc]
    yield "a budget that refuses", lambda: vault(budget=(1e-3, 1e-5)).release(RandomProjection(2, 1.0), purpose="audit")
    yield "labels that are not whole numbers", lambda: vault(y=x[:, 0], classes=2)
    yield "a record that is not finite", lambda: vault(np.vstack([x, np.full(x.shape[1], np.nan)]))
    yield "rows of different lengths", lambda: vault([list(x[0]), [MARKER]])
    yield "text among numbers", lambda: vault([[str(MARKER), "none"], ["1", "2"]])
    yield "a copy of the vault", lambda: __import__("copy").deepcopy(vault())
    yield "the vault as text", lambda: print(repr(vault()), str(vault()), vars(type(vault())))
    yield "a release of noise", lambda: print(repr(vault().release(RandomProjection(2, 1.0), purpose="audit")))


def errors_reveal_no_record() -> list[Check]:
    """One check per kind of failure: no error, log line or warning holds a value of a record."""
    x = np.full((4, 3), MARKER)
    x[1:] = np.arange(9.0).reshape(3, 3)
    SystemNoise().normal(2, 1.0)
    return [_check_output(name, attempt) for name, attempt in _attempts(x)]


def _check_output(name: str, attempt: Callable[[], Any]) -> Check:
    text = ""
    with _captured_output() as output:
        try:
            attempt()
        except BaseException as error:
            text += "".join(traceback.format_exception(error))
            text += _held(error)
    text += output()
    return Check(f"no record in the output of {name}", not holds_marker(text), f"{len(text)} characters of output")


@contextmanager
def _captured_output() -> Iterator[Callable[[], str]]:
    """Captures standard output and error, logs and warnings within the block."""
    out, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield lambda: out.getvalue() + log.getvalue() + " ".join(str(w.message) for w in warned)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _held(error: BaseException | None) -> str:
    """Arrays, lists and texts in the vault's frames that an error, its cause and its context hold."""
    parts = []
    while error is not None:
        parts += [repr(error.args), *_frames(error.__traceback__)]
        error = error.__cause__ or error.__context__
    return " ".join(parts)


def _frames(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        frame = trace.tb_frame
        name = str(frame.f_globals.get("__name__", ""))
        # the audit's own frames and the vault's constructor hold the records rightly
        if name.startswith("privot.") and not name.startswith("privot.audit") and frame.f_code.co_name == "__run":
            for value in frame.f_locals.values():
                if isinstance(value, np.ndarray | list | tuple | str):
                    with np.printoptions(threshold=10_000):
                        yield repr(value)
        trace = trace.tb_next
