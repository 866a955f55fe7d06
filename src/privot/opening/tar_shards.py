"""Tar archives as streams of small files, in the order they lie in; nothing is unpacked to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from privot.errors import DataError
from privot.opening.limits import shown
from privot.opening.remote_files import open_located

MAX_MEMBER = 1 << 26
"""Bytes of one file in a shard."""


def tar_members(address: str | Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every plain file in the tar archive at a path or fsspec address; links are refused."""
    shown_name, broken = Path(address).name, False
    try:
        with open_located(address) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                # a stream remembers every member it saw unless told not to
                archive.members = []  # type: ignore[attr-defined]
                if member.isdir():
                    continue
                if not member.isreg():
                    raise DataError(f"{shown_name!r} holds a link or a device: a shard holds plain files.")
                if member.size > MAX_MEMBER:
                    raise DataError(
                        f"{shown_name!r} holds a file of more than {shown(MAX_MEMBER)}: no record is so large."
                    )
                held = archive.extractfile(member)
                assert held is not None
                yield member.name, held.read()
    except DataError:
        raise
    except (OSError, tarfile.TarError, EOFError, ValueError):
        broken = True
    if broken:
        raise DataError(f"{shown_name!r} cannot be read as a tar archive: it is damaged or of another kind.")
