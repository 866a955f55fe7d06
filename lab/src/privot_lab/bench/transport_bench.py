"""Benchmarks transport against other libraries: value *and* gradient, all in one run, on random points.

`seconds`: many calls in a row, the best round, privot without the check for NaN; all must reach the same accuracy.
`single`: the median of single calls, each waited for; "privot checked" looks for NaN besides (for Sinkhorn with the
default tolerance of 1e-6, tighter than what the others reach).

Typed: `sliced(x, y)` with nothing else, beside POT's own default call (50 directions, independent), POT asked for as
many directions as privot's 1,000, and four lines of PyTorch that draw 1,000 independent ones. Value alone, and value
with the gradient in x; single calls, on a GPU where there is one, and on the processor with so many threads.

Sliced: the same points and directions for all; the floor is the matrix products and sorts alone, PyTorch the direct
implementation in four lines. Sinkhorn: GeomLoss runs at its default scaling, its L1 marginal error is measured, and all
others must reach that error.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import torch
from torch import Tensor

from privot.errors import UsageError
from privot.transport import sinkhorn, sliced
from privot_lab.bench.clock import race, seconds, singles

SLICED_DIM, SINKHORN_DIM, CLASSES, SLICES = 784, 794, 10, 1000
TYPED_DIMS = (2, 64, 784)
TYPED_PEERS = ("POT", "POT 1000", "PyTorch")
MAX_FOR_PEERS = {"sliced": 100_000, "sinkhorn": 10_000}
"""Largest sizes for other libraries: beyond these they run out of memory or take too long."""


@dataclass(frozen=True)
class BenchRow:
    """The time of one library on one job at one size."""

    job: str
    n: int
    who: str
    seconds: float | None
    error: float | None
    note: str = ""
    single: float | None = None
    """Median seconds of a single call."""


def sliced_pair(n: int, device: torch.device, slices: int = SLICES) -> tuple[Tensor, Tensor, Tensor]:
    """(x, y, directions): n points per side in SLICED_DIM dimensions."""
    generator = torch.Generator().manual_seed(n)
    x = torch.rand(n, SLICED_DIM, generator=generator).to(device)
    y = (torch.rand(n, SLICED_DIM, generator=generator) + 0.1).to(device)
    u = torch.nn.functional.normalize(torch.randn(SLICED_DIM, slices, generator=generator), dim=0).to(device)
    return x, y, u


def _typed_ways(n: int, dim: int, slope: bool, device: torch.device) -> Iterator[tuple[str, Callable[[], object]]]:
    generator = torch.Generator().manual_seed(n)
    x = torch.rand(n, dim, generator=generator).to(device)
    y = (torch.rand(n, dim, generator=generator) + 0.1).to(device)

    if slope:
        x.requires_grad_(True)

    def timed(value: Callable[[], Any]) -> Callable[[], object]:
        return (lambda: torch.autograd.grad(value(), x)) if slope else value

    def plain() -> Tensor:
        u = torch.nn.functional.normalize(torch.randn(dim, SLICES, device=device), dim=0)
        return ((x @ u).sort(0).values - (y @ u).sort(0).values).square().mean().sqrt()

    yield "privot", timed(lambda: sliced(x, y).value)
    yield "PyTorch", timed(plain)
    if find_spec("ot"):
        ot = _import_without_output("ot")
        yield "POT", timed(lambda: ot.sliced_wasserstein_distance(x, y))
        yield "POT 1000", timed(lambda: ot.sliced_wasserstein_distance(x, y, n_projections=SLICES))


def _sliced_ways(n: int, device: torch.device) -> Iterator[tuple[str, Callable[[], object]]]:
    x, y, u = sliced_pair(n, device)
    leaf = x.clone().requires_grad_(True)

    def ours() -> object:
        return torch.autograd.grad(sliced(leaf, y, directions=u, check=False).value, leaf)

    def floor() -> object:
        # slices as rows, sorted along memory, in blocks of the same size as privot's
        total = torch.zeros_like(x)
        block = max(1, min(SLICES, (1 << 26) // n))
        for start in range(0, SLICES, block):
            across = u[:, start : start + block].T.contiguous()
            px, py = across @ x.T, across @ y.T
            px.sort(1)
            py.sort(1)
            total.addmm_(px.T, across)
        return total

    def default() -> object:
        return torch.autograd.grad(sliced(leaf, y, directions=u).value, leaf)

    def plain() -> object:
        gaps = (leaf @ u).sort(0).values - (y @ u).sort(0).values
        return torch.autograd.grad(gaps.square().mean().sqrt(), leaf)

    yield "privot", ours
    yield "privot checked", default
    yield "floor", floor
    if n <= MAX_FOR_PEERS["sliced"]:
        yield "PyTorch", plain
    if find_spec("ot") and n <= MAX_FOR_PEERS["sliced"]:
        ot = _import_without_output("ot")

        def pot() -> object:
            return torch.autograd.grad(ot.sliced_wasserstein_distance(leaf, y, projections=u, p=2), leaf)

        yield "POT", pot


def _import_without_output(name: str) -> Any:
    """Import a library and drop what it prints."""
    with _no_output():
        return __import__(name)


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _labelled(n: int, shift: float, generator: torch.Generator) -> Tensor:
    """Images of noise with 15·one-hot labels appended, as DP-Sinkhorn compares them."""
    x = torch.randn(n, SINKHORN_DIM - CLASSES, generator=generator) + shift
    labels = torch.nn.functional.one_hot(torch.arange(n) % CLASSES, CLASSES).float()
    return torch.cat([x, 15.0 * labels], 1)


def _marginal_error(f: Tensor, g: Tensor, x: Tensor, y: Tensor, reg: float) -> float:
    """Σ|P1 − a| + Σ|Pᵀ1 − b| of the plan of potentials for the cost ‖x−y‖², in blocks of rows."""
    n, m = len(x), len(y)
    columns = torch.zeros(m, device=x.device, dtype=torch.float64)
    rows = 0.0
    for start in range(0, n, 2000):
        part = slice(start, start + 2000)
        cost = torch.cdist(x[part].double(), y.double()).square()
        plan = ((f[part, None].double() + g[None].double() - cost) / reg).exp() / (n * m)
        rows += float((plan.sum(1) - 1.0 / n).abs().sum())
        columns += plan.sum(0)
    return rows + float((columns - 1.0 / m).abs().sum())


def sinkhorn_pair(n: int, device: torch.device, share: float) -> tuple[Tensor, Tensor, float]:
    """(x, y, reg): n labelled points per side in SINKHORN_DIM dimensions, reg = `share` of the mean cost."""
    generator = torch.Generator().manual_seed(n)
    x, y = _labelled(n, 0.0, generator).to(device), _labelled(n, 0.2, generator).to(device)
    few = slice(0, min(n, 500))
    return x, y, share * float(torch.cdist(x[few], y[few]).square().mean())


@dataclass(frozen=True)
class _Way:
    """A solver call, and the marginal error that it reached."""

    who: str
    call: Callable[[], object]
    error: float
    note: str


def _sinkhorn_rows(n: int, device: torch.device, share: float) -> Iterator[BenchRow]:
    x, y, reg = sinkhorn_pair(n, device, share)
    target_error, ways = 1e-3, []
    if find_spec("geomloss") and n <= MAX_FOR_PEERS["sinkhorn"]:
        for backend in ("tensorized", "online") if find_spec("pykeops") else ("tensorized",):
            try:
                ways.append(_geomloss(x, y, reg, backend))
            except (RuntimeError, ImportError) as error:
                yield BenchRow("sinkhorn", n, f"GeomLoss {backend}", None, None, f"failed: {type(error).__name__}")
        target_error = ways[0].error if ways else target_error
    ways[:0] = [_ours(x, y, reg, target_error, device), _default(x, y, reg), _ours_direct(x, y, reg, target_error)]
    if find_spec("ot") and n <= min(MAX_FOR_PEERS["sinkhorn"], 2000):
        for method in ("sinkhorn", "sinkhorn_log"):
            way = _pot(x, y, reg, target_error, method)
            if way.error <= target_error:
                ways.append(way)
            else:
                yield BenchRow("sinkhorn", n, way.who, None, way.error, "did not reach the common error")
    calls = [w.call for w in ways]
    for way, spent, single in zip(ways, race(calls, device, budget=2.0), singles(calls, device), strict=True):
        yield BenchRow("sinkhorn", n, way.who, spent, way.error, way.note, single)
    if find_spec("ott") and n <= MAX_FOR_PEERS["sinkhorn"] and device.type == "cpu":
        yield BenchRow("sinkhorn", n, "ott-jax", _ott(x, y, reg, target_error), None, "threshold at the common error")


def _ours(x: Tensor, y: Tensor, reg: float, target_error: float, device: torch.device) -> _Way:
    leaf = x.clone().requires_grad_(True)

    def run() -> Any:
        result = sinkhorn(leaf, y, reg, tol=target_error, check=False)
        torch.autograd.grad(result.value, leaf)
        return result

    found = run()
    note = f"{found.iterations} iterations"
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        run()
        note += f", peak {torch.cuda.max_memory_allocated(device) / 2**30:.2f} GiB with its inputs"
    f, g = found.potentials
    return _Way("privot", run, _marginal_error(f, g, x, y, reg), note)


def _default(x: Tensor, y: Tensor, reg: float) -> _Way:
    """With default arguments, as a user calls it, including the check for NaN."""
    leaf = x.clone().requires_grad_(True)

    def run() -> Any:
        result = sinkhorn(leaf, y, reg)
        torch.autograd.grad(result.value, leaf)
        return result

    found = run()
    f, g = found.potentials
    return _Way("privot checked", run, _marginal_error(f, g, x, y, reg), f"{found.iterations} iterations, tol 1e-6")


def _ours_direct(x: Tensor, y: Tensor, reg: float, target_error: float) -> _Way:
    """The gradient of the solver itself, without autograd, as a mechanism that clips it and adds noise uses it."""

    def run() -> Any:
        result = sinkhorn(x, y, reg, tol=target_error, check=False)
        return result.value, result.gradient, result

    f, g = run()[2].potentials
    return _Way("privot direct", run, _marginal_error(f, g, x, y, reg), "gradient read off the result, no autograd")


def _geomloss(x: Tensor, y: Tensor, reg: float, backend: str) -> _Way:
    """GeomLoss at its default scaling. Its cost is ‖x−y‖²/2 and its temperature blur², so reg = 2·blur²."""
    geomloss = _import_without_output("geomloss")
    leaf = x.clone().requires_grad_(True)
    terms: dict[str, Any] = {"loss": "sinkhorn", "p": 2, "blur": math.sqrt(reg / 2.0), "debias": False}
    loss = geomloss.SamplesLoss(**terms, backend=backend)
    with _no_output():  # KeOps prints what it compiles
        f, g = geomloss.SamplesLoss(**terms, backend=backend, potentials=True)(x, y)
        torch.autograd.grad(loss(leaf, y), leaf)
    error = _marginal_error(2.0 * f.flatten(), 2.0 * g.flatten(), x, y, reg)
    who = "GeomLoss" if backend == "tensorized" else "GeomLoss KeOps"
    return _Way(who, lambda: torch.autograd.grad(loss(leaf, y), leaf), error, f"{backend}, scaling 0.5")


def _pot(x: Tensor, y: Tensor, reg: float, target_error: float, method: str) -> _Way:
    """POT's Sinkhorn with the envelope gradient, at the loosest threshold that reaches the target marginal error.

    Its threshold is an L2 norm, so the target as threshold would let it stop early.
    """
    ot, n = _import_without_output("ot"), len(x)
    leaf = x.clone().requires_grad_(True)
    a = torch.full((n,), 1.0 / n, device=x.device)
    threshold, error = target_error, math.inf

    def run() -> Tensor:
        cost = torch.cdist(leaf, y).square()
        with torch.no_grad():
            plan: Tensor = ot.sinkhorn(a, a, cost, reg, method=method, stopThr=threshold, warn=False)
        torch.autograd.grad((plan * cost).sum(), leaf)
        return plan

    for _ in range(10):
        plan = run().double()
        error = float((plan.sum(0) - 1.0 / n).abs().sum() + (plan.sum(1) - 1.0 / n).abs().sum())
        if error <= target_error:
            break
        threshold /= 2.0
    return _Way("POT" if method == "sinkhorn" else "POT log", run, error, f"{method}, envelope gradient")


def _ott(x: Tensor, y: Tensor, reg: float, target_error: float) -> float | None:
    """Seconds of ott-jax's Sinkhorn, compiled, value and gradient."""
    try:
        jax = __import__("jax")
        pointcloud = __import__("ott.geometry.pointcloud", fromlist=["PointCloud"])
        linear = __import__("ott.solvers.linear", fromlist=["solve"])

        def value(points: Any, others: Any) -> Any:
            geometry = pointcloud.PointCloud(points, others, epsilon=reg)
            return linear.solve(geometry, threshold=target_error).reg_ot_cost

        run = jax.jit(jax.value_and_grad(value))
        left, right = jax.numpy.asarray(x.cpu().numpy()), jax.numpy.asarray(y.cpu().numpy())
        return seconds(lambda: jax.block_until_ready(run(left, right)), torch.device("cpu"))
    except Exception:  # a library that does not run here is left out, whatever it raises
        return None


