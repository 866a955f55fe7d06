"""Centred codes of a public encoder, for a linear classifier that is tuned on records inside a mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.errors import DataError, UsageError
from privot.synthesis.neural.encoders.exact_arithmetic import is_exact
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.features.encoder_features import ImageCodes
from privot.synthesis.neural.features.linear_classifier import LinearClassifier
from privot.synthesis.neural.features.network_features import digest_of_arrays

OFFSET = 0.1
"""The last feature of every image, for an offset of each class: a tenth of the usual norm."""
SHORTEST = 0.25
"""The least length that codes are divided by: features then stay within 2/0.25 = 8, where `TunedHead` cuts them."""
_BITS = 30
"""Behind the point of codes of records and of the centre."""
_QUICK = 8
"""Samples at a time for every record at a time: in float32 a step holds few of the copies that exact sums take."""


class EncoderCodes(ImageCodes):
    """φ(x) = ((z − c)/w, 0.1), z the encoder's vectors of x scaled to norm 1 (`ImageCodes`); 0 where z is 0.

    Codes of all images have much in common, which tells no class from another and would take up most of a bounded norm:
    c is what samples have in common, and w the usual distance from it.

    Parameters
    ----------
    encoder, shape, low, high, seal
        As for `EncoderFeatures`.
    center
        c, public, of shape (width,), within ±1, put on a grid of 2⁻³⁰; 0 unless given.
    length
        w, public, from 0.25 to 2; 1 unless given. `centred` measures both on samples.

    Formal guarantees:
      * in float64 a row's features depend on that row alone, to the last bit, whatever rows stand beside it: z does
        (`EncoderFeatures`), and is snapped to 2⁻³⁰; its distance from c is a whole number of 2⁻³⁰ below 2³², which is
        exact; what is left is one multiplication with 1/w, rounded number by number as IEEE 754 says;
      * the codes of a record with a NaN, of one whose layers are not finite, and of one whose evaluation fails are zero
        throughout. Such a record has features of zero, the last one included, so it adds nothing to a gradient,
        whatever its label is. So has an image whose codes are all snapped to zero, because the network answers zero, or
        next to it, in all layers: that, too, is a function of the image alone;
      * the norm of φ is *not* bounded here: a mechanism that releases a function of φ bounds it (`TunedHead`).
    Releases with this map stand as those with `EncoderFeatures` do (`PROVEN_ON`), under the same assumption. In
    float32, for samples, the usual functions are used.
    """

    kind = "encoder codes"
    rounding = 0.0

    def __init__(
        self,
        encoder: PublicEncoder,
        shape: Sequence[int],
        center: NDArray[Any] | None = None,
        length: float = 1.0,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        seal: str | None = None,
    ) -> None:
        super().__init__(encoder, shape, low, high, seal)
        given = np.zeros(self.width) if center is None else np.array(center, dtype=np.float64)
        if given.shape != (self.width,) or not (np.abs(given) <= 1.0).all():
            raise UsageError(f"The centre of codes must be {self.width} numbers from -1 to 1.")
        self.center: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(given, _BITS)), -_BITS)
        self.length = float(length)
        if not SHORTEST <= self.length <= 2.0:
            raise UsageError(f"The usual distance of codes must lie between {SHORTEST} and 2, got {length!r}.")

    @property
    def size(self) -> int:
        """A number for every number of the codes, and one more."""
        return self.width + 1

    def features(self, x: Tensor) -> Tensor:
        """(rows, size) from (rows, dim)."""
        codes = self.codes(x)
        if is_exact(codes):
            codes = torch.round(codes * 2.0**_BITS) * 2.0**-_BITS
        apart = (codes - torch.as_tensor(self.center).to(codes)) * (1.0 / self.length)
        found = torch.cat([apart, apart.new_full((len(apart), 1), OFFSET)], dim=1)
        return torch.where((codes != 0.0).any(dim=1, keepdim=True), found, 0.0)

    def blocks(self, x: Tensor) -> Iterator[Tensor]:
        """The features of some rows at a time, so that little memory is held."""
        for part in self._parts(x):
            yield self.features(part)

    def most_samples(self, device: str) -> int:
        """How many samples, in float32, are encoded at a time on `device`."""
        return self._tape.block_on(torch.device(device).type) * _QUICK

    def _parts(self, x: Tensor) -> Iterator[Tensor]:
        step = self._tape.block_on(x.device.type) if is_exact(x) else self.most_samples(str(x.device))
        for first in range(0, len(x), step):
            yield x[first : first + step]

    def centred(self, samples: Tensor, low: float | Sequence[float], high: float | Sequence[float]) -> EncoderCodes:
        """The same map for records of another range, with c the mean code and w the median distance of `samples`.

        Samples are post-processing of a release, so c and w are public. Samples without a code do not count.
        """
        with torch.no_grad():
            parts = [self.codes(part).float().cpu() for part in self._parts(samples)]
        found = torch.cat(parts) if parts else torch.zeros(0, self.width)
        found = found[(found != 0.0).any(dim=1)]
        if not len(found):
            return EncoderCodes(self.encoder, self.shape, None, 1.0, low, high)
        mean = found.mean(dim=0, dtype=torch.float64).clamp(-1.0, 1.0)
        usual = float(torch.linalg.vector_norm(found - mean.float(), dim=1).median())
        return EncoderCodes(self.encoder, self.shape, mean.numpy(), min(2.0, max(SHORTEST, usual)), low, high)

    def to_dict(self) -> dict[str, Any]:
        """A description with a digest that identifies the map beside the encoder's file; its constants: `tensors`."""
        facts = {"kind": self.kind, "encoder": self.encoder.to_dict(), "shape": list(self.shape)}
        return {**facts, "low": self.low, "high": self.high, "digest": digest_of_arrays(self.tensors())}

    def tensors(self) -> dict[str, Tensor]:
        """The constants, in float64."""
        length = torch.tensor([self.length], dtype=torch.float64)
        return {"center": torch.from_numpy(self.center.copy()), "length": length}

    @classmethod
    def from_tensors(cls, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> EncoderCodes:
        """The map that `to_dict` and `tensors` wrote, to the last bit, if this process has read the encoder's file."""
        try:
            encoder = PublicEncoder.from_dict(fields["encoder"])
            center, length = tensors["center"].numpy(), float(tensors["length"].item())
            made = cls(encoder, fields["shape"], center, length, fields["low"], fields["high"])
        except DataError:
            # which says what is missing: the file of an encoder
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, UsageError) as error:
            raise DataError(f"These are not codes of an encoder that privot wrote ({type(error).__name__}).") from None
        if made.to_dict() != dict(fields):
            raise DataError("These codes of an encoder are not the ones that labels were released for.")
        return made

    def exact_bytes(self) -> bytes:
        """The map to the last bit: the file by its digest, and the numbers that were made of it."""
        return repr(sorted(self.to_dict().items())).encode() + self._sealed.encode()

    def __reduce__(self) -> Any:
        """By its parameters: steps are functions, which do not travel between processes; the seal does."""
        given = (self.encoder, self.shape, self.center, self.length, self.low, self.high, self._sealed)
        return type(self), given


class EncoderClassifier(LinearClassifier):
    """Linear scores of classes on `EncoderCodes`; it labels samples and sees no record."""

    kind = "encoder classes"
    map: EncoderCodes

    @classmethod
    def read_map(cls, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> EncoderCodes:
        """The codes that were written with it."""
        return EncoderCodes.from_tensors(fields, tensors)
