"""Public feature maps φ with ‖φ(x)‖ ≤ 1, drawn from recorded seeds; they see records only inside a mechanism.

Every map is written down as a dictionary with its `kind`, and `feature_map` draws it again from that. Maps are
concatenated by `Stack`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import DataError, UsageError
from privot.guarantee import Standing
from privot.mechanisms.embedding import FeatureMap, weakest_standing
from privot.transport.slice_directions import Frame, check_seed, draw_directions

BITS = 16
"""Records are snapped to 2⁻¹⁶ of their public range before their phases are computed in float64."""

_MAKERS: dict[str, Callable[[Mapping[str, Any]], FeatureMap]] = {}


def register(kind: str) -> Callable[[Callable[[Mapping[str, Any]], Any]], Callable[[Mapping[str, Any]], Any]]:
    """Register a kind for `feature_map`, with the function that reads its dictionary."""

    def keep(maker: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
        _MAKERS[kind] = maker
        return maker

    return keep


def feature_map(fields: Mapping[str, Any]) -> FeatureMap:
    """The map that `to_dict` wrote down."""
    try:
        return _MAKERS[fields["kind"]](fields)
    except DataError:
        # which says what is missing: the file of an encoder
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, UsageError) as error:
        raise DataError(f"These are not the public facts of a feature map ({type(error).__name__}).") from None


class Fourier:
    """Random Fourier features (Rahimi & Recht 2007): φ(x) = (cos 2πWx', sin 2πWx')/√m, of norm exactly 1.

    x' is x scaled from its public range [`low`, `high`] (numbers, or one per column) to [0, 1] and clamped there.
    The rows of W are Gaussian with standard deviation 1/(2π·bandwidth), m/B of them for each of the B
    `bandwidths`, so that ⟨φ(x), φ(y)⟩ ≈ mean over bandwidths h of exp(−‖x' − y'‖²/2h²). With `frame`
    "orthogonal" (Yu et al. 2016) rows come in blocks that are orthogonal, with the same lengths: less variance.

    In float64 the scaled record is snapped to a grid of 2⁻¹⁶, and W lies on a grid of its own, so that all
    products and sums of a phase are whole numbers below 2⁵³: a phase is exact in any order of summation,
    and does not depend on the records beside it. Only the last bit of a cosine can.
    """

    kind = "fourier"
    rounding = 2.0**-48

    def __init__(
        self,
        dim: int,
        frequencies: int,
        bandwidths: Sequence[float],
        seed: int,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        frame: Frame = "orthogonal",
    ) -> None:
        self.dim = arguments.whole("The dimension", dim, 1)
        self.frequencies = arguments.whole("The number of frequencies", frequencies, 1)
        self.bandwidths = tuple(float(h) for h in bandwidths)
        if not self.bandwidths or not all(math.isfinite(h) and h > 0.0 for h in self.bandwidths):
            raise UsageError("Bandwidths must be finite numbers greater than 0, at least one.")
        if len(self.bandwidths) > self.frequencies:
            raise UsageError("There must be a frequency for every bandwidth.")
        arguments.check_frame(frame)
        self.seed, self.frame = check_seed(seed), frame
        self.low, self.high = public_range(low, high, self.dim)

    @property
    def size(self) -> int:
        """A cosine and a sine for every frequency."""
        return 2 * self.frequencies

    @property
    def _turns(self) -> NDArray[np.float64]:
        """W of shape (dim, m), in turns, on its grid."""
        sent: NDArray[np.float64] | None = self.__dict__.get("_turns")
        return _drawn(self.dim, self.frequencies, self.bandwidths, self.seed, self.frame) if sent is None else sent

    def __getstate__(self) -> dict[str, Any]:
        """With W, to the last bit: a worker's library may draw another from the same seed. Without copies of it."""
        held = {name: value for name, value in self.__dict__.items() if name not in ("_kept", "_angles")}
        return {**held, "_turns": self._turns}

    def constants(self) -> tuple[Any, Any, Any]:
        """W, and the ends of the range."""
        return self._turns, self.low, self.high

    def exact_bytes(self) -> bytes:
        """The map to the last bit: another library may draw W from the same seed a rounding apart."""
        return json.dumps(self.to_dict(), sort_keys=True).encode() + self._turns.tobytes()

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, 2m) from (rows, dim)."""
        turns, low, span = kept_on(self, x, self.constants)
        phase = to_unit(x, low, span) @ turns
        angle = (phase - torch.round(phase).detach()) * (2.0 * math.pi)
        return torch.cat([torch.cos(angle), torch.sin(angle)], dim=1) / math.sqrt(self.frequencies)

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again."""
        return {
            "kind": self.kind,
            "dim": self.dim,
            "frequencies": self.frequencies,
            "bandwidths": list(self.bandwidths),
            "seed": self.seed,
            "low": self.low,
            "high": self.high,
            "frame": self.frame,
        }


