"""Exact sums over records: each record adds a bounded row that depends on that record alone; it draws no noise.

Floating point breaks both properties a little: a norm depends on the order of its terms, a sum on all of its terms.
`rounding_per_record` bounds the rounding that is left, for mechanisms that state a sensitivity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError, UsageError

if TYPE_CHECKING:
    import torch

MARGIN = 1e-5
"""A record moves the sums by at most 1 − MARGIN. The rest absorbs rounding, which `rounding_per_record` bounds."""
MAX_RECORDS = 2**31
_UNIT = 2.0**-53
_BITS, _REST_BITS = 32, 30


class FeatureMap(Protocol):
    """A public function φ of one record, ‖φ(x)‖ ≤ 1, that can be written down and drawn again.

    It may be random, but must have been drawn without looking at the records.
    """

    @property
    def dim(self) -> int:
        """Columns of a record."""
        ...

    @property
    def size(self) -> int:
        """Numbers in φ(x)."""
        ...

    @property
    def rounding(self) -> float:
        """How far apart, in norm, two float64 evaluations of one record can be, whatever records stand beside it."""
        ...

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """φ of every row of (rows, dim), in the unit of the records, as (rows, size); differentiable."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again, as plain JSON types."""
        ...


def exact_root(x: torch.Tensor) -> torch.Tensor:
    """√x, in float64 rounded as IEEE 754 says, so that it is a function of that number alone; NaN below 0.

    By NumPy on a CPU, which uses the processor's own square root: PyTorch hands its root to other libraries where these
    are installed (MKL), which promise a small error and not the nearest number.
    """
    import torch

    if x.dtype is not torch.float64 or x.device.type != "cpu":
        return torch.sqrt(x)
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.sqrt(x.detach().numpy())))


def rounding_per_record(features: FeatureMap) -> float:
    """How far, in norm, one record's part of a sum can be from what it is in another sum: r + (1.01·√size + 16)·u.

    u = 2⁻⁵³. r is the map's own `rounding`; clipping is a projection, so it does not widen it. The norm is off by a
    relative (√size + 4)·u (`_norms`), dividing and multiplying by it by 2u, and turning a whole sum S, ‖S‖ ≤ n, into a
    weighted float64 by 3u·‖S‖, or 3u per record. `Sums` rounds each number of a row to a multiple of 2⁻⁶² = u/512, both
    times, and adds without rounding.
    """
    return features.rounding + (1.01 * math.sqrt(features.size) + 16.0) * _UNIT


