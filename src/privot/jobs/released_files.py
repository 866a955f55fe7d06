"""The files of a released folder, for anybody to read: bytes and JSON, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from privot.common.files import sync, writing
from privot.errors import DataError
from privot.opening import parse_json, read_bytes
from privot.opening.limits import MAX_TEXT

__all__ = ["read_json", "sync", "write_bytes", "write_json", "write_parts"]


def write_bytes(path: Path, content: bytes, fresh: bool = False) -> None:
    """`content` as a file for anybody to read, whole or not at all; with `fresh` it never replaces another."""
    write_parts(path, [content], fresh)


def write_parts(path: Path, parts: Iterable[Any], fresh: bool = False) -> None:
    """The same for content in pieces, bytes or arrays, which need not be in memory a second time."""
    try:
        with writing(path, mode=0o644, fresh=fresh) as file:
            for part in parts:
                file.write(part)
    except FileExistsError:
        raise
    except OSError as error:
        # names the file that was asked for, not the temporary one, which is gone
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def write_json(path: Path, fields: Mapping[str, Any], fresh: bool = False) -> None:
    """`fields` as JSON text."""
    write_bytes(path, (json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(), fresh)


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote."""
    try:
        fields = parse_json(read_bytes(path, most=MAX_TEXT, inside=path.parent), str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"There is no {path.name} in {path.parent}.") from None
    if not isinstance(fields, dict):
        raise DataError(f"{path} is damaged: it is not a JSON object.")
    return fields
