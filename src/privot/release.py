"""What leaves a vault: a value, its guarantee, and the public choices behind it; the only thing jobs accept.

A release never touches a record. Its file is one `.npz` with the arrays and one JSON text, read back without
unpickling anything. The guarantee is counted again from its events, so a file cannot state less than they cost;
that the events are the ones that happened is what the ledger, not the file, stands for.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from privot.accounting import read_guarantee
from privot.common.arguments import is_within
from privot.common.declared import declared
from privot.common.files import writing
from privot.common.html_facts import html_facts
from privot.errors import DataError, UsageError, brief
from privot.guarantee import Guarantee
from privot.opening import parse_json
from privot.opening.archives import open_archive

SCHEMA_VERSION = 1

Value = NDArray[Any] | Mapping[str, NDArray[Any]]

_FACTS = "release.json"
_ONE = "value"
_MANY = "value."
MAX_VALUE = 1e100
"""The largest number that is read from a release: none that privot makes is near it, and its square is finite."""

SHOWN_NUMBERS = 8
"""Up to so many numbers of an array are shown in a notebook."""


def _is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor; without importing torch, which the code that made a tensor has done."""
    return any(f"{c.__module__}.{c.__qualname__}" == "torch.Tensor" for c in type(value).__mro__)


def _frozen(array: Any) -> NDArray[Any]:
    """A read-only copy, of numbers only; a tensor is copied where it lies, so that no step waits for the device."""
    if _is_tensor(array):
        copied: Any = array.detach().clone()
        return copied  # type: ignore[no-any-return]
    out = np.array(array, copy=True)
    if out.dtype.kind not in "fiub":
        raise UsageError(f"A release holds arrays of numbers, got {out.dtype}.")
    out.setflags(write=False)
    return out


