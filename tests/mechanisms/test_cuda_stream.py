"""A private stream: what is queued on it waits for the caller, and the caller waits for it, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from privot.accounting import FixedSize, Poisson
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import SanitizedGradient
from privot.mechanisms.cuda_stream import Lane
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.vault import Vault

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Device:
    """A stand-in for torch.cuda that writes down what is queued where; each device has streams of its own."""

    def __init__(self) -> None:
        self.log: list[tuple[str, ...]] = []
        self.made = 0
        self.now = threading.local()

    @property
    def number(self) -> int:
        return getattr(self.now, "number", 0)

    def Stream(self) -> Any:
        self.made += 1
        return Queue(self, f"private {self.made}", self.number)

    def current_stream(self) -> Any:
        name = f"caller {threading.current_thread().name}" + (f" on device {self.number}" if self.number else "")
        return getattr(self.now, "stream", None) or Queue(self, name, self.number)

    @contextmanager
    def device(self, number: int) -> Iterator[None]:
        before, self.now.number = self.number, number
        try:
            yield
        finally:
            self.now.number = before

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.now.stream = getattr(self.now, "stream", None), stream
        try:
            yield
        finally:
            self.now.stream = before

    def queue(self, what: str) -> None:
        self.log.append((self.current_stream().name, what))


class Queue:
    def __init__(self, cuda: Device, name: str, device: int) -> None:
        self.cuda, self.name, self.device = cuda, name, device

    def wait_stream(self, other: Any) -> None:
        self.cuda.log.append((self.name, "waits for", other.name))


class Answered:
    """A tensor's stand-in."""

    def __init__(self) -> None:
        self.read_on: list[str] = []

    def record_stream(self, stream: Any) -> None:
        self.read_on.append(stream.name)


def test_a_turn_waits_before_and_is_waited_for_after() -> None:
    device, value = Device(), Answered()
    lane = Lane("cuda", device)
    with lane.turn() as hand_over:
        device.queue("work")
        given = hand_over(value)  # type: ignore[arg-type]
    device.queue("look")
    caller = f"caller {threading.current_thread().name}"
    assert device.log == [
        ("private 1", "waits for", caller),
        ("private 1", "work"),
        (caller, "waits for", "private 1"),
        (caller, "look"),
    ]
    assert given is value
    assert value.read_on == [caller]
    assert device.made == 1


def test_a_turn_that_fails_is_waited_for_all_the_same() -> None:
    device = Device()
    lane = Lane("cuda", device)
    with pytest.raises(ValueError, match="broken"), lane.turn():
        raise ValueError("broken")
    assert device.log[-1][1:] == ("waits for", "private 1")
    with lane.turn():
        device.queue("next")
    assert device.log[-2] == ("private 1", "next")


def test_while_another_device_is_current_the_stream_of_the_own_one_waits() -> None:
    """The answer lies on the own device and is read by its stream: another device's wait would not hold that back."""
    device = Device()
    lane = Lane("cuda", device)
    with device.device(1), lane.turn():
        device.queue("work")
    caller = f"caller {threading.current_thread().name}"
    assert device.log == [
        ("private 1", "waits for", caller),
        ("private 1", "work"),
        (caller, "waits for", "private 1"),
    ]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_turns_of_several_threads_do_not_interleave(device: str) -> None:
    stand_in = Device()
    lane = Lane(device, stand_in if device == "cuda" else None)

    def work() -> None:
        for _ in range(20):
            with lane.turn():
                stand_in.queue(f"begin {threading.current_thread().name}")
                threading.Event().wait(1e-4)
                stand_in.queue(f"end {threading.current_thread().name}")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [entry[1].split(" ", 1) for entry in stand_in.log if "wait" not in entry[1]]
    assert len(told) == 160
    for (first, one), (second, two) in zip(told[::2], told[1::2], strict=True):
        assert (first, second, one) == ("begin", "end", two)


@pytest.mark.parametrize(
    "probe", ["torch.cuda.is_current_stream_capturing", "torch.compiler.is_compiling", "torch.jit.is_tracing"]
)
def test_nothing_is_answered_while_a_graph_is_recorded(monkeypatch: pytest.MonkeyPatch, probe: str) -> None:
    """Noise drawn ahead would be in the graph, and every replay would add it to another answer."""
    vault = Vault(np.eye(8), clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    stream = vault.stream(SanitizedGradient(4, 1.0, 0.5, FixedSize(2, 8), steps=2, sweeps=14), purpose="test")
    asked = GradientQuery(torch.zeros(4, 8))
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: "cuda" in probe)
        patch.setattr(probe, lambda: True)
        with pytest.raises(UsageError, match="replay"):
            stream.answer(asked)
        with pytest.raises(UsageError, match="replay"), Lane("cpu").turn():
            pass
    # a query that was refused used up no step
    stream.answer(asked)
    stream.answer(asked)


def small_stream() -> Any:
    x = np.random.default_rng(0).uniform(size=(8, 5))
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(1e6, 1e-5))
    return vault.stream(SanitizedGradient(4, 1.0, 0.5, FixedSize(2, 8), steps=2, sweeps=8), purpose="test")


def test_a_trace_holds_no_answer() -> None:
    """A traced answer takes new points with the old sample and noise: two of them differ by exactly what is hidden."""
    stream = small_stream()

    def step(x: torch.Tensor) -> torch.Tensor:
        return 1.0 * torch.as_tensor(stream.answer(GradientQuery(x)).value)

    with pytest.raises(UsageError, match="replay"):
        torch.jit.trace(step, (torch.zeros(4, 5),), check_trace=False)
    with pytest.raises(UsageError, match="see records"):
        make_fx(step)(torch.zeros(4, 5))
    step(torch.zeros(4, 5))
    step(torch.zeros(4, 5))


