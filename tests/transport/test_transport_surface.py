"""The surface: what comes in goes out the same, bad input is one clear sentence, nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import privot.transport as transport
from privot.errors import DataError, PrivotError, UsageError
from privot.transport import exact, max_sliced, sinkhorn, sinkhorn_divergence, sliced, wasserstein_1d

METHODS: dict[str, Callable[..., Any]] = {
    "exact": exact,
    "sliced": lambda x, y, **k: sliced(x, y, slices=5, seed=1, **k),
    "max_sliced": lambda x, y: max_sliced(x, y, seed=1),
    "sinkhorn": lambda x, y, **k: sinkhorn(x, y, 0.5, **k),
    "divergence": lambda x, y, **k: sinkhorn_divergence(x, y, 0.5, **k),
    "line": wasserstein_1d,
}
GOOD = np.random.default_rng(0).normal(size=(6, 2))


def refused(call: Callable[[], object], kind: type[PrivotError] = PrivotError) -> None:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")


@pytest.mark.parametrize("name", METHODS)
def test_hostile_points_are_one_clear_sentence(name: str) -> None:
    for value in (np.nan, np.inf, -np.inf):
        bad = GOOD.copy()
        bad[2, 1] = value
        refused(lambda bad=bad: METHODS[name](bad, GOOD), DataError)
        refused(lambda bad=bad: METHODS[name](GOOD, torch.tensor(bad)), DataError)
    for bad in (
        np.zeros((0, 2)),
        np.zeros((4, 3)),
        np.zeros((2, 2, 2, 2)),
        np.array([["a", "b"]]),
        [[1.0], [2.0, 3.0]],
    ):
        refused(lambda bad=bad: METHODS[name](bad, GOOD), DataError)
    refused(lambda: METHODS[name](torch.tensor(GOOD), torch.tensor(GOOD, dtype=torch.float32)), UsageError)
    refused(lambda: METHODS[name](torch.ones(3, 2, dtype=torch.int64), torch.tensor(GOOD)), UsageError)


@pytest.mark.parametrize("name", ["exact", "sliced", "sinkhorn", "divergence", "line"])
def test_hostile_weights_are_one_clear_sentence(name: str) -> None:
    good = np.full(6, 1 / 6)
    for change in ([0.5] * 6, [-0.5, 0.5, 0.5, 0.5, 0, 0], [np.nan] * 6, [0.5, 0.5], [0.0] * 6, [[1 / 6] * 6] * 2):
        refused(lambda c=change: METHODS[name](GOOD, GOOD, a=c, b=good), DataError)
        refused(lambda c=change: METHODS[name](GOOD, GOOD, a=good, b=np.array(c)), DataError)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_in_numpy_out_tensors_in_tensors_out(name: str, dtype: type) -> None:
    x, y = GOOD.astype(dtype), (GOOD[::-1] + 1).astype(dtype)
    result = METHODS[name](x, y)
    assert isinstance(result.value, float | np.ndarray)
    t = torch.tensor(x, requires_grad=True)
    back = METHODS[name](t, y)  # an array beside a tensor follows it
    assert back.value.dtype == t.dtype
    np.testing.assert_allclose(back.value.detach().numpy(), result.value, rtol=1e-5)
    back.value.sum().backward()
    assert t.grad is not None
    assert torch.isfinite(t.grad).all()
    assert (result.converged, back.converged) == (True, True)
    with pytest.raises(AttributeError):
        result.value = 0.0


@pytest.mark.parametrize("name", ["exact", "sliced", "sinkhorn", "divergence", "max_sliced"])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (1, 5, 3), (7, 4, 1), (3, 3, 9)])
def test_odd_shapes_and_duplicates_give_numbers(name: str, n: int, m: int, d: int) -> None:
    x, y = np.ones((n, d)), np.random.default_rng(1).normal(size=(m, d))
    assert np.isfinite(METHODS[name](x, y).value)
    assert METHODS[name](x, np.ones((m, d))).value == pytest.approx(0.0, abs=1e-9)
    flat = METHODS[name](x[:, 0], y[:, 0]).value
    assert flat == pytest.approx(METHODS[name](x[:, :1], y[:, :1]).value)


def test_integers_lists_and_mixed_precision_are_read() -> None:
    assert exact([[0], [1]], [[1], [2]], 1).value == 1.0
    assert isinstance(exact(GOOD.astype(np.float32), GOOD + 1).value, float)


def test_what_a_method_does_not_have_is_said() -> None:
    with pytest.raises(UsageError, match="no plan"):
        _ = sliced(GOOD, GOOD, slices=2, seed=1).plan


def test_every_name_is_there_and_no_other() -> None:
    for name in transport.__all__:
        assert callable(getattr(transport, name))
    with pytest.raises(AttributeError):
        _ = transport.nothing


@pytest.mark.slow
def test_importing_the_barrier_imports_no_tensors_and_pot_prints_nothing() -> None:
    code = (
        "import sys, privot, privot.mechanisms\n"
        "assert 'privot.transport' in sys.modules and 'torch' not in sys.modules and 'ot' not in sys.modules\n"
        "from privot.transport import sliced, exact\n"
        "import privot.transport._sliced, privot.transport._exact\n"
        "from privot.transport import sliced as again\n"
        "assert again is sliced and 'ot' not in sys.modules\n"
        "exact([[0.0]], [[1.0], [2.0]])\n"
        "assert 'ot' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