@lru_cache(maxsize=16)
def _drawn(dim: int, frequencies: int, bandwidths: tuple[float, ...], seed: int, frame: Frame) -> NDArray[np.float64]:
    """W of `Fourier`, kept here alone: the maps of a design, of its job and of its release have the same parameters."""
    # in place from here on: of 100,000 columns each copy is 400 MB
    turns = draw_directions(dim, frequencies, frame, seed)
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(1,))))
    lengths = np.sqrt(generator.chisquare(dim, frequencies))
    # frequency i has bandwidth i mod B: every orthogonal block serves all of them
    widths = np.resize(np.array(bandwidths), frequencies)
    turns *= lengths / (2.0 * math.pi * widths)
    sums = np.zeros(frequencies)
    for column in turns:
        sums += np.abs(column)
    # Σ|x'|·|W| is at most the largest of the sums: with 16 bits for x', W may have this many behind the point
    bits = 52 - BITS - math.frexp(float(sums.max()))[1]
    if bits < BITS:
        raise UsageError("The bandwidths are too small for phases to be exact: use larger ones.")
    np.ldexp(turns, bits, out=turns)
    np.rint(turns, out=turns)
    np.ldexp(turns, -bits, out=turns)
    return turns


class Stack:
    """φ(x) = (w₁φ₁(x), w₂φ₂(x), …) with Σ w² = 1: several maps of the same records in one release.

    `weights` are normalised; ⟨φ(x), φ(y)⟩ = Σ w_i²·⟨φ_i(x), φ_i(y)⟩.
    """

    kind = "stack"

    def __init__(self, maps: Sequence[FeatureMap], weights: Sequence[float] | None = None) -> None:
        self.maps = tuple(maps)
        given = [1.0] * len(self.maps) if weights is None else [float(w) for w in weights]
        length = math.sqrt(math.fsum(w * w for w in given))
        if not self.maps or len(given) != len(self.maps) or not all(w > 0.0 for w in given) or not length < math.inf:
            raise UsageError("A stack needs maps, and one finite weight greater than 0 for each.")
        if len({m.dim for m in self.maps}) != 1:
            raise UsageError("The maps of a stack must be made for the same number of columns.")
        self.weights = tuple(given)
        self.shares = tuple(w / length for w in given)

    @property
    def dim(self) -> int:
        """Columns of a record."""
        return self.maps[0].dim

    @property
    def size(self) -> int:
        """Numbers of all maps together."""
        return sum(m.size for m in self.maps)

    @property
    def rounding(self) -> float:
        """√(Σ w²r²) ≤ the largest."""
        return max(m.rounding for m in self.maps)

    def standing_on(self, device: str) -> Standing:
        """That of the weakest map."""
        return weakest_standing(self.maps, device)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee rests on because of one of the maps."""
        return tuple(dict.fromkeys(said for m in self.maps for said in getattr(m, "assumptions", ())))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, size) from (rows, dim)."""
        return torch.cat([w * m.features(x) for w, m in zip(self.shares, self.maps, strict=True)], dim=1)

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the maps again."""
        return {"kind": self.kind, "weights": list(self.weights), "maps": [m.to_dict() for m in self.maps]}


def to_unit(x: torch.Tensor, low: torch.Tensor, span: torch.Tensor) -> torch.Tensor:
    """x scaled to [0, 1] and clamped there; in float64 also snapped to a grid of 2⁻¹⁶, which gradients do not see."""
    unit = ((x - low) / span).clamp(0.0, 1.0)
    if x.dtype is not torch.float64:
        return unit
    snapped = torch.round(unit * 2.0**BITS) * 2.0**-BITS
    return unit + (snapped - unit).detach() if unit.requires_grad else snapped


def kept_on(
    owner: Any, x: torch.Tensor, constants: Callable[[], tuple[Any, Any, Any]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A map's matrix, low end and span where `x` is and in its number type; copies stay in `owner` between calls."""
    kept: dict[Any, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = owner.__dict__.setdefault("_kept", {})
    if (x.device, x.dtype) in kept:
        return kept[x.device, x.dtype]
    matrix, low, high = (torch.as_tensor(v, dtype=torch.float64) for v in constants())
    found = matrix.to(x), low.to(x), (high - low).to(x)
    if found[0] is not matrix:
        kept[x.device, x.dtype] = found
    return found


def ready_to_train(features: FeatureMap, device: torch.device) -> None:
    """Keep what training computes with, and no exact matrix: of 100,000 columns that takes 400 MB more.

    Whoever asks for an exact matrix again draws it again.
    """
    for each in _fourier_maps(features):
        kept_on(each, torch.zeros(0, device=device), each.constants)
    _drawn.cache_clear()


def let_go(features: FeatureMap) -> None:
    """Forget what `kept_on` keeps: the map that was tried out is not the one that training computes with."""
    for each in _fourier_maps(features):
        each.__dict__.pop("_kept", None)


def _fourier_maps(features: FeatureMap) -> list[Fourier]:
    return [each for each in getattr(features, "maps", (features,)) if isinstance(each, Fourier)]


def public_range(
    low: float | Sequence[float], high: float | Sequence[float], dim: int
) -> tuple[float | list[float], float | list[float]]:
    """The public range of values, a number or one per column; finite, and low < high everywhere."""
    lows, highs = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    for ends in (lows, highs):
        if ends.ndim and ends.shape != (dim,):
            raise UsageError(f"A public range is one number, or one for each of {dim} columns.")
    with np.errstate(over="ignore"):
        span = highs - lows
    if not np.isfinite(span).all() or not (span > 0.0).all():
        raise UsageError("A public range needs finite ends, the low one below the high one.")
    return lows.tolist(), highs.tolist()


@register("fourier")
def _fourier(fields: Mapping[str, Any]) -> Fourier:
    names = ("dim", "frequencies", "bandwidths", "seed", "low", "high", "frame")
    return Fourier(**{name: fields[name] for name in names})


@register("stack")
def _stack(fields: Mapping[str, Any]) -> Stack:
    return Stack([feature_map(m) for m in fields["maps"]], fields["weights"])
