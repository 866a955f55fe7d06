"""Where a ledger's files stand: the ledger, its key and its anchor; this module reads none of them."""

from __future__ import annotations

import os
from pathlib import Path

from privot.errors import UsageError


def ledger_path(path: str | os.PathLike[str]) -> Path:
    """`path` as one absolute name: through a link the key and the anchor must be found too."""
    name = os.fsdecode(path)
    if not name or "\0" in name:
        raise UsageError("The ledger needs a file name.")
    return Path(os.path.realpath(name))


def beside(ledger: Path, ending: str) -> Path:
    """The file that stands next to `ledger` under its name and `ending`."""
    return ledger.with_name(ledger.name + ending)
