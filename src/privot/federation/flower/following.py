"""Flower's SuperLink as a process that ends with its parent: `python -P following.py PARENT ARGUMENT…`.

It runs as a script and imports nothing of privot, so that it watches the parent from the start: imports may take longer
than a coordinator lives.
"""

from __future__ import annotations

import os
import sys
import threading
import time

LOOK = 0.2


def follow(parent: int) -> None:
    """End this process as soon as `parent` has ended, which is when it is no longer its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Flower's own command, with a parent to follow."""
    parent, sys.argv = int(sys.argv[1]), ["flower-superlink", *sys.argv[2:]]
    follow(parent)
    # only the owner may read what Flower writes
    os.umask(0o077)
    from flwr.superlink.cli import flower_superlink

    flower_superlink()


if __name__ == "__main__":
    main()
