"""Files at an address that fsspec knows (s3://, gs://, hdfs://, file://, memory://), beside those of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from privot.common.extras import needing
from privot.errors import DataError, brief
from privot.opening.plain_files import open_file


@dataclass(frozen=True)
class Located:
    """A file that was found but not read: its address, its size, and what changes when it is written again."""

    address: str
    size: int
    stamp: str

    @property
    def name(self) -> str:
        """The last part of its address."""
        return Path(self.address).name


def is_remote(address: str | Path) -> bool:
    """Whether this is an address with a scheme, as fsspec reads them."""
    return "://" in str(address)


def open_located(address: str | Path) -> BinaryIO:
    """The file at a path or an fsspec address, to be read; OSError where there is none."""
    if not is_remote(address):
        return open_file(address)
    system, path = _system(str(address))
    return cast(BinaryIO, system.open(path, "rb"))


def locate(address: str) -> list[Located]:
    """The files at a path, a pattern (`*`, `?`, `[…]`) or an fsspec address of either, by name; none is opened."""
    if is_remote(address):
        return _locate_remote(address)
    # by their absolute path: workers and resumed jobs may run in another folder
    whole = Path(address).absolute()
    # a file may be called a[1].csv
    found = _matches(whole) if _is_pattern(str(address)) and not whole.exists() else [whole]
    out = []
    for path in found:
        if path.is_file():
            facts = path.stat()
            out.append(Located(str(path), facts.st_size, f"{facts.st_mtime_ns} {facts.st_ino}"))
    return sorted(out, key=lambda file: file.address)


def fixed_part(address: str | Path) -> Path:
    """The folders of a pattern before its first wildcard; what exists, or has none, as it is."""
    if Path(address).exists():
        return Path(address)
    parts = Path(address).parts
    first = next((k for k, part in enumerate(parts) if _is_pattern(part)), len(parts))
    return Path(*parts[:first]) if first else Path()


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _matches(pattern: Path) -> list[Path]:
    start = fixed_part(pattern)
    rest = str(pattern.relative_to(start)) if str(start) != "." else str(pattern)
    # hidden files are no data: `*.parquet` in a shell leaves them out, too
    return [path for path in start.glob(rest) if not path.name.startswith(".")]


def _system(address: str) -> tuple[Any, str]:
    with needing(f"Files at {address.split('://')[0]}:// need", "partitions"):
        import fsspec

    try:
        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError):
        raise DataError(
            f"No installed package reads addresses like {brief(address)}: install the one that fsspec names for it."
        ) from None
    return system, str(path)


def _locate_remote(address: str) -> list[Located]:
    system, path = _system(address)
    try:
        names = system.glob(path) if _is_pattern(path) else [path]
        facts = [system.info(name) for name in names]
    except (OSError, ValueError):
        raise DataError(f"Nothing can be read at {brief(address)}: check the address and your access.") from None
    out = []
    for held in facts:
        if held.get("type") == "file":
            marks = [held.get(key) for key in ("ETag", "etag", "md5", "mtime", "created", "LastModified", "updated")]
            stamp = " ".join(str(mark) for mark in marks if mark is not None)
            out.append(Located(system.unstrip_protocol(held["name"]), int(held["size"] or 0), stamp))
    return sorted(out, key=lambda file: file.address)
