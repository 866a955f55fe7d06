"""The files of a released folder, for anybody to read: bytes, JSON and tensors, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from privot.errors import DataError
from privot.files import sync, write_whole

__all__ = ["read_json", "read_tensors", "sync", "write_bytes", "write_json", "write_tensors"]

_DIGEST = "sha256"


def write_bytes(path: Path, content: bytes, fresh: bool = False) -> None:
    """`content` as a file for anybody to read, whole or not at all; with `fresh` it never replaces another."""
    try:
        write_whole(path, content, mode=0o644, fresh=fresh)
    except FileExistsError:
        raise
    except OSError as error:
        # by the name that was asked for, not by that of a file that is gone again
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def write_json(path: Path, fields: Mapping[str, Any], fresh: bool = False) -> None:
    """`fields` as JSON text."""
    write_bytes(path, (json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(), fresh)


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"There is no {path.name} in {path.parent}.") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is damaged: it is not JSON.") from None
    if not isinstance(fields, dict):
        raise DataError(f"{path} is damaged: it is not a JSON object.")
    return fields


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """`tensors` and the JSON `facts` as one safetensors file, sealed by a digest of both."""
    held = {name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}
    text = json.dumps(facts, sort_keys=True, allow_nan=False)
    write_bytes(path, save(held, metadata={"facts": text, _DIGEST: _digest(held, text)}))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a file that was cut or changed is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if _digest(tensors, meta["facts"]) != meta[_DIGEST]:
            raise DataError(f"{path} is damaged: its digest does not fit.")
        facts: dict[str, Any] = json.loads(meta["facts"])
        return tensors, facts
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.") from None
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged or was not written by privot ({type(error).__name__}).") from None


def _digest(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    seal = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name].numpy())
        seal.update(f"{name} {array.dtype} {array.shape}".encode())
        seal.update(array.tobytes())
    return seal.hexdigest()
