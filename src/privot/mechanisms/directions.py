"""Draws public random directions from a recorded seed; it may not see a record, nor be seeded by one.

The guarantee of a projection rests on the law of H = ‖zᵀU‖²/‖z‖² for a z chosen *before* U
(`privot.accounting.laws.projection_law`). So:

  * U is independent of the records. Unless a seed is given, one comes from the operating system when the
    mechanism runs, after the vault was filled. A caller who gives a seed asserts that neither the records nor the
    seed were chosen with the other in view.
  * every release on the same records uses directions of its own, because the accountant multiplies moments of
    independent H: step i of a run draws from SeedSequence(seed, spawn_key=(i,)), a vault takes each given seed
    once, and a seed that an earlier release drew cannot be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.transport.slice_directions import Frame, check_own_seed, draw_directions, fresh_seed

__all__ = ["check_own_seed", "directions_of", "draw_directions", "drawn", "fresh_seed"]


@lru_cache(maxsize=1)
def drawn(dim: int, slices: int, frame: Frame, seed: int, step: int) -> NDArray[np.float64]:
    """`draw_directions`, cached and read-only: a training on the release draws the same directions again."""
    out = draw_directions(dim, slices, frame, seed, step)
    out.setflags(write=False)
    return out


def directions_of(public: Mapping[str, Any]) -> NDArray[np.float64]:
    """The directions of a projection, drawn again from its release's `public` facts, as a writable copy.

    >>> public = {"dim": 2, "slices": 3, "frame": "independent", "seed": 1, "step": 0}
    >>> directions_of(public).shape
    (2, 3)
    """
    try:
        # PyTorch warns of arrays that may not be written to
        return np.array(drawn(public["dim"], public["slices"], public["frame"], public["seed"], public["step"]))
    except (KeyError, TypeError, UsageError) as error:
        raise DataError(f"These are not the public facts of a projection ({type(error).__name__}).") from None
