"""Messages between parties as bytes: one JSON text and plain arrays. A message is untrusted input, so all is checked.

The bytes are a `.npz` file without compression, with the facts in `message.json`; nothing is ever unpickled. A
reader states what it expects (kind, names, axes), and everything else raises `DataError` before any array is used.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.opening import parse_json
from privot.opening.archives import Archive

SCHEMA_VERSION = 1
MAX_BYTES = 1 << 28
MAX_ROWS = 200_000
MAX_COLUMNS = 1_000_000
LARGEST = 1e12
"""Largest number in a message: distances between larger ones would have no precision."""
MIN_T = 0.01
_FACTS = "message.json"

Array = NDArray[np.float64]


def encode(
    kind: str, facts: Mapping[str, Any], arrays: Mapping[str, Array], files: Mapping[str, bytes] | None = None
) -> bytes:
    """A message as bytes, with `files` embedded whole; the same message gives the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        head = {"schema": SCHEMA_VERSION, "kind": kind, "facts": dict(facts)}
        text = json.dumps(head, allow_nan=False, ensure_ascii=False, sort_keys=True)
        archive.writestr(zipfile.ZipInfo(_FACTS), text)
        for name, array in sorted(arrays.items()):
            body = io.BytesIO()
            np.lib.format.write_array(body, np.ascontiguousarray(array, dtype="<f8"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name + ".npy"), body.getvalue())
        for name, content in sorted((files or {}).items()):
            archive.writestr(zipfile.ZipInfo(name + ".bin"), content)
    return out.getvalue()


def decode(data: bytes, kind: str, axes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Array]]:
    """(facts, arrays) of a message of this kind that holds exactly the arrays in `axes` (name → number of axes)."""
    facts, arrays, files = decode_any(data, kind, axes)
    if files or set(arrays) != set(axes):
        raise DataError(f"A {kind} message must hold {', '.join(sorted(axes))} and nothing else.")
    return facts, arrays


def decode_any(
    data: bytes, kind: str, axes: Mapping[str, int], files: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Array], dict[str, bytes]]:
    """(facts, arrays, files) of a message of this kind that holds some of these arrays and files and nothing else."""
    if len(data) > MAX_BYTES:
        raise DataError(f"The message has {len(data)} bytes: at most {MAX_BYTES} are accepted.")
    try:
        archive = Archive(io.BytesIO(data), "message", stored=True)
        names = set(archive.names)
        head = parse_json(archive.read(_FACTS))
        schema, found = head["schema"], head["kind"]
        facts = dict(head["facts"])
        arrays = {name: archive.array(name + ".npy") for name in axes if name + ".npy" in names}
        found_files = {name: archive.read(name + ".bin") for name in files if name + ".bin" in names}
    except Exception:  # a damaged message can raise nearly anything
        raise DataError("The message is damaged, or was not written by privot.") from None
    if schema != SCHEMA_VERSION:
        raise DataError(f"The message has schema {str(schema)[:20]!r}; this version reads {SCHEMA_VERSION}.")
    if found != kind:
        raise DataError(f"Expected a message of kind {kind}, got {str(found)[:20]!r}.")
    known = {_FACTS} | {name + ".npy" for name in arrays} | {name + ".bin" for name in found_files}
    if names != known:
        raise DataError(f"A {kind} message may hold {', '.join(sorted((*axes, *files)))} and nothing else.")
    for name, array in arrays.items():
        check_array(f"{name} of the {kind} message", array, axes[name])
    return facts, {name: np.array(array, dtype=np.float64) for name, array in arrays.items()}, found_files


def check_array(what: str, array: Any, axes: int) -> None:
    """Raise `DataError` for other shapes or types, too many entries, NaN, or numbers beyond `LARGEST`."""
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.ndim != axes or array.size == 0:
        raise DataError(f"The {what} must be numbers with {axes} axes.")
    if array.shape[0] > MAX_ROWS or (axes > 1 and array.shape[1] > MAX_COLUMNS):
        raise DataError(f"The {what} has shape {array.shape}, which is larger than is accepted.")
    if not (np.isfinite(array).all() and float(np.abs(array).max()) <= LARGEST):
        raise DataError(f"The {what} must hold finite numbers of at most {LARGEST:g}.")


def check_share(name: str, value: Any, low: float = 0.0, high: float = 1.0) -> float:
    """`value` as a float, if it is a number from `low` to below `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < high:
        raise DataError(f"{name} must be a number from {low:g} to below {high:g}.")
    return float(value)


def check_order(value: Any) -> float:
    """The order p of a distance, if it is one."""
    return check_share("p", value, 1.0, 1e3)


@dataclass(frozen=True, eq=False)
class Question:
    """A coordinator's question to a party: move your points by the share `t` towards `towards`, in round `number`."""

    towards: Array
    t: float
    p: float = 2.0
    number: int = 0
    kind: ClassVar[str] = "question"

    def __post_init__(self) -> None:
        check_array("points of a question", self.towards, 2)
        # with t = 0 the answer would be the records themselves
        check_share("t", self.t, MIN_T)
        check_order(self.p)
        _check_round(self.number)

    def to_bytes(self) -> bytes:
        """The encoded message, not signed."""
        return encode(self.kind, {"t": self.t, "p": self.p, "number": self.number}, {"towards": self.towards})

    @classmethod
    def from_bytes(cls, data: bytes) -> Question:
        """Read a message; raises `DataError` unless it is well formed."""
        facts, arrays = decode(data, cls.kind, {"towards": 2})
        return cls(arrays["towards"], *_values(facts, "t", "p", "number"))


@dataclass(frozen=True, eq=False)
class Interpolant:
    """A party's answer: its interpolated points, and the distance of its points from those in the question."""

    points: Array
    distance: float
    t: float
    p: float = 2.0
    number: int = 0
    kind: ClassVar[str] = "interpolant"

    def __post_init__(self) -> None:
        check_array("points of an interpolant", self.points, 2)
        check_share("The distance", self.distance, 0.0, LARGEST)
        check_share("t", self.t, MIN_T)
        check_order(self.p)
        _check_round(self.number)

    def to_bytes(self) -> bytes:
        """The encoded message, not signed."""
        facts = {"distance": self.distance, "t": self.t, "p": self.p, "number": self.number}
        return encode(self.kind, facts, {"points": self.points})

    @classmethod
    def from_bytes(cls, data: bytes) -> Interpolant:
        """Read a message; raises `DataError` unless it is well formed."""
        facts, arrays = decode(data, cls.kind, {"points": 2})
        return cls(arrays["points"], *_values(facts, "distance", "t", "p", "number"))

    def check_answers(self, question: Question) -> None:
        """Raise `DataError` unless round, order, share and dimension are those of `question`."""
        if (self.number, self.p, self.t) != (question.number, question.p, question.t):
            raise DataError("The interpolant answers another question than the one that was sent.")
        if self.points.shape[1] != question.towards.shape[1]:
            raise DataError("The interpolant has another number of columns than the question.")


def _check_round(number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise DataError("The number of a round must be a whole number of at least 0.")


def _values(facts: Mapping[str, Any], *names: str) -> list[Any]:
    if set(facts) != set(names):
        raise DataError(f"The message must hold {', '.join(names)} and nothing else.")
    return [facts[name] for name in names]
