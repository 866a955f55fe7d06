"""Small pieces the ledger's tests share."""

from __future__ import annotations

import shutil
from pathlib import Path

from privot.accounting import Gaussian
from privot.accounting.events import Event
from privot.guarantee import Adjacency

ADD = Adjacency.ADD_REMOVE
DELTA = 1e-5


def gaussian(sigma: float) -> Event:
    return Gaussian(sigma, 1.0, ADD)


def copy(source: Path, folder: Path) -> Path:
    """The ledger and all its files, elsewhere."""
    folder.mkdir()
    for file in source.parent.glob(source.name + "*"):
        shutil.copy2(file, folder / file.name)
    return folder / source.name
