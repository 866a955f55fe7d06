"""A public network from a file, and the tape that privot makes of it; it sees no record until a mechanism runs it.

The network was trained elsewhere, on other people's images. What runs on records is never the file's own code: the file
is read operator by operator (`exported_file`), and only operators on a list (`operators`) are
evaluated, by code that treats every row by itself and keeps nothing.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from privot.common.declared import declared
from privot.errors import DataError, UsageError
from privot.opening.archives import Archive
from privot.opening.plain_files import read_bytes
from privot.synthesis.neural.encoders import exact_arithmetic as exact
from privot.synthesis.neural.encoders import layer_operators, shape_operators  # noqa: F401 (put operators on the list)
from privot.synthesis.neural.encoders.exported_file import MODEL, read_exported
from privot.synthesis.neural.encoders.tape import RefusedEncoderError, Rows, Tape

MAX_SIDE = 1024
"""Pixels of the images that an encoder may take."""
MAX_RESIZED = 4096
"""Pixels a side of images that are resized: the weights for it are made of a matrix with the square of that."""
_LOADED: dict[str, tuple[bytes, str]] = {}
"""The files that this process has read, by their digest: a release names only the digest."""


class EncoderNeededError(DataError):
    """A release was made with a public encoder whose file this process has not read yet."""


class PublicEncoder:
    """e, a network from an image to one or several vectors, read from a file of `torch.export`.

    Parameters
    ----------
    path
        A file that `torch.export.save` wrote. The network takes a tensor (rows, channels, height, width) and returns a
        tensor or a tuple of them (layers), each of shape (rows, numbers), or (rows, numbers, height, width), which is
        averaged over its positions.
    size
        The side of the square images that the network takes; None for the records' own. Images are resized bilinearly.
    value_range
        The numbers that the network takes for black and white; (0, 1) unless stated.

    Attributes
    ----------
    digest
        SHA-256 of the file: of the very bytes that were read into memory once and are used from there.

    Raises
    ------
    DataError
        If the file cannot be read or is no such network.
    UsageError
        If size or range are impossible. A network with operators that privot does not evaluate is refused, by the same
        error, once the shape of the images is known.

    Notes
    -----
    Formal guarantees: what is computed of an image is a function of that image and of the numbers that privot made of
    the file, to the last bit, however many images are computed at once (`exact_arithmetic`). Nothing is written,
    printed, drawn or kept. Releases are *proven* on the processor and on GPUs by NVIDIA (`encoder_features.PROVEN_ON`).

    The file is read as JSON and raw numbers, whose length is that of their part of the archive. Nothing in it is
    unpickled, compiled or run. TorchScript is refused: PyTorch's reader of it runs code of the file.

    Examples
    --------
    >>> import tempfile
    >>> network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    >>> with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
    ...     torch.export.save(torch.export.export(network, (torch.zeros(1, 3, 8, 8),)), file.name)
    ...     encoder = PublicEncoder(file.name, value_range=(-1, 1))
    >>> [tuple(layer.shape) for layer in encoder.tape(3, 8, 8).run(torch.zeros(5, 3, 8, 8))]
    [(5, 4)]
    """

    @declared(path="path")
    def __init__(self, path: str | Path, size: int | None = None, value_range: Sequence[float] = (0.0, 1.0)) -> None:
        try:
            data = read_bytes(path)
        except OSError as error:
            raise DataError(f"The encoder {path} cannot be read ({error.strerror or type(error).__name__}).") from None
        self._set(data, Path(path).name, size, value_range)
        _check_kind(self._archive())

    def _set(self, data: bytes, name: str, size: int | None, value_range: Sequence[float]) -> None:
        if size is not None and (type(size) is not int or not 1 <= size <= MAX_SIDE):
            raise UsageError(f"An encoder takes images of 1 to {MAX_SIDE} pixels a side, got {size!r}.")
        try:
            low, high = (float(end) for end in value_range)
        except (TypeError, ValueError):
            low = high = math.nan
        if not (math.isfinite(low) and math.isfinite(high - low) and low != high):
            raise UsageError("The range of an encoder needs two finite numbers that differ, for black and white.")
        self.name, self.size, self.value_range = name, size, (low, high)
        self.digest = hashlib.sha256(data).hexdigest()
        self._data = data
        _LOADED[self.digest] = (data, name)

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return self._data

    @classmethod
    @declared(content="bytes")
    def of_content(cls, content: bytes, name: str) -> PublicEncoder:
        """The encoder of a file's bytes that were read elsewhere; the same checks."""
        made = _from_bytes(content, name, None, (0.0, 1.0))
        _check_kind(made._archive())
        return made

    def _archive(self) -> Archive:
        return Archive(io.BytesIO(self._data), self.name)

    def __reduce__(self) -> Any:
        """By the bytes: a process that adds up partitions reads no file."""
        return _from_bytes, (self._data, self.name, self.size, self.value_range)

    def __repr__(self) -> str:
        return f"PublicEncoder({self.name!r}, sha256={self.digest[:16]}…, size={self.size}, range={self.value_range})"

    def to_dict(self) -> dict[str, Any]:
        """What a release says of it."""
        return {"digest": self.digest, "size": self.size, "range": list(self.value_range)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PublicEncoder:
        """The encoder that `to_dict` described, if this process has read its file."""
        held = _LOADED.get(str(fields["digest"]))
        if held is None:
            raise EncoderNeededError(
                f"This needs the public encoder with the SHA-256 {str(fields['digest'])[:16]}…: give its file again."
            )
        return _from_bytes(*held, fields["size"], tuple(fields["range"]))

    def tape(self, channels: int, height: int, width: int) -> Tape:
        """The network as steps on (rows, channels, height, width) in [0, 1], for images of this public shape.

        Grey images are given to a network for colour as three equal channels.
        """
        return _tape(self.digest, self.size, self.value_range, channels, height, width)

    def read(self, channels: int, height: int, width: int, copies: int) -> Tape:
        """`tape`, with `copies` of the channels."""
        tape = Tape((channels, height, width))
        images = tape.input
        if self.size is not None and (height, width) != (self.size, self.size):
            if max(height, width) > MAX_RESIZED:
                raise RefusedEncoderError(
                    f"Images of up to {MAX_RESIZED} pixels a side are resized for an encoder, got {height} × {width}."
                )
            down, across = (tape.weights(_resizing(side, self.size)) for side in (height, width))
            # what stands between the two: new rows, old columns
            between = 16 * channels * max(height, self.size) * max(width, self.size)
            terms = height * -(-width // self.size) + width
            images = tape.add(lambda x: across.along_last(down.times(x)), images, numbers=between, terms=terms)
        low, high = self.value_range
        images = tape.add(lambda x: x * (high - low) + low, images)
        if copies > 1:
            images = tape.add(lambda x: x.repeat(1, copies, 1, 1), images)
        start, tape.input = tape.input, Rows(images.slot, images.examples, fresh=False)
        found = read_exported(self._archive(), tape)
        tape.input = start
        tape.finish([_layer(tape, value) for value in found])
        tape.rehearse()
        return tape


def _from_bytes(data: bytes, name: str, size: int | None, value_range: Sequence[float]) -> PublicEncoder:
    made = PublicEncoder.__new__(PublicEncoder)
    made._set(data, name, size, value_range)
    return made


@lru_cache(maxsize=2)
def _tape(
    digest: str, size: int | None, value_range: tuple[float, float], channels: int, height: int, width: int
) -> Tape:
    """`PublicEncoder.tape`; cached, because a map and the map of its release read the same file."""
    encoder = _from_bytes(*_LOADED[digest], size, value_range)
    try:
        return encoder.read(channels, height, width, 1)
    except RefusedEncoderError as error:
        if channels != 1:
            raise
        try:
            return encoder.read(channels, height, width, 3)
        except RefusedEncoderError:
            raise error from None


def _check_kind(archive: Archive) -> None:
    """Refuse what is no exported program."""
    if any(name.endswith("/" + MODEL) or name == MODEL for name in archive.names):
        return
    if any("/code/" in name for name in archive.names):
        raise DataError(
            f"The encoder {archive.name!r} is TorchScript, whose reader runs code of the file: save the network with "
            "torch.export.save(torch.export.export(module.eval(), (example,)), FILE)."
        )
    raise DataError(
        f"The encoder {archive.name!r} is no network that torch.export.save wrote; files of torch.save are not read, "
        "because they hold Python objects."
    )


def _resizing(side: int, wanted: int) -> torch.Tensor:
    """(wanted, side): bilinear interpolation along one axis, averaging where there are fewer pixels than before."""
    unit = torch.eye(side, dtype=torch.float64)[None, None]
    return functional.interpolate(unit, size=[wanted, side], mode="bilinear", antialias=True)[0, 0]


def _layer(tape: Tape, value: Any) -> Rows:
    """A tensor that the network returns, as (rows, numbers)."""
    if not isinstance(value, Rows) or value.dim not in (2, 4) or not all(value.sizes):
        raise RefusedEncoderError(
            "An encoder must return (rows, numbers) or (rows, numbers, height, width), or a tuple of such tensors, "
            "that depend on the image."
        )
    if value.dim == 2:
        return value
    count = math.prod(value.sizes[1:])
    return tape.add(lambda x: exact.divided(exact.summed(x, (2, 3)), count), value)
