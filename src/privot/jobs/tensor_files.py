"""Tensors in files: one safetensors file with JSON facts, sealed by a digest, whole or not at all; never pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from privot.errors import DataError
from privot.jobs.released_files import write_parts
from privot.opening import parse_json
from privot.opening.limits import Meter
from privot.opening.plain_files import open_file

_DIGEST = "sha256"
MAX_HEADER = 1 << 24
"""Bytes of the header of a file of tensors."""
_NUMBERS = {
    "bool": "BOOL",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
"""The format's names of the types of numbers."""


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """`tensors` and the JSON `facts` as one safetensors file, sealed by a digest of both.

    Written piece by piece, so that the tensors are in memory once. Equal tensors and facts make equal bytes, so that
    two folders can be compared.
    """
    held = {name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}
    text = json.dumps(facts, sort_keys=True, allow_nan=False)
    header: dict[str, Any] = {"__metadata__": {"facts": text, _DIGEST: _digest(held, text)}}
    # the widest numbers first, so that each begins at a multiple of its width
    names = sorted(held, key=lambda name: (-held[name].element_size(), name))
    at = 0
    for name in names:
        array = held[name].numpy()
        ends = [at, at := at + array.nbytes]
        header[name] = {"dtype": _NUMBERS[str(array.dtype)], "shape": list(array.shape), "data_offsets": ends}
    start = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    # tensors begin at a multiple of eight bytes
    start += b" " * (-len(start) % 8)
    write_parts(path, [len(start).to_bytes(8, "little"), start, *(held[name].numpy() for name in names)])


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a file that was cut or changed is refused."""
    try:
        with _opened(path) as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if _digest(tensors, meta["facts"]) != meta[_DIGEST]:
            raise DataError(f"{path} is damaged: its digest does not fit.")
        facts: dict[str, Any] = parse_json(meta["facts"], str(path))
        return tensors, facts
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.") from None
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged or was not written by privot ({type(error).__name__}).") from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file, open; refused if it would not fit in memory: tensors are not compressed and need its size in bytes."""
    with open_file(path, inside=path.parent) as file:
        Meter(path.name).claim(os.fstat(file.fileno()).st_size)
        if int.from_bytes(file.read(8), "little") > MAX_HEADER:
            raise DataError(f"{path} is damaged: its header has more than {MAX_HEADER} bytes.")
        # the library opens names of text only
        place = f"/dev/fd/{file.fileno()}" if any("\ud800" <= c <= "\udfff" for c in str(path)) else path
        with safe_open(place, framework="pt") as opened:
            yield opened


def _digest(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    seal = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name].numpy())
        seal.update(f"{name} {array.dtype} {array.shape}".encode())
        seal.update(array.reshape(-1).data)
    return seal.hexdigest()