def clip_features(phi: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`phi` in float64 and, for each row, the factor that brings its norm to 1 − MARGIN at most.

    A row that is not finite, or whose norm is not, becomes zero: a function of that record alone, like all else.
    """
    import torch

    phi = phi.to(torch.float64)
    norms = _norms(phi)
    finite = torch.isfinite(norms)
    if not bool(finite.all()):
        phi = torch.where(finite[:, None], phi, 0.0)
        norms = torch.where(finite, norms, 0.0)
    # a norm below 1e-150 may have lost digits to underflow; such a row is far inside the bound anyway
    share = torch.where(norms > 1.0 - MARGIN, (1.0 - MARGIN) / norms, 1.0)
    return phi, share


def _norms(phi: torch.Tensor) -> torch.Tensor:
    """‖row‖, as the norm of the norms of stretches of c = ⌈√size⌉ numbers.

    k squares summed in any order are off by a relative k·u, their root by half that and u more: here by c/2 + c/2 + 2
    units at most, where one long sum could be off by size/2.
    """
    import torch

    width = math.isqrt(max(phi.shape[1] - 1, 0)) + 1
    whole = phi.shape[1] // width
    parts = torch.linalg.vector_norm(phi[:, : whole * width].view(len(phi), whole, width), dim=2)
    rest = torch.linalg.vector_norm(phi[:, whole * width :], dim=1, keepdim=True)
    out: torch.Tensor = torch.linalg.vector_norm(torch.cat([parts, rest], dim=1), dim=1)
    return out


class Sums:
    """Σ share·φ over the rows of each class; the order and the blocks of the rows do not matter.

    A row w = share·φ is cut into w = 2⁻³²·(h + l), h = rint(2³²w) whole and |l| ≤ 1/2: both exact. l is rounded to a
    whole number of 2⁻³⁰, which moves it by at most 2⁻³¹ and depends on that row alone. Both parts of a block add up in
    float64 without rounding (below 2⁵³), and blocks in 64-bit integers (below 2³¹ records). A row evaluated twice, δ
    apart, may get another h, but h + l stays within δ and 2⁻³⁰ (2⁻⁶² in the unit of w) of what it was.
    """

    def __init__(self, classes: int, size: int, device: str | torch.device) -> None:
        import torch

        self._whole = torch.zeros(classes, size, dtype=torch.int64, device=device)
        self._rest = torch.zeros(classes, size, dtype=torch.int64, device=device)

    def add(self, phi: torch.Tensor, share: torch.Tensor, labels: torch.Tensor) -> None:
        """Add a block, at most 2²⁰ rows, each to the class that `labels` says."""
        import torch

        members = torch.zeros(len(self._whole), len(phi), dtype=torch.float64, device=phi.device)
        members[labels, torch.arange(len(phi), device=phi.device)] = 1.0
        rows = phi * (share * 2.0**_BITS)[:, None]
        whole = torch.round(rows)
        rows -= whole
        rows *= 2.0**_REST_BITS
        self._whole += (members @ whole).to(torch.int64)
        self._rest += (members @ rows.round_()).to(torch.int64)

    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Σ h and Σ l·2³⁰, each (classes, size): what adds up exactly over blocks, processes and machines."""
        return self._whole.cpu().numpy(), self._rest.cpu().numpy()

    def total(self) -> NDArray[np.float64]:
        """(classes, size), rounded twice."""
        return float_sums(*self.parts())


def float_sums(whole: NDArray[np.int64], rest: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sums that two parts of `Sums` stand for, rounded twice."""
    out: NDArray[np.float64] = (whole.astype(np.float64) + rest * 2.0**-_REST_BITS) * 2.0**-_BITS
    return out


def try_map(features: FeatureMap, device: str | torch.device) -> None:
    """Refuse a map that fails, or that gives fixed public rows other features when other rows stand beside them.

    That finds a network left in training mode (batch normalisation, dropout) and a `rounding` stated too small. It is
    a test of what the map promises, not a proof: it does not find every bad map. A map that states a rounding of 0
    must give the same features to the last bit.
    """
    import torch

    dice = np.random.default_rng(0)
    rows = torch.from_numpy(dice.uniform(size=(4, features.dim))).to(device)
    company = torch.from_numpy(np.concatenate([np.zeros((1, features.dim)), dice.normal(size=(6, features.dim)) * 1e3]))

    def held(x: torch.Tensor) -> torch.Tensor:
        phi = features.features(x)
        if phi.shape != (len(x), features.size):
            raise UsageError(
                f"Expected {features.size} features per row, got shape {tuple(phi.shape)}: correct the map."
            )
        if features.rounding == 0.0:
            return phi
        phi, share = clip_features(phi)
        return phi * share[:, None]

    try:
        with torch.no_grad():
            together = held(rows)
            alone = torch.cat([held(row[None]) for row in rows])
            among = held(torch.cat([company.to(device), rows.flip(0)]))[-len(rows) :].flip(0)
    except PrivotError:
        raise
    except Exception as error:
        raise UsageError(
            f"The feature map cannot be evaluated on public rows ({type(error).__name__}): it must take any number "
            "of rows, also one."
        ) from None
    if features.rounding == 0.0:
        # two NaNs count as equal: both become zero
        same = all(torch.allclose(other, together, 0.0, 0.0, equal_nan=True) for other in (alone, among))
    else:
        apart = max(float(torch.linalg.vector_norm(other - together, dim=1).max()) for other in (alone, among))
        same = apart <= rounding_per_record(features)
    if not same:
        raise UsageError(
            "The feature map gives a row other features when other rows stand beside it, by more than the rounding "
            "it states: put it into evaluation mode, or state its rounding."
        )
