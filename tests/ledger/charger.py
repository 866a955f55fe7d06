"""One user of a ledger who keeps being killed: charges until `count` charges are acknowledged.

Run as `python charger.py LEDGER FINGERPRINT NAME COUNT SEED`. Each life is a fork that charges and, once
`charge` has returned, notes the entry in `LEDGER.NAME`; its parent kills it (SIGKILL) after a random time.
Prints the number of lives.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from ledger_samples import gaussian

from privot.ledger import Ledger

LONGEST_LIFE = 0.5


def acknowledged(notes: Path) -> int:
    return notes.read_bytes().count(b"\n") if notes.exists() else 0


def live(path: str, fingerprint: str, name: str, count: int, notes: Path) -> None:
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Ledger.open(path) as ledger:
        for i in range(acknowledged(notes), count):
            entry = ledger.charge(fingerprint, gaussian(500.0), f"{name} {i}")
            # one write, so that a kill leaves all of the line or none
            os.write(descriptor, f"{entry.id} {entry.purpose}\n".encode())


def main(path: str, fingerprint: str, name: str, count: int, seed: int) -> None:
    notes, dice, lives = Path(f"{path}.{name}"), random.Random(seed), 0
    while acknowledged(notes) < count:
        lives += 1
        child = os.fork()
        if child == 0:
            try:
                live(path, fingerprint, name, count, notes)
                os._exit(0)
            finally:
                os._exit(1)
        end = time.monotonic() + dice.uniform(0.0, LONGEST_LIFE)
        while time.monotonic() < end:
            if os.waitpid(child, os.WNOHANG)[0]:
                break
            time.sleep(0.002)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    print(lives)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
