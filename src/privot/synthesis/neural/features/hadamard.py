"""Random Fourier features along structured frequencies, in whole numbers: fast on a processor, the same to the bit.

The product with a dense matrix of frequencies, and cosines in double precision, take five times as long as reading a
small image. Here a record takes two fast Hadamard transforms for each block of frequencies (Le, Sarlós & Smola 2013;
Yu et al. 2016), and the cosines come from a table (`privot.mechanisms.phase_sums`).

Let n be the power of two from `dim` on (256 at least), H the Hadamard matrix of n × n with entries ±1, L the steps of
the grid of records, u = rint(L·x') ∈ {0, …, L}^dim the record on it, filled up with zeros to n columns. The phases of a
block of n frequencies, in 2⁻³² turns, are

    p = S·H·D₂·H·D₁·u  modulo 2³²,

D₁ and D₂ random signs and S whole numbers, drawn for each block.

Exactness: every factor is a whole number, and sums, differences and products of whole numbers modulo 2³² are exact in
unsigned 32-bit arithmetic, in any order and beside any other rows. So p is that of the dense whole-number matrix
W = S·H·D₂·H·D₁, and depends on its record alone. The only step with a rounding is u, which is computed value by value.

Norm: ‖φ(x)‖ ≤ 1 − MARGIN in a release, whatever p is, by the entries of the table: `phase_sums` proves it.

Law: (H·D₂·H·D₁)/n is orthogonal, and a row of H·D₂ has independent random signs; so w·u, w a row, is a sum of n
independent terms given H·D₁·u, whose terms are of one size (their squares differ as those of Gaussians do, with high
probability over D₁). With S = rint(2³²·χ/(2π·h·n·L)), χ of the law of the norm of a Gaussian vector of n numbers,
W·L·2⁻³² has the first two moments of Gaussian frequencies of standard deviation 1/(2πh) exactly (but for the rounding
of S, which is 128 or more) and E cos(2πw(x' − y')) is exp(−‖x' − y'‖²/2h²) up to O(1/n).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.mechanisms.phase_sums import LARGEST_SQUARE, PHASE_BITS, pairs
from privot.synthesis.neural.features.fourier import Fourier, register

LEAST_BLOCK = 256
"""The smallest n: with fewer random signs a sum of them is further from a Gaussian variable."""
MAX_DIM = 1 << 16
"""The most columns for which the default bandwidths leave 8 bits to a record and 7 to S."""
LEAST_SCALE = 128
"""The smallest mean of S: its rounding then moves a frequency's length by 0.2 % (root mean square) at most."""
_LEVELS, _FINER = 255, 8
_TOGETHER = 1024
"""Frequencies that are transformed at once."""


