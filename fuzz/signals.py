"""Cases of signals around the charge: a command is struck there, and what it paid for is there when it runs again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz import kit, paying
from fuzz.case import Case, random_of
from fuzz.lives import charges, life

CALLS = [*paying.RELEASES, *paying.RELEASES, *paying.JOBS]
NUMBERS = ("SIGINT", "SIGTERM", "SIGKILL")


def case(seed: int, number: int) -> Case:
    """One command and one signal, so many of privot's calls after a row of the ledger is begun; commands take turns."""
    random = random_of(seed, "signals", number)
    ending, words, needs = CALLS[number % len(CALLS)]
    # the first row is the budget
    row, calls = random.choice([1, 2, 2, 2, 3]), int(10 ** random.uniform(0.0, 3.5))
    name, twice = random.choice(NUMBERS), random.random() < 0.15

    def prepare(source: Path, folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        kit.take(source, folder, needs)

    arguments = ["@struck", name + " twice" * twice, str(row), str(calls), "out/m" + ending, *words]
    return Case("signals", number, arguments, prepare, frozenset({0}), f"{name}, row {row}, {calls} calls later")


def struck(name: str, row: str, calls: str, place: str, *words: str) -> None:
    """A first life that is struck, and a second that is not: paid for once, and there."""
    command, (named, *twice) = list(words), name.split()
    number = signal.Signals[named]
    code, printed, said = life(paying.at(command, place), before=_striking(number, int(row), int(calls), bool(twice)))
    if number is signal.SIGKILL:
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"Killed, and ended in {code}: {said[-300:]}")
    elif code not in (0, 130) or (code and said.count("privot: ") != 1):
        raise RuntimeError(f"Interrupted, and ended in {code}: {said[-300:]}")
    paid = sum(charges(Path("in")))
    if code == 130 and paid and "paid nothing" in said:
        raise RuntimeError(f"Charged {paid} times, and it says: {said[-300:]}")
    # what was delivered is no longer kept, and is asked for anew
    if code == 0 or printed.strip() or (not _is_job(command) and Path(place).exists()):
        return
    again, _, told = life(paying.again(paying.at(command, place), place, said))
    wrong = paying.unpaid(command, again, told, lost=number is signal.SIGKILL or bool(twice))
    if wrong:
        raise RuntimeError(f"After {said[-200:]!r}: {wrong}")


def _is_job(command: list[str]) -> bool:
    return command[0] in ("synth", "adapt")


def _striking(number: int, row: int, calls: int, twice: bool) -> Callable[[], None]:
    """Sends the signal that many calls of privot's functions after the ledger begins to write that row."""

    def before() -> None:
        from privot.ledger import Ledger

        real: Any = Ledger._append
        rows: list[None] = []
        left = [calls]

        def watch(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and "/privot/" in frame.f_code.co_filename:
                left[0] -= 1
                if left[0] <= 0:
                    sys.setprofile(None)
                    for _ in range(1 + twice):
                        os.kill(os.getpid(), number)

        def append(*given: Any, **named: Any) -> Any:
            rows.append(None)
            if len(rows) == row:
                sys.setprofile(watch)
            return real(*given, **named)

        Ledger._append = append  # type: ignore[method-assign]

    return before
