"""JSON and TOML from strangers: bounded in size, depth, values and digits; no name twice, no number that is none."""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from privot.common.declared import declared
from privot.errors import DataError
from privot.opening.limits import MAX_DEPTH, MAX_DIGITS, MAX_NODES, MAX_TEXT, MAX_TOML, shown
from privot.opening.plain_files import read_bytes

_JSON = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]|[,:]', re.DOTALL)
_TOML_TEXTS = re.compile(
    rb'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"""|\'\'\'(?:[^\']|\'{1,2}(?!\'))*+\'\'\''
    rb'|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|#[^\n]*+',
    re.DOTALL,
)


class _NotPlainError(ValueError):
    """JSON that no file of privot's holds; the text says what."""


@declared(path="path")
def read_text(path: str | Path, *, most: int = MAX_TEXT, inside: Path | None = None) -> str:
    """A text in UTF-8; raises DataError where the file holds other bytes, OSError where there is no file."""
    try:
        return read_bytes(path, most=most, inside=inside).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{Path(path).name!r} is damaged: it is not text in UTF-8.") from None


@declared(path="path")
def read_json(path: str | Path, *, inside: Path | None = None) -> Any:
    """The JSON document in a file."""
    return parse_json(read_bytes(path, most=MAX_TEXT, inside=inside), repr(Path(path).name))


def parse_json(data: bytes | str, what: str = "The text") -> Any:
    """A JSON document of at most 64 MiB, 256 levels and 5,000,000 values; whole numbers have at most 40 digits.

    `what` names it in a refusal. NaN, infinities, numbers that overflow, and an object with one name twice are refused.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if not isinstance(data, bytes | str):
        raise DataError(f"{what} is not JSON: expected text, got {type(data).__name__}.")
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_TEXT:
        raise DataError(f"{what} has {shown(len(raw))}: JSON of at most {shown(MAX_TEXT)} is read.")
    try:
        _check_shape(raw)
        return json.loads(
            raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8"),
            parse_int=_whole,
            parse_float=_real,
            parse_constant=_no_number,
            object_pairs_hook=_once,
        )
    except _NotPlainError as error:
        raise DataError(f"{what} is not JSON that privot reads: {error}.") from None
    except (ValueError, RecursionError):
        raise DataError(f"{what} is damaged: it is not JSON.") from None


@declared(path="path")
def read_toml(path: str | Path, *, inside: Path | None = None) -> dict[str, Any]:
    """The TOML document in a file of at most 1 MiB."""
    return parse_toml(read_bytes(path, most=MAX_TOML, inside=inside), repr(Path(path).name))


def parse_toml(data: bytes, what: str = "The text") -> dict[str, Any]:
    """A TOML document of at most 256 levels; numbers are bounded as in JSON."""
    try:
        plain = _TOML_TEXTS.sub(b"", data)
        _check_depth(what, plain)
        # `a.a.a…` takes time that grows with the square of its length
        if any(part.count(b".") > MAX_DEPTH for part in re.split(rb"[,={}\[\]\n]", plain)):
            raise DataError(f"{what} is nested more than {MAX_DEPTH} levels deep: no file of privot's is.")
        if re.search(rb"\d[\d_]{%d}" % MAX_DIGITS, plain):
            raise DataError(f"{what} holds a number of more than {MAX_DIGITS} digits.")
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise DataError(f"{what} is not TOML: it is not text in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{what} is not TOML: {' '.join(str(error).split())[:200]}.") from None
    except (RecursionError, OverflowError):
        raise DataError(f"{what} is not TOML that privot reads.") from None


def _check_shape(raw: bytes) -> None:
    """Depth and number of values, counted without building any."""
    depth = nodes = 0
    for found in _JSON.finditer(raw):
        mark = found[0][:1]
        if mark in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _NotPlainError(f"it is nested more than {MAX_DEPTH} levels deep")
        elif mark in b"]}":
            depth -= 1
            continue
        elif mark == b'"':
            continue
        nodes += 1
        if nodes > MAX_NODES:
            raise _NotPlainError(f"it holds more than {MAX_NODES} values")


def _check_depth(what: str, plain: bytes) -> None:
    depth = 0
    for found in re.finditer(rb"[\[\]{}]", plain):
        depth += 1 if found[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            raise DataError(f"{what} is nested more than {MAX_DEPTH} levels deep: no file of privot's is.")


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise _NotPlainError(f"it holds a whole number of more than {MAX_DIGITS} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _NotPlainError("it holds a number that is too large")
    return value


def _no_number(text: str) -> NoReturn:
    raise _NotPlainError(f"{text} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _NotPlainError("an object has one name twice")
    return made
