"""Kills a party at every durable step of making a sketch, and at random moments; prints what was left, as JSON.

    python kill_desk.py FOLDER REQUEST RANDOM EVERY

Of the durable steps each `EVERY`-th moment is tried, before or after it. Each trial works on a copy of FOLDER: a child
answers REQUEST and is killed, a second child answers it again, a third once more. Children are forked: this process has
run no tensor operation and has one thread.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from privot.federation.coordination.answers import Answer
from privot.federation.parties.desk import Desk
from privot.ledger import Ledger

STEPS = ("fsync", "replace", "unlink")


def die_at(count: int) -> None:
    """Arrange for this process to be killed at the `count`-th step, before it for even counts and after it for odd."""
    seen = 0

    def wrapped(original: Callable) -> Callable:
        def step(*arguments, **options):
            nonlocal seen
            for before in (True, False):
                if seen == count:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen += 1
                if before:
                    out = original(*arguments, **options)
            return out

        return step

    for name in STEPS:
        setattr(os, name, wrapped(getattr(os, name)))
    Ledger.charge = wrapped(Ledger.charge)  # type: ignore[method-assign]


def answer(
    folder: Path, request: bytes, prepare: Callable[[], None] = lambda: None, kill_after: float | None = None
) -> tuple[int, str]:
    """(how the child ended, SHA-256 of the sketch's bytes): "!" for a refusal, "" when it died before it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        desk = Desk(folder)
        prepare()
        os.write(writing, b".")
        found = Answer.opened(desk.handle(request), desk.name)
        os.write(writing, hashlib.sha256(found.sketch).hexdigest().encode() if found.sketch else b"!")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        # killed from here and not by a child of its own: that one would hold the folder's lock for a moment longer
        if pipe.read(1) == b"." and kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        text = pipe.read().decode()
    return os.waitpid(child, 0)[1], text


def trial(
    base: Path, request: bytes, prepare: Callable[[], None] = lambda: None, kill_after: float | None = None
) -> dict:
    folder = base.with_name("trial")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    killed, first = answer(folder, request, prepare, kill_after)
    _, second = answer(folder, request)
    _, third = answer(folder, request)
    with Ledger.open(folder / "records.ledger") as ledger:
        charges = len(ledger.entries())
    return {
        "killed": killed == signal.SIGKILL,
        "right": second == third and len(second) == 64 and first in ("", second),
        "charges": charges,
        "secrets": len(list((folder / "sketches").glob("*.secret"))),
    }


def main() -> None:
    base, request, rounds, every = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes(), *map(int, sys.argv[3:])
    found = []
    for count in range(0, 1000, every):
        found.append(trial(base, request, lambda count=count: die_at(count)))
        if not found[-1]["killed"]:
            break

    moment = random.SystemRandom()
    at_random: list[dict] = []
    # and more until one is killed
    while len(at_random) < rounds or (len(at_random) < 10 and not any(t["killed"] for t in at_random)):
        at_random.append(trial(base, request, kill_after=moment.uniform(0.0, 0.06)))
    print(json.dumps({"steps": found, "random": at_random}))


if __name__ == "__main__":
    main()