class Onlooker(TorchDispatchMode):
    """Sees every tensor, as profilers, counters and tracers do."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += sum(isinstance(a, torch.Tensor) and a.shape == (8, 5) for a in args)
        return function(*args, **(kwargs or {}))


class Listener(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("look", [Onlooker, Listener, torch.autograd.detect_anomaly])
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_nothing_is_answered_while_somebody_looks_on(look: Any) -> None:
    stream, asked = small_stream(), GradientQuery(torch.zeros(4, 5))
    with look() as mode, pytest.raises(UsageError, match="see records"):
        stream.answer(asked)
    assert getattr(mode, "seen", 0) == 0
    # saying where new tensors lie is no looking on
    with torch.device("cpu"):
        stream.answer(asked)
    stream.answer(asked)


def cuda_vault(records: int, noise: Any = None) -> Vault:
    x = np.random.default_rng(0).uniform(size=(records, 30))
    y = np.arange(records) % 3
    return Vault(x, y, classes=3, clip=1.0, adjacency="add-remove", budget=(1e9, 1e-5), noise=noise)


def cuda_mechanism(device: str, **changes: Any) -> SanitizedGradient:
    usual = {"points": 12, "sigma": 1e-3, "clip": 0.5, "sampling": Poisson(1.0), "capacity": 40, "steps": 300}
    return SanitizedGradient(**{**usual, "reg": 1.0, "sweeps": 100, "labels": True, "device": device, **changes})


@needs_cuda
def test_a_gpu_answers_what_a_processor_answers() -> None:
    """All records take part and σ is small: both answers are the clipped gradient to within the noise."""
    x = torch.rand(12, 30, generator=torch.Generator().manual_seed(1)) * 2 - 1
    marks = torch.arange(12) % 3
    found = []
    for device in ("cpu", "cuda"):
        stream = cuda_vault(40).stream(cuda_mechanism(device), purpose="test")
        asked = GradientQuery(x.to(device), marks.to(device))
        found.append(torch.stack([torch.as_tensor(stream.answer(asked).value).cpu() for _ in range(100)]).mean(0))
    assert float((found[0] - found[1]).abs().max()) < 1e-3
    assert float(found[0].norm()) > 0.3


@needs_cuda
def test_answers_asked_for_on_many_streams_are_those_of_one() -> None:
    """Each thread on its own stream, with a query of its own: an answer mixed up with another's would be far off."""
    mechanism = cuda_mechanism("cuda", steps=400)
    stream = cuda_vault(40).stream(mechanism, purpose="test")
    queries = [torch.full((12, 30), 0.2 * k - 0.3) for k in range(4)]
    marks = torch.arange(12) % 3
    expected = []
    for x in queries:
        alone = cuda_vault(40).stream(cuda_mechanism("cpu", steps=1, sigma=1e-4), purpose="test")
        expected.append(torch.as_tensor(alone.answer(GradientQuery(x, marks)).value))
    worst = [0.0] * len(queries)

    def ask(k: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            asked = GradientQuery(queries[k].cuda(), marks.cuda())
            for _ in range(50):
                value = torch.as_tensor(stream.answer(asked).value)
                worst[k] = max(worst[k], float((value.cpu() - expected[k]).abs().max()))

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(len(queries))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # six deviations of the noise, and float32 sums in another order
    assert max(worst) < 6e-3 + 1e-3


@needs_cuda
def test_noise_on_a_gpu_is_fresh_at_every_step_and_of_the_size_that_is_counted() -> None:
    """σ as charged is accepted and two thirds of it would not be."""
    stream = cuda_vault(40).stream(cuda_mechanism("cuda", sigma=2.0), purpose="test")
    asked = GradientQuery(torch.zeros(12, 30, device="cuda"), torch.arange(12, device="cuda") % 3)
    values = torch.stack([torch.as_tensor(stream.answer(asked).value).cpu() for _ in range(300)])
    spread = float((values - values.mean(0)).square().sum() / (299 * values[0].numel())) ** 0.5
    assert abs(spread - 2.0) < 0.05
    centred = (values - values.mean(0)).flatten(1) / spread
    lagged = (centred[1:] * centred[:-1]).mean()
    assert abs(float(lagged)) < 5.0 / (299 * 360) ** 0.5


@pytest.mark.statistical
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_samples_are_of_the_rate_that_is_counted(device: str) -> None:
    """One record far from all others, which lie where the points do: the answer says whether it took part.

    If it did, each of 360 entries is −2·(2 + 1)/(12·b) in a sample of b ≤ 25 records, or −0.5/√360 = −0.026 where that
    exceeds the clip of 0.5: −0.02 or less. If not, they are 0. The mean of 360 entries has noise of 0.01/√360 = 5e-4,
    and the middle is 19 of that from either.
    """
    steps = 2000 if device == "cuda" else 500
    x = np.full((50, 30), 0.5)
    x[0] = 1.0
    vault = Vault(x, clip=1.0, adjacency=Adjacency.ADD_REMOVE, budget=(1e9, 1e-5))
    mechanism = cuda_mechanism(
        device, sampling=Poisson(0.2), labels=False, steps=steps, sigma=1e-2, sweeps=8, capacity=50
    )
    stream = vault.stream(mechanism, purpose="test")
    asked = GradientQuery(torch.zeros(12, 30, device=device))
    seen = sum(float(torch.as_tensor(stream.answer(asked).value).mean()) < -1e-2 for _ in range(steps))
    assert abs(seen - 0.2 * steps) < 5 * (steps * 0.2 * 0.8) ** 0.5
