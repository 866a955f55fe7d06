"""Open data sets as rows in [0, 1]: digits, which come with scikit-learn, and the files of the folder of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privot import load
from privot.errors import DataError
from privot.opening.archives import read_arrays
from privot_lab.studies.study_run import StudyRun

Part = Literal["train", "test"]
DIGITS = 1400
"""So many of the 1,797 digits are for training."""


def images(
    run: StudyRun, name: str, part: Part = "train"
) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[int, ...]]:
    """Rows in [0, 1] of shape (n, pixels), labels, and the shape of one image."""
    if name == "digits":
        data = load("digits")
        side: Any = slice(None, DIGITS) if part == "train" else slice(DIGITS, None)
        return np.asarray(data.x)[side], np.asarray(data.y)[side], (8, 8)
    path = run.data(name)
    x, y = _read(path, part)
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or len(x) != len(y):
        raise DataError(f"{path.name!r} does not hold images: x_{part} must be bytes of shape (n, height, width).")
    return x.reshape(len(x), -1) / 255.0, y.astype(np.int64), tuple(x.shape[1:])


def _read(path: Path, part: Part) -> tuple[NDArray[Any], NDArray[Any]]:
    names = (f"x_{part}", f"y_{part}")
    try:
        held = read_arrays(path, names)
        return held[names[0]], held[names[1]]
    except DataError:
        raise
    except (OSError, KeyError, ValueError):
        raise DataError(f"{path.name!r} cannot be read: expected an .npz with {names[0]} and {names[1]}.") from None
