"""Searches files on disk (ledgers, checkpoints) for values of records.

The records are the audit's own and hold a number that occurs nowhere else; files are searched for it as text and as the
bytes of both kinds of floats.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from privot.audit.findings import Check
from privot.audit.implementation.error_messages import MARKER
from privot.guarantee import Adjacency
from privot.ledger import Ledger
from privot.mechanisms import RandomProjection
from privot.vault import Vault

CHECKPOINT_PARTS = ("generator.", "average.", "optimizer.", "random", "losses")
"""Allowed arrays of a checkpoint: weights and moments made from the release, public random state, losses."""
CHECKPOINT_FACTS = ("step", "rules", "release", "job", "blocks", "guarantee")
"""Allowed facts of a checkpoint: how it was trained, and on which releases."""


def holds(path: Path, numbers: Iterable[float]) -> bool:
    """Whether a file holds one of the numbers: as text, or as the bytes of a float64 or float32 of either order."""
    data = path.read_bytes()
    for number in numbers:
        forms = [struct.pack(form, number) for form in ("<d", ">d", "<f", ">f")]
        forms += [repr(number).encode(), f"{number:g}".encode() if number >= 1e6 else repr(number).encode()]
        if any(form in data for form in forms):
            return True
    return False


def ledger_reveals_no_record() -> list[Check]:
    """Two checks of a ledger that was charged for records with the marker number.

    No file in its folder holds the number. Its name for the data set depends on its key: the same records have another
    name in another ledger, so an attacker with the file alone cannot test a guess.
    """
    x = np.full((4, 3), MARKER)
    x[1:] = np.arange(9.0).reshape(3, 3)
    names, shown = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            path = Path(folder) / f"{name}.ledger"
            with Ledger.create(path) as ledger:
                vault = Vault(x, clip=1.0, adjacency=Adjacency.REPLACE_ONE, ledger=ledger, budget=(10.0, 1e-5))
                vault.release(RandomProjection(2, 1.0), purpose="audit")
                names.append(ledger.datasets()[0].fingerprint)
        files = sorted(p for p in Path(folder).iterdir() if p.is_file())
        shown = [p.name for p in files if holds(p, (MARKER,))]
    return [
        Check("a ledger's files hold no record", not shown, f"{len(files)} files searched"),
        Check("a ledger's name for a data set needs its key", names[0] != names[1], "two ledgers, the same records"),
    ]


def checkpoint_reveals_no_record(path: Path) -> Check:
    """Whether a checkpoint holds only what is made from its release, by the names of its arrays and facts."""
    from privot.jobs.tensor_files import read_tensors

    tensors, facts = read_tensors(path)
    others = [name for name in tensors if not name.startswith(CHECKPOINT_PARTS)]
    others += [name for name in facts if name not in CHECKPOINT_FACTS]
    detail = f"{len(tensors)} arrays, {len(facts)} facts" + (f", unknown: {others[0]}" if others else "")
    return Check("a checkpoint holds only what is made from its release", not others, detail)
