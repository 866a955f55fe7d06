"""Files at an address that fsspec knows (s3://, gs://, hdfs://, file://, memory://), beside those of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from privot.common.extras import needing
from privot.errors import DataError, brief
from privot.opening.addresses import check_no_secret, is_remote, shown_address
from privot.opening.plain_files import open_file


@dataclass(frozen=True)
class Located:
    """A file that was found but not read: its address, its size, what changes when it is written again, and what file
    it is whatever name led there.
    """

    address: str
    size: int
    stamp: str
    identity: str

    @property
    def name(self) -> str:
        """The last part of its address."""
        return Path(self.address).name

    @property
    def written(self) -> str:
        """Address, size and what changes when it is written again; empty where nothing tells."""
        return f"{self.address} {self.size} {self.stamp}" if self.stamp else ""


def open_located(address: str | Path) -> BinaryIO:
    """The file at a path or an fsspec address, to be read; OSError where there is none."""
    if not is_remote(address):
        return open_file(address)
    system, path = _system(str(address))
    try:
        return cast(BinaryIO, system.open(path, "rb"))
    except OSError:
        raise
    except Exception as error:  # a package's own error, which may repeat addresses and credentials
        failed = type(error).__name__
    raise DataError(f"{Path(str(address)).name!r} cannot be opened ({failed}): check the address and your access.")


def locate(address: str, endings: tuple[str, ...] = ()) -> list[Located]:
    """The files at a path, a pattern (`*`, `?`, `[…]`) or an fsspec address of either, by name; none is opened.

    Of a folder of this machine, those files that end in one of `endings`. Raises `DataError` where a folder or file
    cannot be looked at, and where one file is found under two names: its records would be counted twice.
    """
    if is_remote(address):
        found = _locate_remote(address)
    else:
        failed = ""
        try:
            found = _locate_here(address, endings)
        except OSError as error:
            failed = error.strerror or type(error).__name__
        if failed:
            raise DataError(f"The files at {brief(address)} cannot be looked at ({failed}): check names and rights.")
    found = sorted(found, key=lambda file: file.address)
    check_once(found)
    return found


def check_once(found: Iterable[Located]) -> None:
    """Refuse one file under two names, by hard or symbolic links."""
    names: dict[str, str] = {}
    for file in found:
        first = names.setdefault(file.identity, file.address)
        if first != file.address:
            raise DataError(
                f"{Path(first).name!r} and {file.name!r} are one file under two names, whose records would be counted "
                "twice: remove a link, or give a pattern that leaves it out."
            )


def _locate_here(address: str, endings: tuple[str, ...]) -> list[Located]:
    # by their absolute path: workers and resumed jobs may run in another folder
    whole = Path(address).absolute()
    found = [whole]
    if whole.is_dir():
        found = [path for path in whole.iterdir() if path.name.lower().endswith(endings) and _shown(path)]
    elif _is_pattern(str(address)) and not whole.exists():
        # a file may be called a[1].csv
        found = _matches(whole)
    out = []
    for path in found:
        if path.is_file():
            facts = path.stat()
            stamp = f"{facts.st_mtime_ns} {facts.st_ino}"
            out.append(Located(str(path), facts.st_size, stamp, f"{facts.st_dev} {facts.st_ino}"))
    return out


def _shown(path: Path) -> bool:
    """Hidden files are no data: `*.parquet` in a shell leaves them out, too."""
    return not path.name.startswith(".")


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
    return [path for path in start.glob(rest) if _shown(path)]


def _system(address: str) -> tuple[Any, str]:
    check_no_secret(address)
    with needing(f"Files at {address.split('://')[0]}:// need", "partitions"):
        import fsspec

    try:
        system, path = fsspec.core.url_to_fs(address)
    except Exception:  # a package's own error, which may repeat addresses and credentials
        system = None
    if system is None:
        raise DataError(
            f"No installed package reads addresses like {brief(shown_address(address))}: install the one that fsspec "
            "names for it, and check your access."
        )
    return system, str(path)


def _locate_remote(address: str) -> list[Located]:
    system, path = _system(address)
    out: list[Located] | None = None
    try:
        names = system.glob(path) if _is_pattern(path) else [path]
        facts = [system.info(name) for name in names]
        out = [_located(system, held, address) for held in facts if held.get("type") == "file"]
    except Exception:  # OSError, or a package's own error, which may repeat addresses and credentials
        out = None
    if out is None:
        raise DataError(f"Nothing can be read at {brief(shown_address(address))}: check the address and your access.")
    return out


def _located(system: Any, held: dict[str, Any], address: str) -> Located:
    marks = [held.get(key) for key in ("ETag", "etag", "md5", "mtime", "created", "LastModified", "updated")]
    stamp = " ".join(str(mark) for mark in marks if mark is not None)
    place = identity = str(system.unstrip_protocol(held["name"]))
    if address.startswith(("file://", "local://")):
        # a file system of this machine has links
        there = os.stat(held["name"])
        identity = f"{there.st_dev} {there.st_ino}"
    return Located(place, int(held["size"] or 0), stamp, identity)
