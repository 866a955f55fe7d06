"""One place chooses the device, and one place warms up what is recorded as a CUDA graph."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import privot
from privot.common.devices import check_device, usable_device
from privot.errors import UsageError

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("there", "auto"), [(False, "cpu"), (True, "cuda")])
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch, there: bool, auto: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert usable_device("auto", auto=True) == auto
    assert usable_device("cpu", auto=True) == usable_device("cpu") == "cpu"


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"^There is no CUDA device here: use the device cpu\.$"):
        usable_device("cuda")
    assert check_device("cuda") == "cuda"


@pytest.mark.parametrize("name", ["tpu", "", "CUDA", None, 0])
def test_an_unknown_device_is_refused(name: Any) -> None:
    for check in (check_device, usable_device):
        with pytest.raises(UsageError, match=r": say cpu or cuda\.$"):
            check(name)
        with pytest.raises(UsageError, match=r": say auto, cpu or cuda\.$"):
            check(name, auto=True)


def test_a_mechanism_states_its_device_and_takes_no_auto() -> None:
    with pytest.raises(UsageError, match="Unknown device 'auto'"):
        usable_device("auto")


class Cuda:
    """Stands in for `torch.cuda`: writes down what is asked of its streams, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    class _Stream:
        def __init__(self, name: str, log: list[str]) -> None:
            self.name, self.log = name, log

        def wait_stream(self, other: Any) -> None:
            self.log.append(f"{self.name} waits for {other.name}")

    def Stream(self, device: Any = None) -> Any:
        return self._Stream(f"aside on {device}", self.log)

    def current_stream(self, device: Any = None) -> Any:
        return self._Stream(f"current on {device}", self.log)

    @contextmanager
    def stream(self, stream: Any) -> Any:
        self.log.append(f"enter {stream.name}")
        yield
        self.log.append(f"leave {stream.name}")


@pytest.mark.parametrize("device", [None, "cuda:1"])
def test_warming_up_waits_for_what_came_before_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, device: str | None
) -> None:
    from privot.common.cuda_graphs import side_stream

    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    with side_stream(device):
        cuda.log.append("work")
    aside, current = f"aside on {device}", f"current on {device}"
    expected = [f"{aside} waits for {current}", f"enter {aside}", "work", f"leave {aside}"]
    assert cuda.log == [*expected, f"{current} waits for {aside}"]


def test_warming_up_is_waited_for_also_where_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    from privot.common.cuda_graphs import side_stream

    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    with pytest.raises(ZeroDivisionError), side_stream():
        _ = 1 / 0
    assert cuda.log[-1] == "current on None waits for aside on None"


def test_one_module_looks_for_a_cuda_device() -> None:
    """A second place that chooses a device could choose another one, or say another sentence."""
    root = Path(privot.__file__).parent
    found = {p.relative_to(root).as_posix() for p in root.rglob("*.py") if "cuda.is_available" in p.read_text("utf-8")}
    assert found == {"common/devices.py"}


def test_a_gpu_whose_library_emulates_float64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of whole numbers would not be exact, and would depend on all records."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    for name in ("cuda", "auto"):
        with pytest.raises(UsageError, match="CUBLAS_EMULATE_DOUBLE_PRECISION"):
            usable_device(name, auto=True)
    assert usable_device("cpu") == "cpu"
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "0")
    assert usable_device("cuda") == "cuda"