def measure(
    sizes: list[int],
    device: torch.device,
    jobs: tuple[str, ...] = ("sliced", "sinkhorn"),
    share: float = 0.05,
    report: Callable[[BenchRow], None] = lambda row: None,
) -> dict[str, Any]:
    """All rows, as plain JSON types; `report` is called with each finished row. `share` is reg over the mean cost."""
    unknown = set(jobs) - {"sliced", "sinkhorn"}
    if unknown or not sizes or min(sizes) < 2:
        raise UsageError("Expected jobs among sliced and sinkhorn, and sizes of at least 2.")
    rows: list[BenchRow] = []
    for job in jobs:
        for n in sizes:
            if job == "sliced":
                ways = dict(_sliced_ways(n, device))
                calls = list(ways.values())
                for who, spent, single in zip(ways, race(calls, device), singles(calls, device), strict=True):
                    rows.append(BenchRow("sliced", n, who, spent, None, single=single))
                    report(rows[-1])
            else:
                for row in _sinkhorn_rows(n, device, share):
                    rows.append(row)
                    report(row)
    return {
        "device": _name(device),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "dimension": {"sliced": SLICED_DIM, "sinkhorn": SINKHORN_DIM},
        "slices": SLICES,
        "reg_over_mean_cost": share,
        "rows": [asdict(r) for r in rows],
        "ratios": ratios(rows),
    }


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()


