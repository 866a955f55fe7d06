"""Sliced W_p of equally many points on CUDA: sort, compare and scatter the gradient in as few passes as there are.

Projections are kept as rows, one slice a row, so that sorting runs along contiguous memory. Up to `SMALL` points a
slice is sorted in registers by one program, which also compares and writes the gradient; above, a segmented sort (ours
where it is the faster one) is followed by one pass that does the rest.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict

import torch
import triton
import triton.language as tl

from privot.common.cuda_graphs import side_stream
from privot.transport.cuda.frame_kernels import beside, draw_into, low_bits, seed_on_device
from privot.transport.cuda.matrix_product import multiply
from privot.transport.cuda.row_sort import MAX_ROW_LENGTH, sort_rows
from privot.transport.slice_directions import Frame

SMALL = 1024
GRAPH_POINTS = 2048
GRAPH_ENTRIES = 1 << 22
"""Up to this many points, and numbers in projections or in directions that it draws, the whole distance with its
gradient is recorded as a graph."""
_GRAPHS = 16
POWER_BITS = 80.0
"""Powers |x|^p from 2^−80 to 2^80 leave float32 room for their sums and differences."""
UNIT_SLACK = 1e-3
"""How far the squared norm of a direction may be from 1."""


@triton.jit
def _sortable(values, index):
    """Pack a float32 and its position into an int64 whose order is the float's."""
    bits = values.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    return (ordered << 32) | index.to(tl.int64)


