"""Audits a message of FedWad or TriangleWad: whether the sender's records follow from it. It reads messages only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.attacks.reconstruction import invert_constant, invert_shared
from privot.audit.findings import Check
from privot.audit.statistics.one_to_one import assignment
from privot.common.arguments import is_within
from privot.errors import DataError
from privot.opening.archives import read_arrays

Array = NDArray[np.float64]

_WANTED = ("points", "towards", "t")
MAX_VALUE = 1e100
"""The largest coordinate of a message that is audited."""


def read_transcript(path: Path) -> tuple[Array, Array, float]:
    """(interpolant, the points it was moved towards, t) from a `.npz` with `points`, `towards` and `t`."""
    held: dict[str, Any] | None
    try:
        found = read_arrays(path, _WANTED)
        held = {name: np.asarray(found[name], dtype=np.float64) for name in _WANTED}
    except DataError:
        raise
    except Exception:  # a damaged file can raise nearly anything
        held = None
    if held is None:
        raise DataError(f"{path.name!r} is neither a release nor a transcript with points, towards and t.")
    points, towards, t = held["points"], held["towards"], held["t"]
    fine = points.ndim == towards.ndim == 2 and points.shape[1:] == towards.shape[1:] and points.size and towards.size
    if not fine or t.size != 1 or not 0.0 <= float(t.ravel()[0]) < 1.0:
        raise DataError(f"{path.name!r} must hold points and towards in one space, and a t from 0 to below 1.")
    return points, towards, float(t.ravel()[0])


def audit_transcript(points: Array, towards: Array, t: float) -> Check:
    """Whether the sender's records can be computed from its message.

    The computed records are the right ones if they reproduce the message when moved towards the same points by the
    optimal plan; the true records are not needed for that.
    """
    found = records_behind(points, towards, t)
    if found is None:
        return Check("records behind the message", True, "this attack inverts other sizes only; that proves nothing")
    records, off, kind = found
    detail = (
        f"{len(records)} records inverted ({kind} defence data); moved again they differ from the message by {off:.1e}"
    )
    return Check("records behind the message", off > 1e-6, detail)


def records_behind(points: Array, towards: Array, t: float) -> tuple[Array, float, str] | None:
    """(records, relative error of the message that they reproduce, kind of defence data), or None."""
    # squared distances must not overflow; a NaN is refused too
    if not all(is_within(array, MAX_VALUE) for array in (points, towards)):
        raise DataError(f"The points of a message must be finite, and at most {MAX_VALUE:g} in size.")
    constant = bool((towards == towards[0]).all())
    if not constant and len(towards) != len(points):
        return None
    if constant:
        found = invert_constant(points, towards[0], t)
        again = (1.0 - t) * found + t * towards[0]
    else:
        found = invert_shared(points, towards, t)
        again = (1.0 - t) * found + t * towards[assignment(found, towards)]
    off = float(np.abs(again - points).max() / max(float(np.abs(points).max()), 1e-300))
    return found, off, "constant" if constant else "shared random"