@dataclass(frozen=True)
class TypedRow:
    """Median seconds of `sliced(x, y)`, and of others: privot's share of their time."""

    device: str
    threads: int | None
    n: int
    dim: int
    gradient: bool
    seconds: float
    shares: dict[str, float]


def measure_typed(
    sizes: list[int], threads: list[int], report: Callable[[TypedRow], None] = lambda row: None
) -> dict[str, Any]:
    """The call as people type it, as plain JSON types; `report` is called with each finished row."""
    if not sizes or min(sizes) < 2 or not threads or min(threads) < 1:
        raise UsageError("Expected sizes of at least 2, and numbers of threads of at least 1.")
    places: list[tuple[torch.device, int | None]] = [(torch.device("cpu"), count) for count in threads]
    if torch.cuda.is_available():
        places.insert(0, (torch.device("cuda"), None))
    rows: list[TypedRow] = []
    before = torch.get_num_threads()
    for (device, count), n, slope, dim in product(places, sizes, (False, True), TYPED_DIMS):
        torch.set_num_threads(count or before)
        ways = dict(_typed_ways(n, dim, slope, device))
        took = dict(zip(ways, singles(list(ways.values()), device, budget=0.3), strict=True))
        own = took.pop("privot")
        shares = {who: own / theirs for who, theirs in took.items()}
        rows.append(TypedRow(_name(device), count, n, dim, slope, own, shares))
        report(rows[-1])
    torch.set_num_threads(before)
    return {"torch": torch.__version__, "load": os.getloadavg()[0], "rows": [asdict(r) for r in rows]}


def ratios(rows: list[BenchRow]) -> list[dict[str, Any]]:
    """For every job and size: how many times faster privot is than each library, and its time over the floor."""
    found = []
    for job, n in dict.fromkeys((r.job, r.n) for r in rows):
        here = {r.who: r.seconds for r in rows if (r.job, r.n) == (job, n) and r.seconds}
        if "privot" not in here:
            continue
        peers = {who: s for who, s in here.items() if not who.startswith("privot") and who != "floor"}
        alone = {r.who: r.single for r in rows if (r.job, r.n) == (job, n) and r.single}
        times = {f"times_faster_than_{who}": s / here["privot"] for who, s in peers.items()}
        if "privot direct" in here:
            times |= {f"times_faster_directly_than_{who}": s / here["privot direct"] for who, s in peers.items()}
        if "privot checked" in alone:
            own = alone["privot checked"]
            times |= {f"checked_times_faster_than_{who}": alone[who] / own for who in peers if who in alone}
        if "floor" in here:
            times["over_the_floor"] = here["privot"] / here["floor"]
        found.append({"job": job, "n": n, **times})
    return found