@triton.jit
def _unpack(packed):
    """The float32 and the position of `_sortable`."""
    ordered = (packed >> 32).to(tl.int32)
    bits = tl.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered)
    return bits.to(tl.float32, bitcast=True), (packed & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def _compare(difference, power, scale):
    """|d|^p and its derivative times `scale`, for p = 1, 2 or any other."""
    size = tl.abs(difference)
    if power == 2.0:
        cost = difference * difference
        slope = 2.0 * difference
    elif power == 1.0:
        cost = size
        slope = tl.where(difference > 0, 1.0, tl.where(difference < 0, -1.0, 0.0))
    else:
        log = tl.log(tl.maximum(size, 1e-38))
        cost = tl.where(size > 0, tl.exp(power * log), 0.0)
        slope = tl.where(size > 0, power * tl.exp((power - 1.0) * log), 0.0)
        slope = tl.where(difference > 0, slope, -slope)
    return cost, slope * scale


@triton.jit
def _small(
    x,
    y,
    grad_x,
    grad_y,
    cost,
    n,
    apart_x,
    apart_y,
    power: tl.constexpr,
    scale,
    by_x: tl.constexpr,
    by_y: tl.constexpr,
    width: tl.constexpr,
):
    """One program a slice: sort both sides in registers, compare, scatter."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, width)
    inside = position < n
    a = tl.load(x + row * apart_x + position, mask=inside, other=float("inf"))
    b = tl.load(y + row * apart_y + position, mask=inside, other=float("inf"))
    # positions double what a sort moves: they go along where a gradient is scattered
    if by_x:
        a, at_a = _unpack(tl.sort(_sortable(a, position)))
    else:
        a = tl.sort(a)
    if by_y:
        b, at_b = _unpack(tl.sort(_sortable(b, position)))
    else:
        b = tl.sort(b)
    difference = tl.where(inside, a - b, 0.0)
    costs, slope = _compare(difference, power, scale)
    # NaN sorts behind what fills the row up, whose positions lie outside of it
    # NaN sorts behind what fills the row up, whose positions lie outside of it
    if by_x:
        tl.store(grad_x + row * n + at_a, slope, mask=inside & (at_a < n))
    if by_y:
        tl.store(grad_y + row * n + at_b, -slope, mask=inside & (at_b < n))
    tl.store(cost + row, tl.sum(tl.where(inside, costs, 0.0), axis=0) * scale)


@triton.jit
def _large(
    a,
    at_a,
    b,
    at_b,
    grad_x,
    grad_y,
    cost,
    n,
    power: tl.constexpr,
    scale,
    by_x: tl.constexpr,
    by_y: tl.constexpr,
    width: tl.constexpr,
):
    """One program a piece of a slice, both sides already sorted: compare and scatter."""
    # pieces of one row run side by side, so that their scattered writes meet in the cache
    piece = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    position = piece * width + tl.arange(0, width)
    inside = position < n
    at = row * n + position
    difference = tl.load(a + at, mask=inside, other=0.0) - tl.load(b + at, mask=inside, other=0.0)
    costs, slope = _compare(difference, power, scale)
    if by_x:
        tl.store(grad_x + row * n + tl.load(at_a + at, mask=inside, other=0).to(tl.int32), slope, mask=inside)
    if by_y:
        tl.store(grad_y + row * n + tl.load(at_b + at, mask=inside, other=0).to(tl.int32), -slope, mask=inside)
    tl.store(cost + row * tl.num_programs(0) + piece, tl.sum(costs, axis=0) * scale)


@triton.jit
def _smooth(values, count, sigma, seed, offset, width: tl.constexpr):
    """Add N(0, σ²) in place, drawn from (seed, position): nothing is materialised."""
    position = tl.program_id(0).to(tl.int64) * width + tl.arange(0, width)
    inside = position < count
    noise = tl.randn(seed, (position + offset).to(tl.int32))
    tl.store(values + position, tl.load(values + position, mask=inside) + sigma * noise, mask=inside)


def smooth_(values: torch.Tensor, sigma: float, seed: int, offset: int = 0) -> torch.Tensor:
    """Add *public* Gaussian noise to `values` in place (smoothing, not privacy: the generator is not cryptographic)."""
    count = values.numel()
    _smooth[(triton.cdiv(count, 1024),)](values, count, sigma, seed, offset, width=1024)
    return values


def _sorted(values: torch.Tensor, positions: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows sorted, and where each number stood (anything where that was not asked for)."""
    rows, n = values.shape
    values = values.contiguous()
    if 4096 < n <= MAX_ROW_LENGTH and rows >= 128:
        keys, at = sort_rows(values, positions)
        return keys, keys if at is None else at
    return torch.sort(values, dim=1)


def compare_slices(
    x: torch.Tensor, y: torch.Tensor, p: float, need_x: bool, need_y: bool
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """W_p^p of each row of x against the same row of y, and its gradients by x and y where asked for.

    Args:
        x, y: float32 CUDA projections of shape (slices, n), each row contiguous, equally many on both sides.
        p: the power, at least 1.
        need_x, need_y: which gradients are wanted.

    Returns:
        The costs (slices,), and gradients of shape (slices, n) or None.
    """
    if need_y and not need_x:
        costs, by_y, _ = compare_slices(y, x, p, True, False)
        return costs, None, by_y
    slices, n = x.shape
    # never written where it is not wanted, but a kernel needs some address
    grad_x = x.new_empty(slices, n) if need_x else x
    grad_y = y.new_empty(slices, n) if need_y else y
    if n <= SMALL:
        cost = torch.empty(slices, 1, device=x.device, dtype=torch.float32)
        width = max(16, triton.next_power_of_2(n))
        apart = x.stride(0), y.stride(0)
        # one warp sorts without waiting for another
        _small[(slices,)](
            x, y, grad_x, grad_y, cost, n, *apart, float(p), 1.0 / n, need_x, need_y, width=width, num_warps=1
        )
    else:
        a, at_a = _sorted(x, need_x)
        b, at_b = _sorted(y, need_y)
        width = 2048
        pieces = triton.cdiv(n, width)
        cost = torch.empty(slices, pieces, device=x.device, dtype=torch.float32)
        _large[(pieces, slices)](
            a, at_a, b, at_b, grad_x, grad_y, cost, n, float(p), 1.0 / n, need_x, need_y, width=width, num_warps=8
        )
    costs = cost[:, 0] if cost.shape[1] == 1 else cost.sum(1)
    return costs, grad_x if need_x else None, grad_y if need_y else None


def fits(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether these projections, or points, can be compared here: float32 on CUDA, equally many."""
    return x.device.type == "cuda" and x.dtype == y.dtype == torch.float32 and x.shape == y.shape


def project(across: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """`across` (k, d), a transposed (d, k) matrix, times `points` (n, d) transposed: of shape (k, n)."""
    if points.shape[0] >= 1500 and points.is_contiguous() and points.shape[1] % 16 == 0:
        return multiply(across, points.t())
    return across @ points.t()


class SlicedGraph:
    """SW_p of n against n points along k directions, with gradients, recorded as one graph over fixed buffers.

    With `frame` it draws the directions itself, from the seed of each call; without, they are given.
    """

    def __init__(
        self,
        n: int,
        d: int,
        k: int,
        p: float,
        need_x: bool,
        need_y: bool,
        check: bool,
        frame: Frame | None,
        device: torch.device,
    ) -> None:
        self.p, self.need, self.check, self.frame = p, (need_x, need_y), check, frame
        self._key = seed_on_device(0, device)
        self.report = torch.zeros(2, device=device)
        """With `check`: the largest coordinate (not finite where a point is not), and how far the directions are from
        length 1."""
        # side by side, so that one pass looks at both, and one product projects both
        self.points = torch.zeros(2, n, d, device=device)
        self.x, self.y = self.points
        self.u = torch.zeros(k, d, device=device).t()
        self._sizes = [1, k, *(n * d if need else 0 for need in self.need)]
        # all results in one buffer, so that one copy takes them out
        self._out = torch.zeros(sum(self._sizes), device=device)
        self.value, self.costs, self.grads = self._cut(self._out)
        self._seen: tuple[weakref.ref[torch.Tensor], int] | None = None
        with side_stream(device):
            for _ in range(2):
                self._run()
        torch.cuda.synchronize(device)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._run()

    def _run(self) -> None:
        across, n = self.u.t(), len(self.x)
        with beside() as join:
            if self.check:
                torch.amax(self.points.abs(), (0, 1, 2), out=self.report[0])
        if self.frame is not None:
            draw_into(across, self.frame, self._key)
        both = project(across, self.points.view(2 * n, -1))
        costs, *slopes = compare_slices(both[:, :n], both[:, n:], self.p, *self.need)
        self.costs.copy_(costs)
        total = self.costs.mean()
        torch.pow(total, 1.0 / self.p, out=self.value)
        if any(self.need):
            # the root has no derivative at 0, where it is taken as 0
            factor = torch.where(total > 0, self.value / (self.p * total), 0.0) / len(across)
        for grad, slope in zip(self.grads, slopes, strict=True):
            if grad is not None and slope is not None:
                torch.mm((slope * factor).t(), across, out=grad)
        join()

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, directions: torch.Tensor | int
    ) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor | None]]:
        """(value, costs of the slices, gradients where asked for), along directions given, or drawn from a seed."""
        torch.stack((x, y), out=self.points)
        if isinstance(directions, int):
            self._key.fill_(low_bits(directions))
        # the same tensor, unchanged since, need not be copied again
        elif self._seen is None or self._seen[0]() is not directions or self._seen[1] != directions._version:
            self.u.copy_(directions)
            self._seen = (weakref.ref(directions), directions._version)
            if self.check:
                torch.amax((self.u.square().sum(0) - 1.0).abs(), 0, out=self.report[1])
        self._graph.replay()
        return self._cut(self._out.clone())

    def _cut(self, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor | None]]:
        value, costs, *grads = out.split(self._sizes)
        shaped = [g.view(self.x.shape) if need else None for g, need in zip(grads, self.need, strict=True)]
        return value[0], costs, shaped

    def passed(self) -> bool:
        """Whether the last call may be believed; waits for the device.

        Points must be finite and of a size whose powers float32 holds, directions of length 1.
        """
        size, off = self.report.tolist()
        held = size == 0.0 or (math.isfinite(size) and abs(math.log2(size)) * self.p <= POWER_BITS)
        return held and off <= UNIT_SLACK


_recorded: OrderedDict[tuple[int, int, int, float, bool, bool, bool, Frame | None, int], SlicedGraph] = OrderedDict()


def graph_for(
    x: torch.Tensor, k: int, p: float, need_x: bool, need_y: bool, check: bool, frame: Frame | None
) -> SlicedGraph | None:
    """The recorded distance for points like `x`, or None where they are too many or somebody else is recording."""
    n, d = x.shape
    held = max(n, d if frame else 0) * k
    if n > GRAPH_POINTS or held > GRAPH_ENTRIES or torch.cuda.is_current_stream_capturing():
        return None
    key = (n, d, k, float(p), need_x, need_y, check, frame, x.device.index or 0)
    if key not in _recorded:
        if len(_recorded) >= _GRAPHS:
            _recorded.popitem(last=False)
        with torch.cuda.device(x.device):
            _recorded[key] = SlicedGraph(n, d, k, p, need_x, need_y, check, frame, x.device)
    _recorded.move_to_end(key)
    return _recorded[key]