def _shown(array: Any) -> str:
    """A few numbers as they are, many by their shape; numbers on a device stay there."""
    if _is_tensor(array) or array.size > SHOWN_NUMBERS:
        return " × ".join(str(length) for length in array.shape) + " numbers"
    return ", ".join(f"{number:.6g}" for number in array.ravel().tolist())


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """What left a vault: a value, the guarantee it left under, and the public choices behind it.

    Vaults make releases. Everything after that, training, comparing or plotting, is post-processing and costs nothing.

    Parameters
    ----------
    value
        An array of numbers, or arrays by name. Arrays are copied and made read-only. A step of a training may hand its
        value over as a tensor on the device where training goes on; it is copied there, and comes back from a file as
        an array.
    guarantee
        What the value cost.
    public
        Every choice the value depends on besides the records (seed, frame, clip, σ …), as plain JSON types.

    Raises
    ------
    UsageError
        If the value is not made of numbers, the guarantee is none, or `public` is not plain JSON.

    Notes
    -----
    Formal guarantee: of a release that a vault made, `guarantee` holds. A file proves nothing by itself: `load` counts
    the guarantee again from its events, so a file cannot state less than they cost; that the events are the ones that
    happened is what the ledger stands for.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from privot import Vault
    >>> from privot.mechanisms import RandomProjection
    >>> vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> release = vault.release(RandomProjection(slices=4, sigma=1.0), purpose="a first look")
    >>> with TemporaryDirectory() as folder:
    ...     release.save(Path(folder) / "look.npz")
    ...     again = Release.load(Path(folder) / "look.npz")
    >>> bool((again.value == release.value).all()), again.digest() == release.digest()
    (True, True)
    """

    value: Value
    guarantee: Guarantee
    public: Mapping[str, Any]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UsageError("A release is not pickled or copied: write it with save, and read it with load.")

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise UsageError("A release needs the guarantee it was made under.")
        if isinstance(self.value, Mapping):
            value: Value = MappingProxyType({str(name): _frozen(array) for name, array in self.value.items()})
        else:
            value = _frozen(self.value)
        try:
            public = json.loads(json.dumps(dict(self.public), allow_nan=False))
        except (TypeError, ValueError):
            raise UsageError("The public facts of a release must be plain JSON types.") from None
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "public", MappingProxyType(public))

    def __repr__(self) -> str:
        if isinstance(self.value, Mapping):
            shape = ", ".join(f"{name} {array.shape}" for name, array in self.value.items())
        else:
            shape = f"{self.value.shape}"
        return f"Release({shape}, {self.guarantee.stated()})"

    def _repr_html_(self) -> str:
        held = self.value.items() if isinstance(self.value, Mapping) else [("value", self.value)]
        return html_facts("Release", [*((name, _shown(array)) for name, array in held), *self.guarantee.facts()])

    def save(self, path: str | Path) -> None:
        """Write everything to `path` (`.npz`), whole or not at all, and on disk before it has its name."""
        with writing(Path(path)) as file:
            self._write(file)

    def to_bytes(self) -> bytes:
        """The file that `save` writes."""
        with io.BytesIO() as file:
            self._write(file)
            return file.getvalue()

    def _write(self, file: BinaryIO) -> None:
        arrays = self._arrays()
        facts = {"schema": SCHEMA_VERSION, "guarantee": self.guarantee.to_dict(), "public": dict(self.public)}
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(_FACTS, json.dumps(facts, allow_nan=False, ensure_ascii=False))
            for member, array in arrays.items():
                with archive.open(member + ".npy", "w", force_zip64=True) as out:
                    np.lib.format.write_array(out, array, allow_pickle=False)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by its name in a file."""
        held = self.value if isinstance(self.value, Mapping) else {"": self.value}
        prefix = _MANY if isinstance(self.value, Mapping) else _ONE
        return {prefix + n: a.cpu().numpy() if _is_tensor(a) else a for n, a in held.items()}  # type: ignore[attr-defined]

    def digest(self) -> str:
        """SHA-256 of what was released and under which events: the same for a release and for its file read back.

        ε itself is left out: it follows from the events, and another version of the accountant may count it closer.
        """
        g = self.guarantee
        facts = [str(g.adjacency), g.at_delta, str(g.standing), [dict(e) for e in g.events], dict(self.public)]
        seal = hashlib.sha256(json.dumps(facts, sort_keys=True, allow_nan=False).encode())
        for name, array in sorted(self._arrays().items()):
            plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            seal.update(json.dumps([name, plain.dtype.str, plain.shape]).encode())
            seal.update(plain.tobytes())
        return seal.hexdigest()

    @classmethod
    @declared(path="path")
    def load(cls, path: str | Path, *, inside: Path | None = None) -> Release:
        """Read what `save` wrote; refuses a damaged file, and one that states less than its events cost.

        With `inside` it must lie in that folder, links followed.
        """
        path = Path(path)
        try:
            with open_archive(path, inside=inside) as archive:
                facts = parse_json(archive.read(_FACTS), f"{_FACTS} in {path.name!r}")
                members = [name for name in archive.names if name != _FACTS]
                arrays = {name.removesuffix(".npy"): archive.array(name) for name in members}
            if facts["schema"] != SCHEMA_VERSION:
                schema = brief(facts["schema"])
                raise DataError(f"{path.name!r} has schema {schema}; this privot reads {SCHEMA_VERSION}.")
            if not all(is_within(array, MAX_VALUE) for array in arrays.values()):  # text has no absolute value
                raise DataError(f"{path.name!r} is damaged: a release holds finite numbers of at most {MAX_VALUE:g}.")
            guarantee = read_guarantee(json.dumps(facts["guarantee"]))
            if set(arrays) == {_ONE}:
                return cls(arrays[_ONE], guarantee, facts["public"])
            if not arrays or not all(name.startswith(_MANY) for name in arrays):
                raise DataError(f"{path.name!r} is not a release privot wrote: its arrays have other names.")
            return cls({name.removeprefix(_MANY): a for name, a in arrays.items()}, guarantee, facts["public"])
        except DataError:
            raise
        except FileNotFoundError:
            raise DataError(f"There is no file {path.name!r}: give the file a release was saved to.") from None
        except Exception as error:  # a damaged file can raise nearly anything
            raise DataError(
                f"{path.name!r} is not a release privot wrote, or is damaged ({type(error).__name__})."
            ) from None
