"""Flower's SuperLink as a process that ends with its parent: `python -P following.py PARENT ARGUMENT…`.

It is run as a script and imports nothing of privot, so that the parent is watched from the first moment: importing may
take longer than a coordinator lives.
"""

from __future__ import annotations

import os
import sys
import threading
import time

LOOK = 0.2


def follow(parent: int) -> None:
    """End this process as soon as `parent` is not its parent any more, which is when that has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Flower's own command, with a parent to follow."""
    parent, sys.argv = int(sys.argv[1]), ["flower-superlink", *sys.argv[2:]]
    follow(parent)
    # whatever Flower writes is for its owner's eyes
    os.umask(0o077)
    from flwr.superlink.cli import flower_superlink

    flower_superlink()


if __name__ == "__main__":
    main()