class HadamardFourier(Fourier):
    """φ(x) = (cos 2πWx', sin 2πWx')/√m as `Fourier`, W = S·H·D₂·H·D₁ structured, phases and cosines whole numbers.

    Parameters
    ----------
    dim, frequencies, bandwidths, seed, low, high
        As those of `Fourier`.

    Notes
    -----
    x' lies on a grid of L = 255·2ᵏ steps, k ≤ 8 as large as the 32 bits of a phase allow: images of 8 bits lie on it
    exactly. k falls as columns grow (by default 7 at 784, 3 at 12,288, 0 at 65,536).

    Float64 tensors without gradient get the table's cosines, the same to the bit as in a release; others get cosines of
    the dense product, which has gradients. On the grid the two differ by less than 10⁻³ of 1/√m and their own rounding;
    off it also by what a record is rounded: at bandwidths of b·√dim by 0.3/(b·L) radians (root mean square), which is
    0.01 for L = 255 and b = 0.11.

    References
    ----------
    Le, Sarlós & Smola 2013, "Fastfood: approximating kernel expansions in loglinear time". Yu, Suresh, Choromanski,
    Holtmann-Rice & Kumar 2016, "Orthogonal random features".

    Examples
    --------
    >>> features = HadamardFourier(784, 2000, (3.0, 5.0), seed=1, high=255.0)
    >>> images = np.random.default_rng(0).integers(0, 256, (3, 784)).astype(float)
    >>> phases = features.phases(images)
    >>> phases.shape, bool((phases[:, 1:2] == features.phases(images[1:2])).all())
    ((2000, 3), True)
    """

    kind = "fourier-hadamard"
    rounding = 0.0

    def __init__(
        self,
        dim: int,
        frequencies: int,
        bandwidths: Sequence[float],
        seed: int,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
    ) -> None:
        super().__init__(dim, frequencies, bandwidths, seed, low, high)
        self.block = max(LEAST_BLOCK, 1 << (self.dim - 1).bit_length())
        widest, narrowest = (self._scale(pick(self.bandwidths), _LEVELS) for pick in (max, min))
        if self.dim > MAX_DIM or widest < LEAST_SCALE:
            raise UsageError("There are too many columns, or bandwidths too large, for phases of 32 bits: use Fourier.")
        self.levels = _LEVELS << int(min(_FINER, math.log2(widest / LEAST_SCALE)))
        # a step of the grid would turn a phase so far that the grid decided the features
        if narrowest * _LEVELS / self.levels * math.sqrt(self.block) > 2.0 ** (PHASE_BITS - 6):
            raise UsageError("The bandwidths are too small for the grid of the records: use larger ones.")
        self._least = np.asarray(self.low)
        with np.errstate(over="ignore"):
            self._factor = self.levels / (np.asarray(self.high) - self._least)
        if not np.isfinite(self._factor).all():
            raise UsageError("A public range is too narrow for the grid of the records: use a wider one.")

    def _scale(self, bandwidth: float, levels: int) -> float:
        """The mean of S, about."""
        return 2.0**PHASE_BITS / (2.0 * math.pi * bandwidth * math.sqrt(self.block) * levels)

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
        """D₁ of shape (blocks, dim, 1), D₂ of (blocks, n, 1) and S of (m, 1), modulo 2³²."""
        n, m = self.block, self.frequencies
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=(2,))))
        signs = (1 - 2 * generator.integers(0, 2, (2, -(-m // n), n, 1))).astype(np.uint32)
        lengths = np.sqrt(generator.chisquare(n, m))
        # frequency i has bandwidth i mod B, as in `Fourier`
        widths = np.resize(np.array(self.bandwidths), m)
        scales = np.rint(2.0**PHASE_BITS * lengths / (2.0 * math.pi * widths * n * self.levels)).astype(np.int64)
        return signs[0, :, : self.dim].copy(), signs[1], scales.astype(np.uint32)[:, None]

    @cached_property
    def _turns(self) -> NDArray[np.float64]:
        """W·L·2⁻³², of shape (dim, m): the same frequencies as a dense matrix, in turns, exactly."""
        first, second, scales = (part.astype(np.int32).astype(np.int64) for part in self._drawn)
        n, out = self.block, np.empty((self.dim, self.frequencies))
        # H is symmetric, so W transposed is D₁·H·D₂·H·S: a few frequencies at a time, all of one block
        for at in range(0, self.frequencies, LEAST_BLOCK):
            own = scales[at : at + LEAST_BLOCK, 0]
            chosen = np.zeros((n, len(own)), dtype=np.int64)
            chosen[at % n + np.arange(len(own)), np.arange(len(own))] = own
            mixed = transformed(transformed(chosen, n) * second[at // n], n)[: self.dim] * first[at // n]
            out[:, at : at + LEAST_BLOCK] = np.ldexp(mixed * float(self.levels), -PHASE_BITS)
        return out

    def on_grid(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """u = rint(L·x'), value by value; infinite values lie at the ends, and what is no number at 0."""
        with np.errstate(over="ignore"):
            # float64 is stated: NumPy 1 would subtract one public end from float32 rows in float32
            out: NDArray[np.float64] = np.subtract(rows, self._least, dtype=np.float64)
            out *= self._factor
        # of a number and what is none, fmax takes the number
        np.fmax(out, 0.0, out=out)
        np.minimum(out, float(self.levels), out=out)
        return np.rint(out, out=out)

    def phases(self, rows: NDArray[np.float64]) -> NDArray[np.uint32]:
        """p of shape (m, rows), in 2⁻³² turns."""
        first, second, scales = self._drawn
        n, m = self.block, self.frequencies
        if not len(rows):
            return np.zeros((m, 0), dtype=np.uint32)
        on_grid = np.ascontiguousarray(self.on_grid(rows).astype(np.uint32).T)
        out, each = np.empty((m, len(rows)), dtype=np.uint32), max(1, _TOGETHER // n)
        for at in range(0, len(first), each):
            mine, some = slice(at * n, (at + each) * n), slice(at, at + each)
            start = np.zeros((len(first[some]), n, len(rows)), dtype=np.uint32)
            np.multiply(on_grid, first[some], out=start[:, : self.dim])
            mixed = transformed(start.reshape(-1, len(rows)), n).reshape(start.shape)
            mixed *= second[some]
            found = transformed(mixed.reshape(-1, len(rows)), n)
            np.multiply(found[: m - at * n], scales[mine], out=out[mine])
        return out

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, 2m) from (rows, dim)."""
        if x.dtype is not torch.float64 or (x.requires_grad and torch.is_grad_enabled()):
            return super().features(x)
        rows = x.detach().cpu().numpy()
        lost = np.isnan(rows).any(axis=1)
        cosines, sines = pairs(self.phases(rows))
        # of norm at most 1, by the largest entry of the table
        whole = np.concatenate([cosines, sines]).T / (math.isqrt(self.frequencies * LARGEST_SQUARE) + 2)
        whole[lost] = 0.0
        return torch.from_numpy(np.ascontiguousarray(whole)).to(x.device)

    def exact_bytes(self) -> bytes:
        """The map to the last bit: another library may draw S from the same seed a rounding apart."""
        return json.dumps(self.to_dict(), sort_keys=True).encode() + b"".join(part.tobytes() for part in self._drawn)

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again."""
        fields = super().to_dict()
        del fields["frame"]
        return fields

    def __getstate__(self) -> dict[str, Any]:
        """Without the dense matrix, which a worker that adds records up does not need; with what was drawn."""
        self._drawn  # noqa: B018
        dense = ("_turns", "_kept", "_angles")
        return {name: value for name, value in self.__dict__.items() if name not in dense}


def transformed(a: NDArray[Any], block: int) -> NDArray[Any]:
    """H·a for every `block` rows of `a`, which it may overwrite; of whole numbers modulo 2^bits of their type.

    >>> transformed(np.array([[1], [2], [3], [4]]), 4)[:, 0].tolist()
    [10, -2, -4, 0]
    """
    a, b, half = np.ascontiguousarray(a), np.empty_like(a), block // 2
    while half:
        old, new = (array.reshape(-1, 2, half * a.shape[1]) for array in (a, b))
        np.add(old[:, 0], old[:, 1], out=new[:, 0])
        np.subtract(old[:, 0], old[:, 1], out=new[:, 1])
        a, b, half = b, a, half // 2
    return a


@register("fourier-hadamard")
def _hadamard_fourier(fields: Mapping[str, Any]) -> HadamardFourier:
    names = ("dim", "frequencies", "bandwidths", "seed", "low", "high")
    return HadamardFourier(**{name: fields[name] for name in names})
