"""A public network from a file, and the bounded features that it gives an image; it sees records inside a mechanism.

The network was trained elsewhere, on other people's images. It is run as it is: nothing in it is changed, and it must
keep nothing from one image to the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from privot.common.image_axes import image_axes
from privot.errors import DataError, UsageError
from privot.synthesis.features.fourier import Fourier, public_range, register, to_unit

_CHANCE = ("aten::rand", "aten::normal", "aten::bernoulli", "aten::multinomial", "aten::poisson", "aten::uniform")
"""Beginnings of the names of what draws random numbers."""
_READ = 1 << 20
_LOADED: dict[str, PublicEncoder] = {}
"""The encoders of this process by their digest: a release says only the digest."""


class EncoderNeededError(DataError):
    """A release was made with a public encoder that this process has not read yet."""


class PublicEncoder:
    """e, a network from an image to one or several vectors, read from a file of TorchScript or of `torch.export`.

    Parameters
    ----------
    path
        A file that `torch.jit.save` wrote, or, if it ends in .pt2, one that `torch.export.save` wrote. What it says is
        run: give only files that you trust. It takes a tensor (rows, channels, height, width) and returns a tensor,
        or several (layers); a layer with positions is averaged over them.
    size
        The side of the images that it takes; None for the records' own.
    value_range
        The values that it takes for black and white; (0, 1) unless stated.

    Raises
    ------
    DataError
        If the file cannot be read.
    UsageError
        If the network draws random numbers or keeps something between calls, as far as its code says.
    """

    def __init__(self, path: str | Path, size: int | None = None, value_range: Sequence[float] = (0.0, 1.0)) -> None:
        self.path, self.size = Path(path), None if size is None else int(size)
        if self.size is not None and not 1 <= self.size <= 1024:
            raise UsageError(f"An encoder takes images of 1 to 1024 pixels a side, got {size!r}.")
        low, high = (float(end) for end in value_range)
        if not (math.isfinite(low) and math.isfinite(high) and low != high):
            raise UsageError("The range of an encoder needs two finite numbers that differ, for black and white.")
        self.value_range = (low, high)
        self.digest = _digest(self.path)
        self._held: dict[torch.device, Any] = {}
        self._on(torch.device("cpu"))
        _LOADED[self.digest] = self

    def layers(self, images: Tensor) -> list[Tensor]:
        """The vectors of each layer, of shape (rows, numbers), for images in [0, 1]."""
        low, high = self.value_range
        if self.size is not None and images.shape[-2:] != (self.size, self.size):
            images = torch.nn.functional.interpolate(
                images, size=[self.size, self.size], mode="bilinear", align_corners=False, antialias=False
            )
        found = self._on(images.device)(low + (high - low) * images)
        given = list(found) if isinstance(found, tuple | list) else [found]
        for layer in given:
            if not isinstance(layer, Tensor) or layer.dim() not in (2, 4) or len(layer) != len(images):
                raise UsageError(
                    "An encoder must return (rows, numbers) or (rows, numbers, height, width), or several."
                )
        return [layer.mean(dim=(2, 3)) if layer.dim() == 4 else layer for layer in given]

    def _on(self, device: torch.device) -> Any:
        # a network with constants in place of its weights cannot be moved
        if device not in self._held:
            self._held[device] = _read(self.path, device)
        return self._held[device]

    def buffers(self) -> list[Tensor]:
        """Copies of all that the networks hold and could change."""
        return [t.detach().clone() for network in self._held.values() for t in network.state_dict().values()]


class EncoderFeatures:
    """φ(x) = (√s·z, √(1−s)·ψ(z)), z the encoder's vectors of x scaled to norm 1, ψ random Fourier features of z.

    Several layers are each scaled to norm 1/√L. So ‖φ‖ ≤ 1, and ⟨φ(x), φ(y)⟩ is s times the cosine of the codes plus
    1 − s times a Gaussian kernel between them. `share` is s: means of z say what a class looks like, those of ψ how it
    spreads.

    In float64 every row is encoded by itself, in single precision and by algorithms that give the same bits each time,
    so that its features do not depend on the rows beside it; ψ is exact as in `Fourier`. In float32 rows are encoded
    together: that is for training, which sees no record.
    """

    kind = "encoder"

    def __init__(
        self,
        encoder: PublicEncoder,
        shape: Sequence[int],
        frequencies: int,
        bandwidths: Sequence[float],
        seed: int,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        share: float = 0.5,
    ) -> None:
        self.encoder, self.shape = encoder, tuple(int(side) for side in shape)
        self.axes = image_axes(self.shape)
        self.dim = math.prod(self.axes[:3])
        self.low, self.high = public_range(low, high, self.dim)
        if not 0.0 < share < 1.0:
            raise UsageError(f"The share of the codes themselves lies strictly between 0 and 1, got {share!r}.")
        self.share = float(share)
        self.width = self._tried()
        self.fourier = Fourier(self.width, frequencies, bandwidths, seed, -1.0, 1.0)

    @property
    def size(self) -> int:
        """The numbers of all layers, and a cosine and a sine for every frequency."""
        return self.width + self.fourier.size

    @property
    def rounding(self) -> float:
        """Of the Fourier features; the codes themselves are the same to the last bit."""
        return self.fourier.rounding

    def features(self, x: Tensor) -> Tensor:
        """(rows, size) from (rows, dim)."""
        if x.dtype is torch.float64:
            with _repeatable():
                rows = [self._codes(row[None]) for row in x]
            codes = torch.cat(rows) if rows else x.new_zeros(0, self.width)
        else:
            codes = self._codes(x)
        a, b = math.sqrt(self.share), math.sqrt(1.0 - self.share)
        return torch.cat([a * codes, b * self.fourier.features(codes)], dim=1)

    def _tried(self) -> int:
        """The numbers of z, once the encoder has shown on public rows that it looks at one image at a time."""
        random = torch.Generator().manual_seed(0)
        ends = (torch.as_tensor(end, dtype=torch.float64) for end in (self.low, self.high))
        low, high = (end.expand(self.dim) for end in ends)
        rows = low + (high - low) * torch.rand(4, self.dim, generator=random, dtype=torch.float64)
        before = self.encoder.buffers()
        with torch.no_grad(), _repeatable():
            first, again = (torch.cat([self._codes(row[None]) for row in rows]) for _ in range(2))
            together = self._codes(rows)
        after = self.encoder.buffers()
        if not all(map(torch.equal, before, after)) or not torch.allclose(first, again, 0.0, 0.0, equal_nan=True):
            raise UsageError(
                "The encoder gives one image other features the second time, or keeps something from it: save it in "
                "evaluation mode, without random layers."
            )
        if not torch.allclose(first, together, 1e-3, 1e-3, equal_nan=True):
            raise UsageError(
                "The encoder gives an image other features when other images stand beside it: save it in evaluation "
                "mode."
            )
        return first.shape[1]

    def _codes(self, x: Tensor) -> Tensor:
        """z, in the number type of `x`."""
        low, high = (torch.as_tensor(end, dtype=x.dtype, device=x.device) for end in (self.low, self.high))
        images = self.axes.pictures(to_unit(x, low, high - low)).to(torch.float32)
        layers = [layer.to(x.dtype) for layer in self.encoder.layers(images)]
        # a layer of zeros stays zero; what is not finite is clipped to zero by the mechanism
        scaled = [v / torch.linalg.vector_norm(v, dim=1, keepdim=True).clamp(min=1e-12) for v in layers]
        return torch.cat(scaled, dim=1) / math.sqrt(len(layers))

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again, beside the encoder's file, which the digest names."""
        encoder = {"digest": self.encoder.digest, "size": self.encoder.size, "range": list(self.encoder.value_range)}
        return {
            "kind": self.kind,
            "encoder": encoder,
            "shape": list(self.shape),
            "frequencies": self.fourier.frequencies,
            "bandwidths": list(self.fourier.bandwidths),
            "seed": self.fourier.seed,
            "low": self.low,
            "high": self.high,
            "share": self.share,
        }

    def exact_bytes(self) -> bytes:
        """The map to the last bit: the encoder is the file with its digest."""
        return repr(sorted(self.to_dict().items())).encode() + self.fourier.exact_bytes()


