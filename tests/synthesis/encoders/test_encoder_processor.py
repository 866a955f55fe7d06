"""What the last bit of an encoder rests on, tried on this processor and its libraries: single operations, and sums."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.synthesis.neural.encoders import arithmetic_checks as checks
from privot.synthesis.neural.encoders import exact_arithmetic as exact
from privot.synthesis.neural.encoders.operators import apply
from privot.synthesis.neural.encoders.tape import RefusedEncoderError, Tape

ENDS = [5e-324, -(2.0**-1060), 2.0**-1022, 1e-300, 0.5, 1.5, 2.5, -3.5, 1.0, -1.0, 6.0, 2.0**52 + 1.0, 1e300, -1.7e308]
STRETCHES = [(start, length) for start in (0, 1, 3, 5) for length in (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 60)]
"""Parts of an array, so that each of its places is at the start, in the middle and at the end of registers."""


def draws(seed: int) -> list[float]:
    random = np.random.default_rng(seed)
    usual = random.normal(size=52) * 10.0 ** random.integers(-12, 12, 52)
    return [float(v) for v in random.permutation(np.concatenate([usual, ENDS]))]


OPERATIONS: dict[str, tuple[Callable[..., Tensor], Callable[[float, float], float]]] = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "quotient": (lambda a, b: a / b, lambda a, b: a / b),
    "plain_sum": (lambda a, b: a + 0.1, lambda a, b: a + 0.1),
    "plain_product": (lambda a, b: a * 0.1, lambda a, b: a * 0.1),
    "plain_quotient": (lambda a, b: a / 6.0, lambda a, b: a / 6.0),
    "reciprocal": (lambda a, b: 1.0 / a, lambda a, b: 1.0 / a),
    # as PyTorch defines it for a plain number: rounded twice
    "over": (lambda a, b: 2.5 / a, lambda a, b: (1.0 / a) * 2.5),
    "round": (lambda a, b: torch.round(a), lambda a, b: float(round(a))),
    "root": (lambda a, b: exact.root(a.abs()), lambda a, b: math.sqrt(abs(a))),
    "choice": (lambda a, b: torch.where(a > b, a, b), lambda a, b: a if a > b else b),
    "larger": (torch.maximum, max),
    "smaller": (torch.minimum, min),
    "cut": (lambda a, b: a.clamp(-1.0, 6.0), lambda a, b: min(max(a, -1.0), 6.0)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_single_operations_are_those_of_single_numbers_at_every_place(name: str) -> None:
    """Bit for bit, subnormal numbers included: registers of any width, and what is left over at the end."""
    ours, python = OPERATIONS[name]
    one, other = draws(1), draws(2)
    wanted = torch.tensor([python(a, b) for a, b in zip(one, other, strict=True)], dtype=torch.float64)
    a, b = (torch.tensor(v, dtype=torch.float64) for v in (one, other))
    apart = torch.stack([a, b], dim=1)
    for start, length in STRETCHES:
        part = slice(start, start + length)
        assert torch.equal(ours(a[part].clone(), b[part].clone()), wanted[part])
        assert torch.equal(ours(apart[part, 0], apart[part, 1]), wanted[part])
    # long enough for several threads
    assert torch.equal(ours(a.repeat(2000), b.repeat(2000)), wanted.repeat(2000))


@pytest.mark.parametrize("inputs", [1, 2, 3, 8, 33, 257, 1000])
def test_products_at_the_bound_are_those_of_whole_numbers(inputs: int) -> None:
    """Σ|w| = 2³⁵ and inputs of ±2¹⁷, or odd ones next to it: partial sums reach 2⁵²; by every way that is used."""
    random = np.random.default_rng(inputs)
    outputs, rows = (1, 5, 17), (2, 4, 32)
    for filters, count in zip(outputs, rows, strict=True):
        w = np.full((filters, inputs), 2**35 // inputs, dtype=np.int64)
        w[:, 0] += 2**35 - w.sum(axis=1)
        w *= random.choice([-1, 1], w.shape)
        w[0] = np.abs(w[0])
        x = random.choice([-1, 1], (count, inputs)) * (2**17 - random.integers(0, 2, (count, inputs)))
        x[0] = 2**17
        wanted = (x.astype(object) @ w.T.astype(object)).astype(np.int64)
        assert wanted[0, 0] == 2**52
        exactly = torch.from_numpy(wanted)
        whole, given = torch.from_numpy(w).double(), torch.from_numpy(x).double()
        assert torch.equal(torch.matmul(given, whole.T).to(torch.int64), exactly)
        # one position and several, without groups and with them
        assert torch.equal(torch.matmul(whole, given[:, :, None])[..., 0].to(torch.int64), exactly)
        several = torch.matmul(whole, given.T.expand(3, inputs, count)).to(torch.int64)
        assert torch.equal(several, exactly.T.expand(3, filters, count))
        grouped = torch.matmul(torch.stack([whole, -whole]), given[:, None, :, None].expand(count, 2, inputs, 1))
        assert torch.equal(grouped[..., 0].to(torch.int64), torch.stack([exactly, -exactly], dim=1))


def test_a_row_that_is_lost_needs_no_library_to_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that skips weights of 0, as some do, loses a NaN: the unit of the row holds it."""
    usual = torch.matmul
    monkeypatch.setattr(torch, "matmul", lambda a, b: usual(a.nan_to_num(0.0), b.nan_to_num(0.0)))
    weights = exact.Weights(torch.zeros(3, 4))
    x = torch.ones(5, 4, dtype=torch.float64)
    x[2, 1] = 2.0**401
    for found in (weights.along_last(x), weights.times(x[:, :, None])[..., 0]):
        assert bool(torch.isnan(found[2]).all())
        assert not found[[0, 1, 3, 4]].any()


