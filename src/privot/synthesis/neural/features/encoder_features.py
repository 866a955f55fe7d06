"""Bounded features of a public encoder; the map sees records inside a mechanism only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from privot.common.image_axes import image_axes
from privot.errors import PrivotError, UsageError
from privot.guarantee import Standing
from privot.synthesis.neural.encoders.arithmetic_checks import check_threads
from privot.synthesis.neural.encoders.exact_arithmetic import divided, is_exact, norms
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.codes_beside_fourier import DRAWN, CodesBesideFourier, check_share
from privot.synthesis.neural.features.fourier import kept_on, public_range, register

PROVEN_ON = ("cpu", "cuda")
"""Devices on which a release whose map holds an encoder is PROVEN; on others it is UNPROVEN. The argument, and what it
rests on: `docs/design/decisions/0008-public-encoders.md`."""
_ROUNDS = 8
"""A record fails so often, each time between two public images that do not, before it counts as one that fails by
itself: memory that is short for a moment does not choose the record each time."""


class ImageCodes:
    """z(x), the vectors that an encoder makes of an image, scaled to norm 1; what every map of codes shares.

    Several layers are each scaled to norm 1/√L. `encoder`, `shape`, `low`, `high` and `seal` are those of
    `EncoderFeatures`, which says what is guaranteed of z.
    """

    def __init__(
        self,
        encoder: PublicEncoder,
        shape: Sequence[int],
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        seal: str | None = None,
    ) -> None:
        self.encoder, self.shape = encoder, tuple(int(side) for side in shape)
        self.axes = image_axes(self.shape)
        self.dim = math.prod(self.axes[:3])
        self.low, self.high = public_range(low, high, self.dim)
        self._tape = encoder.tape(self.axes.channels, self.axes.height, self.axes.width)
        self._sealed = self._tape.digest()
        if seal is not None and seal != self._sealed:
            raise PrivotError(
                "This process makes other numbers of the encoder than the one that asked for them: run both with the "
                "same PyTorch, on the same kind of machine."
            )
        self.width, self._layers = sum(self._tape.widths), len(self._tape.widths)
        self._full_precision = False

    def standing_on(self, device: str) -> Standing:
        """Of releases with this map that are computed on `device`."""
        return encoder_standing(device)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee rests on because of the encoder."""
        return (f"the encoder with SHA-256 {self.encoder.digest} was not trained on these records",)

    def codes(self, x: Tensor) -> Tensor:
        """z, of shape (rows, width), in the number type of `x`."""
        _, low, span = kept_on(self, x, lambda: (0.0, self.low, self.high))
        # not on a grid, as for other maps: the sums of an encoder are exact for any numbers
        if x.dim() != 2 or x.shape[1] != self.dim:
            # numbers of one record would be taken for those of another
            raise UsageError(f"An encoder for images of shape {self.shape} takes rows of {self.dim} numbers.")
        images = self.axes.pictures(((x - low) / span).clamp(0.0, 1.0))
        if not is_exact(x):
            return self._scaled(self._trained_layers(images))
        self._check_device(x.device)
        step = self._tape.block_on(x.device.type)
        # a number that is none is not cut to the range by any rule that all processors share
        images = torch.where(torch.isnan(x).any(dim=1)[:, None, None, None], math.nan, images)
        parts = [self._exact_codes(images[start : start + step]) for start in range(0, len(images), step)]
        # a library that is loaded on the way may change a mode too
        check_threads(x.device)
        if self._tape.digest(x.device) != self._sealed:
            raise PrivotError("The numbers of the encoder changed while it ran: start again, and report this.")
        return torch.cat(parts) if parts else x.new_zeros(0, self.width)

    def _trained_layers(self, images: Tensor) -> list[Tensor]:
        """The layers of samples, in float32; where a generator is trained on a GPU, computed in half precision."""
        if not (images.is_cuda and images.requires_grad) or self._full_precision:
            return self._tape.run(images)
        try:
            return self._tape.run_half(images)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError:
            # an operator that takes no two number types together: found in the first step, before any is recorded
            self._full_precision = True
            return self._tape.run(images)

    def _check_device(self, device: torch.device) -> None:
        """Refuse a device that rounds otherwise; a GPU evaluates public rows once, before any record."""
        check_threads(device)
        tried: set[torch.device] = self.__dict__.setdefault("_devices", set())
        if device.type != "cpu" and device not in tried:
            self._tape.rehearse(device)
            tried.add(device)

    def _exact_codes(self, images: Tensor) -> Tensor:
        found = self._tried(images)
        if found is None and len(images) > 1:
            return torch.cat([self._exact_codes(image[None]) for image in images])
        if found is not None:
            return found
        # what a step takes depends on shapes alone: where a public image fails too it was the machine, and a zero would
        # be wrong; no library names all its failures, and some name none ("std::bad_alloc")
        public = torch.zeros_like(images)
        for _ in range(_ROUNDS):
            self._check_machine(public)
            if (found := self._tried(images)) is not None:
                return found
        self._check_machine(public)
        # a record whose evaluation fails by itself is zero, whatever stands beside it; nothing is said
        return images.new_zeros(1, self.width)

    def _check_machine(self, public: Tensor) -> None:
        """Stop where a public image cannot be evaluated."""
        if self._tried(public) is None:
            raise PrivotError(
                "The encoder cannot be evaluated here, most likely for too little memory: free some, and start again."
            )

    def _tried(self, images: Tensor) -> Tensor | None:
        """The codes, or None where the evaluation fails."""
        try:
            layers, finite = self._tape.run_checked(images)
            return torch.where(finite[:, None], self._scaled(layers), 0.0)
        except Exception:
            return None

    def _scaled(self, layers: Sequence[Tensor]) -> Tensor:
        """Each layer divided by its norm and by √L; a layer of zeros stays zero, a row that is not finite becomes 0."""
        least = 2.0**-400 if is_exact(layers[0]) else 1e-12
        lengths = [norms(layer, (1,), keepdim=True) for layer in layers]
        # a comparison, which is false for a NaN by IEEE 754: a length that is not known stays so
        scaled = [layer / torch.where(size < least, least, size) for layer, size in zip(layers, lengths, strict=True)]
        codes = divided(torch.cat(scaled, dim=1), math.sqrt(self._layers))
        return torch.where(torch.isfinite(codes).all(dim=1, keepdim=True), codes, 0.0)