@register("encoder")
def _encoder(fields: Mapping[str, Any]) -> EncoderFeatures:
    stated = fields["encoder"]
    held = _LOADED.get(str(stated["digest"]))
    if held is None or (held.size, list(held.value_range)) != (stated["size"], list(stated["range"])):
        raise EncoderNeededError(
            f"This release needs the public encoder with the digest {str(stated['digest'])[:16]}…: state its file, "
            "size and range again."
        )
    names = ("shape", "frequencies", "bandwidths", "seed", "low", "high", "share")
    return EncoderFeatures(held, **{name: fields[name] for name in names})


@contextlib.contextmanager
def _repeatable() -> Iterator[None]:
    """The same algorithms for every row: none is chosen by the clock, and none is made faster after some calls."""
    with (
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
        torch.jit.optimized_execution(False),  # type: ignore[attr-defined]
    ):
        yield


def _digest(path: Path) -> str:
    seal = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ):
                seal.update(block)
    except OSError as error:
        raise DataError(f"The encoder {path} cannot be read ({error.strerror or type(error).__name__}).") from None
    return seal.hexdigest()


def _read(path: Path, device: torch.device) -> Any:
    """The network in evaluation mode, once its code is seen to keep nothing and to draw nothing."""
    try:
        if path.suffix == ".pt2":
            program = torch.export.load(path)
            tells = bool(program.graph_signature.buffers_to_mutate) or any(
                _draws(str(node.target), node.args) for node in program.graph.nodes if node.op == "call_function"
            )
            network: Any = program.module().to(device)
        else:
            with warnings.catch_warnings():
                # files of this kind are what people have, though PyTorch wants to give them up
                warnings.simplefilter("ignore", DeprecationWarning)
                module = torch.jit.load(str(path), map_location=device).eval()  # type: ignore[no-untyped-call]
                network = torch.jit.freeze(module)
            tells = any(_tells(node) for node in _nodes(network.inlined_graph))
    except Exception as error:
        raise DataError(
            f"The encoder {path} is not a network that torch.jit.save or torch.export.save wrote "
            f"({type(error).__name__})."
        ) from None
    if tells:
        raise UsageError(
            f"The encoder {path} keeps something between calls or draws random numbers, so that an image's features "
            "would depend on others: save it in evaluation mode."
        )
    return network


def _draws(name: str, given: Sequence[Any]) -> bool:
    """Whether a step of an exported program draws random numbers."""
    if "dropout" in name:
        return len(given) > 2 and given[2] is not False
    return any(word.removeprefix("aten::") in name for word in _CHANCE)


def _tells(node: Any) -> bool:
    """Whether a step of the network keeps something, draws random numbers, or is in training mode."""
    kind = node.kind()
    if "dropout" in kind or kind == "aten::batch_norm":
        training = list(node.inputs())[2 if "dropout" in kind else 5]
        return training.toIValue() is not False
    return bool(kind == "prim::SetAttr" or kind.startswith(_CHANCE))


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)