MODES = {"x86_64": (0x400, 0x800, 0xC00), "aarch64": (0x400000, 0x800000, 0xC00000)}


@pytest.mark.parametrize("mode", range(3))
def test_threads_that_round_in_another_direction_are_refused(mode: int) -> None:
    """Downwards, upwards or to zero; a mode of one thread, so rows in other threads would be rounded otherwise."""
    library, modes = ctypes.util.find_library("m"), MODES.get(platform.machine())
    if library is None or modes is None or platform.system() != "Linux":
        pytest.skip("The numbers of the modes are known for Linux on two processors.")
    libm = ctypes.CDLL(library)
    checks.check_threads()
    try:
        assert libm.fesetround(modes[mode]) == 0
        with pytest.raises(PrivotError, match="nearest"):
            checks.check_threads()
    finally:
        libm.fesetround(0)
    checks.check_threads()


def test_a_mode_of_other_threads_than_the_calling_one_is_noticed() -> None:
    """Threads are born with the mode of the one that needs them first, and keep it when that one changes back."""
    said: list[Any] = []

    def born() -> None:
        # a thread of Python's has workers of its own
        torch.set_flush_denormal(True)
        torch.ones(1 << 20, dtype=torch.float64).mul_(2.0)
        torch.set_flush_denormal(False)
        small = torch.full((1 << 17,), 2.0**-1070, dtype=torch.float64)
        said.append(bool(((small * 0.5).view(torch.int64) == 8).all()))
        try:
            checks.check_threads()
            said.append(None)
        except PrivotError as error:
            said.append(str(error))

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        thread = threading.Thread(target=born)
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    untouched, refusal = said
    assert (refusal is None) == untouched
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        assert not untouched
    checks.check_threads()


def test_checks_look_at_the_processor_whatever_device_is_usual() -> None:
    with torch.device("meta"):
        checks.check_threads()
        checks.check_products()


def test_threads_that_cannot_be_looked_at_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A team that grows after the look, and a pool that gives parts to whichever thread is free."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.delenv("OMP_DYNAMIC", raising=False)
    checks.check_threads()
    with monkeypatch.context() as patch:
        patch.setenv("OMP_DYNAMIC", "TRUE")
        with pytest.raises(PrivotError, match="OMP_NUM_THREADS=1"):
            checks.check_threads()
        patch.setattr(torch, "get_num_threads", lambda: 1)
        checks.check_threads()
    with monkeypatch.context() as patch:
        patch.setattr(torch.__config__, "parallel_info", lambda: "ATen parallel backend: native thread pool")
        with pytest.raises(PrivotError, match="OMP_NUM_THREADS=1"):
            checks.check_threads()


def test_a_library_that_takes_another_way_beside_a_nan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As emulated products of a GPU do: what one row is would depend on whether another has such a number."""
    tape = Tape((4,))
    weights = tape.weights(torch.rand(3, 4, generator=torch.Generator().manual_seed(0)))
    tape.finish([tape.add(weights.along_last, tape.input)])
    tape.rehearse()
    usual = torch.matmul

    def emulated(a: Tensor, b: Tensor) -> Tensor:
        found = usual(a, b)
        return found if len(a) == 64 or bool(torch.isnan(a).any()) else found * (1.0 + 2.0**-30)

    monkeypatch.setattr(torch, "matmul", emulated)
    with pytest.raises(RefusedEncoderError, match="beside other images"):
        tape.rehearse()


def test_numbers_that_were_copied_to_a_device_are_sealed_too() -> None:
    tape = Tape((4,))
    constant, weights = tape.constant(torch.ones(4)), tape.weights(torch.ones(3, 4))
    place = torch.device("cuda:0")
    constant._held[place, torch.float64] = constant.value.clone()
    weights._held[place] = weights.whole.clone(), weights.unit.clone()
    assert tape.digest(place) == tape.digest()
    for copied in (constant._held[place, torch.float64], *weights._held[place]):
        copied[0] *= 2.0
        assert tape.digest(place) != tape.digest()
        copied[0] *= 0.5
    assert tape.digest(place) == tape.digest()


def test_plain_numbers_are_taken_in_double_precision() -> None:
    tape = Tape((2,))
    tape.finish([apply(tape, "aten::maximum", {"self": tape.input, "other": 0.1}, True)])
    assert tape.run(torch.zeros(1, 2, dtype=torch.float64))[0].tolist() == [[0.1, 0.1]]
