"""What `privot doctor` looks at: versions, extras, device, noise, and where files can be written; it reads no data."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

BASE = ("numpy", "scipy", "cryptography", "typer", "rich", "scikit-learn", "matplotlib", "pillow")
"""Distributions that every installation has."""


class Observation(NamedTuple):
    """One line of the answer: what was looked at and found, whether it works, and what to do where it does not."""

    name: str
    found: str
    works: bool
    advice: str = ""


def examine() -> dict[str, list[Observation]]:
    """Everything, by section."""
    return {
        "versions": _versions(),
        "extras": _extras(),
        "device": [_device()],
        "noise": [_noise()],
        "files": [_writable("this folder", Path.cwd()), _writable("temporary files", Path(tempfile.gettempdir()))],
    }


def as_json(found: dict[str, list[Observation]]) -> dict[str, Any]:
    """The same as plain JSON types; `works` says whether everything that is needed does."""
    needed = ("versions", "noise", "files")
    answer: dict[str, Any] = {name: [line._asdict() for line in lines] for name, lines in found.items()}
    return {**answer, "works": all(line.works for name in needed for line in found[name])}


def _versions() -> list[Observation]:
    from privot import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    lines = [
        Observation("privot", __version__, True),
        Observation("Python", python, sys.version_info >= (3, 11), "install Python 3.11 or newer"),
        Observation("system", f"{platform.system()} {platform.machine()}", True),
        Observation("SQLite", sqlite3.sqlite_version, True),
    ]
    return lines + [_distribution(name) for name in BASE]


def _distribution(name: str) -> Observation:
    try:
        return Observation(name, version(name), True)
    except PackageNotFoundError:
        return Observation(name, "missing", False, f"pip install {name}")


def _extras() -> list[Observation]:
    """Every optional package, with the extra that installs it."""
    from privot.common.extras import OPTIONAL

    lines = []
    for module, (prose, extra) in OPTIONAL.items():
        here = find_spec(module) is not None
        found = (_version_of(module) or "installed") if here else "not installed"
        lines.append(Observation(prose, found, here, "" if here else f'pip install "privot[{extra}]"'))
    return lines


def _version_of(module: str) -> str | None:
    """The version of the distribution that brings `module`."""
    try:
        return version({"ot": "POT"}.get(module, module))
    except PackageNotFoundError:
        return None


def _device() -> Observation:
    """The device that `--device auto` chooses."""
    if find_spec("torch") is None:
        return Observation("auto", "none", False, 'pip install "privot[torch]" for what computes with tensors')
    try:
        import torch

        from privot.common.devices import usable_device
    except Exception as error:  # a library beside it that is missing or of another version raises anything
        found = f"PyTorch cannot be loaded ({type(error).__name__})"
        return Observation("auto", found, False, 'pip install --force-reinstall "privot[torch]"')
    if usable_device("auto", auto=True) == "cuda":
        return Observation("auto", f"cuda: {torch.cuda.get_device_name(0)}", True)
    return Observation("auto", f"cpu, {torch.get_num_threads()} threads", True)


def _noise() -> Observation:
    """Whether the operating system's entropy makes noise; two draws that agree would be none."""
    import numpy as np

    from privot.noise import SystemNoise

    source = SystemNoise()
    try:
        one, other = (source.normal((64,), 1.0) for _ in range(2))
        works = bool(np.isfinite(one).all()) and not np.array_equal(one, other) and len(os.urandom(32)) == 32
    except (OSError, NotImplementedError):
        works = False
    found = str(source.standing) if works else "makes no noise"
    return Observation("entropy of the system", found, works, "privot releases nothing without it")


def _writable(name: str, folder: Path) -> Observation:
    """Whether a file can be made, synced and removed there, as a ledger does."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".privot-doctor-") as file:
            file.write(b"privot")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Observation(name, f"{folder}: {error.strerror}", False, "choose a folder that you may write to")
    return Observation(name, str(folder), True)
