"""The channel between machines: Flower's SuperLink and SuperNodes carry the same signed bytes as the local channel.

Flower can ship code from a coordinator to every node and run it there. privot does not: both ends use Flower's
`process` isolation, the application bundle holds no code, a SuperNode hands messages to the party's own desk, and the
coordinator's steps run in its own process as the ServerApp. Flower's TLS and node keys decide which machines may
connect; the signatures on requests and answers decide everything else.
"""

from __future__ import annotations

import os
from pathlib import Path

from privot.common import extras
from privot.common.files import private_folder


def require() -> None:
    """Raise an error that names what to install if Flower or a package that its protocols need is missing."""
    extras.require("A federation between machines needs", "federation", "flwr", "httpx", "ot", "torch")


def quiet(home: Path) -> None:
    """Call before Flower is imported: turns off its telemetry and update check; its files stay private in `home`."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    os.environ["FLWR_HOME"] = str(private_folder(home))
