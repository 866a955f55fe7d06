"""Tries a gradient function on public rows before anything is paid; it touches no record."""

from __future__ import annotations

import pickle
import random
import sys

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.mechanisms.gradients.gradient_function import CHUNK, Array, Gradients

_ALIKE = 1e-3
"""Two gradients of one row may differ by this share of their norm, by rounding."""


def try_gradients(gradients: Gradients, weights: Array, dim: int, classes: int) -> None:
    """Refuse a function that fails on public rows, draws random numbers, or gives a row another gradient elsewhere.

    The same rows are passed twice as they are, and once in another order beside other rows with other labels. This is
    done at the given weights and at others, since a gradient may be 0 at the given ones. It finds dropout, batch
    statistics and any dependence on a row's place or on other rows. It is a test of what the function promises, not a
    proof. Differences by rounding are accepted: the clipping margin covers them.
    """
    dice = np.random.default_rng(0)
    rows, labels = dice.uniform(size=(CHUNK, dim)), dice.integers(0, classes, CHUNK)
    order, kept = dice.permutation(CHUNK), np.arange(CHUNK) < CHUNK // 2
    others = dice.uniform(size=rows.shape), dice.integers(0, classes, CHUNK)
    again = rows, labels, np.flatnonzero(kept)
    elsewhere = (
        np.where(kept[:, None], rows, others[0])[order],
        np.where(kept, labels, others[1])[order],
        np.argsort(order)[kept],
    )
    states = _random_states()
    for at in (weights, weights + 0.1 * dice.normal(size=weights.shape)):
        first = _public_gradients(gradients, at, *again)
        limit = _ALIKE * (np.linalg.norm(first, axis=1) + 1e-12)
        for given in (again, elsewhere):
            off = np.linalg.norm(_public_gradients(gradients, at, *given) - first, axis=1)
            if (off > limit).any():
                raise UsageError(
                    "A record's gradient changes with its place, with the records beside it or from call to call, so "
                    "clipping it does not bound the record: remove dropout, batch statistics and "
                    "anything that keeps state."
                )
    if states != _random_states():
        raise UsageError("The gradients use random numbers, which depend on a record's place: remove what draws them.")


def _public_gradients(
    gradients: Gradients, weights: Array, rows: Array, labels: NDArray[np.int64], places: NDArray[np.int64]
) -> Array:
    """The gradients at `places`; numbers that are not finite become 0."""
    try:
        each = gradients.each(weights, rows, labels)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"The gradients cannot be computed on public rows ({type(error).__name__}): there must be one per "
            "record, without random numbers."
        ) from None
    if tuple(each.shape) != (CHUNK, gradients.size):
        raise UsageError(
            f"The gradients must have one row per record, {CHUNK} rows of {gradients.size} numbers here, got shape "
            f"{tuple(each.shape)}."
        )
    held = each[places]
    held = held if isinstance(held, np.ndarray) else held.double().cpu().numpy()
    return np.where(np.isfinite(held), held, 0.0)


def _random_states() -> list[bytes]:
    """The states of the global random number generators."""
    found = [pickle.dumps(random.getstate()), pickle.dumps(np.random.get_state())]
    torch = sys.modules.get("torch")
    if torch is not None:
        states = [torch.get_rng_state()]
        states += torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        found += [state.numpy().tobytes() for state in states]
    return found
