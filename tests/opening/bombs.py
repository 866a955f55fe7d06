"""Small files that unpack to gigabytes, made without ever holding what they unpack to."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np

GIB = 1 << 30
_PIECE = 1 << 20


def zeros_deflated(size: int) -> bytes:
    """`size` zero bytes as a Deflate stream: one piece, compressed once, as often as it takes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(_PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    ending = zlib.compressobj(9, zlib.DEFLATED, -15)
    return piece * (size // _PIECE) + ending.compress(bytes(size % _PIECE)) + ending.flush()


def zip_of(members: dict[str, tuple[bytes, int, int]]) -> bytes:
    """An archive of (packed bytes, unpacked size, method) by name; checksums are not right, sizes are as given."""
    out, directory = io.BytesIO(), b""
    for name, (packed, size, method) in members.items():
        checksum = zlib.crc32(packed) if method == 0 else 0
        sizes = struct.pack("<III", checksum, len(packed), min(size, 2**32 - 1))
        extra = struct.pack("<HHQ", 1, 8, size) if size >= 2**32 - 1 else b""
        common = struct.pack("<HHHHH", 45, 0, method, 0, 33) + sizes + struct.pack("<HH", len(name), len(extra))
        directory += b"PK\1\2" + struct.pack("<H", 45) + common + struct.pack("<HHHII", 0, 0, 0, 0, out.tell())
        directory += name.encode() + extra
        local = struct.pack("<HHHHH", 45, 0, method, 0, 33) + sizes + struct.pack("<HH", len(name), 0)
        out.write(b"PK\3\4" + local + name.encode() + packed)
    at = out.tell()
    out.write(directory)
    out.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), at, 0))
    return out.getvalue()


def npy_header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    held = io.BytesIO()
    np.lib.format.write_array_header_1_0(held, {"descr": kind, "fortran_order": False, "shape": shape})
    return held.getvalue()


def npz_bomb(name: str = "x", size: int = 3 * GIB, others: dict[str, bytes] | None = None) -> bytes:
    """A `.npz` whose array holds `size` bytes of zeros."""
    header = npy_header((size // 8000, 1000))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(header) + packer.flush(zlib.Z_FULL_FLUSH) + zeros_deflated(size)
    members = {name: (content, len(content), 0) for name, content in (others or {}).items()}
    return zip_of({**members, f"{name}.npy": (packed, len(header) + size, 8)})


def gzip_bomb(piece: bytes, size: int, start: bytes = b"") -> bytes:
    """`start`, then `piece` again and again up to `size` bytes: members of one gzip file, each with its checksum."""
    return (gzip.compress(start) if start else b"") + gzip.compress(piece) * (size // len(piece))


def release_bomb(guarantee: dict[str, object]) -> bytes:
    facts = json.dumps({"schema": 1, "guarantee": guarantee, "public": {}}).encode()
    return npz_bomb("value", others={"release.json": facts})


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
