"""Cases of places that cannot be written: folders of the system, names that are too long or no text, full disks."""

# ruff: noqa: E501 — values are easier to read in long lines

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from fuzz import kit, paying
from fuzz.case import Case, random_of
from fuzz.lives import charges, life
from fuzz.paying import OUT

OTHERS: list[tuple[str, list[str], list[str]]] = [
    (".npz", ["sample", "out/rows", "-n", "5", "--out", OUT], ["out/rows"]),
    (".csv", ["sample", "out/table", "-n", "5", "--out", OUT], ["out/table"]),
    (".json", ["schema", "propose", "--header", "in/table.csv", "--dictionary", "in/dictionary.json", "--out", OUT], ["in/table.csv", "in/dictionary.json"]),
    (".html", ["ledger", "show", "in/rows.ledger", "--out", OUT], ["in/rows.ledger"]),
    (".ledger", ["ledger", "init", OUT, "--data", "in/a.npz", *kit.TERMS], ["in/a.npz"]),
    ("", ["federate", "enrol", OUT, "--name", "north"], []),
    ("", ["report", "out/rows"], ["out/rows"]),
    ("", ["compare", "in/a.npz", "in/b.npz", "--slices", "9", "--json"], ["in/a.npz", "in/b.npz"]),
]  # fmt: skip
"""Commands that write and do not pay."""
CALLS = [*paying.RELEASES, *paying.JOBS, *OTHERS]
PLACES = [
    "/proc/m", "/proc/self/m", "/sys/m", "/dev/full", "/dev/full/m", "/dev/null/m", "out/" + "n" * 300, "out/" + "n" * 245, "out/" + "ü" * 127, "out/" + "😀" * 62,
    "out/" + "deep/" * 900 + "m", os.fsdecode(b"out/m\xff"), os.fsdecode(b"out/\xff\xfe/m"), "out/.", "out", "/", "in/fifo", "in/loop", "in/nowhere/m", "out/a\nb", "out/\x1b[31m",
    "in/text/m", "in/empty", "out/ ", "out/\u202em",
]  # fmt: skip
SIZES = [4096, 8192, 20_000, 60_000, 200_000]
"""Bytes at which a file is full."""
STREAMS = ["", "", "", "/dev/full", "closed"]
"""Where the answer is printed."""


def case(seed: int, number: int) -> Case:
    """One command with one place or one full disk; the commands take turns."""
    random = random_of(seed, "places", number)
    ending, words, needs = CALLS[number % len(CALLS)]
    place, size, stream = "out/m" + ending, 0, random.choice(STREAMS)
    if OUT in words and random.random() < 0.6:
        place = random.choice(PLACES)
        # with an ending these would be names that can be written
        place += ending if place not in ("/", "/dev/full") and random.random() < 0.7 else ""
    elif random.random() < 0.7:
        size = random.choice(SIZES)

    def prepare(source: Path, folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        kit.take(source, folder, needs)
        kit.traps(folder)

    arguments = ["@placed", place, str(size), stream, *words]
    return Case("places", number, arguments, prepare, frozenset({0}), f"{place[:60]!r} {size} {stream}")


def placed(place: str, size: str, stream: str, *words: str) -> None:
    """The command where it cannot write, and again where it can: refused unpaid, or paid for once and there."""
    command = list(words)
    before = sum(charges(Path("in")))
    code, printed, said = life(paying.at(command, place), before=_full(int(size), stream))
    if code not in (0, 2, 3) or (code and (said.count("privot: ") != 1 or "Traceback" in said)):
        raise RuntimeError(f"Code {code}: {said[-300:]}")
    if command[0] not in ("release", "compare", "sketch", "answer", "synth", "adapt") or "--slices" in command:
        return
    paid = sum(charges(Path("in"))) - before
    if code and paid and not any(word in said for word in ("paid", "charged")):
        raise RuntimeError(f"Charged {paid} times, and the sentence is silent: {said[-300:]}")
    # what was delivered is no longer kept
    if not code or printed.strip() or ("what was paid for is in" in said and Path(place).exists()):
        return
    if paid and OUT in command and Path(place).is_file():
        raise RuntimeError(f"It is in its file, and the sentence does not say so: {said[-300:]}")
    if code == 2 and paid:
        raise RuntimeError(f"Refused after it was charged: {said[-300:]}")
    # the same place where only the disk was full, another one where it is the place
    other = place if place.startswith("out/m") and place.isascii() else "out/other" + Path(place).suffix
    going = paying.again(paying.at(command, other), other, said)
    again, _, told = life(going)
    wrong = paying.unpaid(command, again, told, lost=False)
    if wrong:
        raise RuntimeError(f"After {said[-200:]!r}: {wrong}")


def _full(size: int, stream: str) -> Callable[[], None]:
    """What a life has against it: files of at most `size` bytes, and a standard output that takes nothing."""

    def before() -> None:
        if size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        if stream == "closed":
            reading, writing = os.pipe()
            os.close(reading)
            os.dup2(writing, 1)
        elif stream:
            os.dup2(os.open(stream, os.O_WRONLY), 1)
        if stream:
            # as a program that starts finds it
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115

    return before