class EncoderFeatures(ImageCodes, CodesBesideFourier):
    """φ(x) = (√s·z, √(1−s)·ψ(z)), z the encoder's vectors of x scaled to norm 1, ψ random Fourier features of z.

    Several layers are each scaled to norm 1/√L. So ‖φ‖ ≤ 1, and ⟨φ(x), φ(y)⟩ is s times the cosine of the codes plus
    1 − s times a Gaussian kernel between them: means of z say what a class looks like, those of ψ how it spreads.

    Parameters
    ----------
    encoder
        The network, from a file.
    shape
        The public shape of an image.
    frequencies, bandwidths, seed
        Those of ψ; the codes of two images are at most 2 apart.
    low, high
        The public range of the records.
    share
        s, strictly between 0 and 1.
    seal
        SHA-256 of the numbers that another process made of the file; None where there is no other.

    Raises
    ------
    UsageError
        If a parameter is out of range, or the network has an operator that privot does not evaluate.

    Notes
    -----
    Formal guarantees:
      * φ of a record depends on that record, the numbers that privot made of the file (`exact_bytes` seals them) and
        public parameters alone: z to the last bit, ψ to the `rounding` of `Fourier`;
      * ‖φ‖ ≤ 1 for every record: norms are computed here, in float64, never by the network;
      * where a layer of a record is not finite, or its evaluation fails, z is zero for that record, and no error is
        raised; a failure that a public image meets too, which depends on shapes alone, stops the release.

    Releases are *proven* on the processor and on GPUs by NVIDIA (`PROVEN_ON`), and *unproven* on others.

    In float64, which is what mechanisms use, codes are computed by sums that are exact in any order, on the CPU or on
    the GPU that holds the records; a GPU is tried on public rows first, which must agree bit for bit in any company. In
    float32 they are computed by the usual functions: that is for training, which sees no record.
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
        seal: str | None = None,
    ) -> None:
        check_share(share)
        super().__init__(encoder, shape, low, high, seal)
        self._draw(self.width, frequencies, bandwidths, seed, share)

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again, beside the encoder's file, which the digest names."""
        return {"kind": self.kind, "encoder": self.encoder.to_dict(), **self._drawn()}

    def exact_bytes(self) -> bytes:
        """The map to the last bit: the file by its digest, and the numbers that were made of it."""
        return repr(sorted(self.to_dict().items())).encode() + self._sealed.encode() + self.fourier.exact_bytes()

    def __reduce__(self) -> Any:
        """By its parameters: steps are functions, which do not travel between processes; the seal does."""
        given = (self.fourier.frequencies, self.bandwidths, self.fourier.seed, self.low, self.high, self.share)
        return type(self), (self.encoder, self.shape, *given, self._sealed)


@register("encoder")
def _encoder(fields: Mapping[str, Any]) -> EncoderFeatures:
    return EncoderFeatures(PublicEncoder.from_dict(fields["encoder"]), **{name: fields[name] for name in DRAWN})


def code_width(encoder: PublicEncoder, shape: Sequence[int]) -> int:
    """The numbers that `encoder` makes of an image of this shape."""
    axes = image_axes(tuple(int(side) for side in shape))
    return sum(encoder.tape(axes.channels, axes.height, axes.width).widths)


def encoder_standing(device: str) -> Standing:
    """Of releases whose map holds an encoder, computed on `device`."""
    # PyTorch calls other makers' GPUs "cuda" too (ROCm); nobody has looked at how these round, and at their products
    known = device == "cpu" or torch.version.hip is None
    return Standing.PROVEN if known and device in PROVEN_ON else Standing.UNPROVEN


def codes_among(maps: Sequence[Any]) -> ImageCodes | None:
    """The first map of an encoder's codes among `maps` and the maps that they are stacked of; None if there is none."""
    for each in maps:
        found = each if isinstance(each, ImageCodes) else codes_among(getattr(each, "maps", ()))
        if found is not None:
            return found
    return None
