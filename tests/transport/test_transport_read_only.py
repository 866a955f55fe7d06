"""Arrays that may not be written to, as releases hold them, are read without a warning and left as they were."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from privot import Vault
from privot.mechanisms import RandomProjection
from privot.mechanisms.directions import directions_of
from privot.transport import exact, interpolate, sinkhorn, sliced, wasserstein_1d
from privot.transport._solvers.costs import with_labels

X, Y = np.random.default_rng(0).random((2, 6, 3))


@pytest.fixture(autouse=True)
def _every_warning_is_an_error() -> Iterator[None]:
    """PyTorch says it once per process otherwise."""
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        torch.set_warn_always(False)


def read_only(array: Any) -> Any:
    out = np.array(array)
    out.setflags(write=False)
    return out


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: sliced(x, y, directions=read_only(np.eye(3))).value,
        lambda x, y: sliced(x, y, seed=1).value,
        lambda x, y: sinkhorn(x, y, 0.5).value,
        lambda x, y: exact(x, y).value,
        lambda x, y: exact(x, y, a=read_only(np.full(6, 1 / 6))).value,
        lambda x, y: wasserstein_1d(x[:, 0], y[:, 0]).value,
        lambda x, y: interpolate(x, y, 0.5).value,
        lambda x, y: with_labels(x, read_only(np.arange(6)), 6, 2.0),
    ],
)
def test_read_only_arrays_give_what_writable_ones_give_without_a_warning(compute: Callable[[Any, Any], Any]) -> None:
    x, y = read_only(X), read_only(Y)
    np.testing.assert_array_equal(compute(x, y), compute(X.copy(), Y.copy()))
    np.testing.assert_array_equal(x, X)


@pytest.mark.slow
def test_directions_of_a_release_become_a_tensor_without_a_warning() -> None:
    vault = Vault(X, clip=0.5, adjacency="replace-one", budget=(1e6, 1e-5))
    release = vault.release(RandomProjection(slices=2, sigma=1.0), purpose="test")
    directions = directions_of(release.public)
    torch.from_numpy(directions).zero_()
    # what one caller does to its copy, the next does not see
    np.testing.assert_allclose(np.linalg.norm(directions_of(release.public), axis=0), 1.0)
    assert sliced(np.asarray(X), np.asarray(Y), directions=directions_of(release.public)).value > 0.0
