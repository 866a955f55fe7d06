"""The channel between machines: Flower's SuperLink and SuperNodes carry the same signed bytes as a call at hand would.

Flower can ship code from a coordinator to every node and run it there. Here nobody runs anybody else's code: both ends
use Flower's `process` isolation, the application bundle holds no code, a SuperNode hands messages to the party's own
desk, and the coordinator's steps run in its own process as the ServerApp. Flower's TLS and node keys say who may
connect; what counts beyond that are the signatures on requests and answers.
"""

from __future__ import annotations

import os
from pathlib import Path

from privot.common import extras
from privot.common.files import private_folder

__all__ = ["quiet", "require"]


def require() -> None:
    """Refuse, in one sentence, where Flower or what its protocols need is not installed."""
    extras.require("Machines far apart need", "federation", "flwr", "httpx", "ot", "torch")


def quiet(home: Path) -> None:
    """Before Flower is imported: nothing is reported to its makers; its files lie under `home`, for its owner alone."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    os.environ["FLWR_HOME"] = str(private_folder(home))
