"""Progress of everything that takes long, on standard error: a bar on a terminal, a few plain lines in a log.

What is told names steps of a method, never a number of private records: under add-remove that number is private, and
logs are kept.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from privot.partitions.source import PassProgress

FIRST, LONGEST = 3.0, 60.0
"""Seconds before the first line in a log; lines then come ever more rarely, but not more than so far apart."""
Tell = Callable[[str, int, int], None]
"""(what is done just now, how many steps are done, of how many: 0 if that is not known)."""


def silent(words: str, done: int, many: int) -> None:
    """Tells nobody."""


class Steps:
    """Counts steps that are named when they begin, and tells of each."""

    def __init__(self, tell: Tell, many: int) -> None:
        self._tell, self._many, self._begun = tell, many, 0

    def begin(self, words: str) -> None:
        """The next step begins, so those before it are done."""
        self._tell(words, self._begun, self._many)
        self._begun += 1


class _Left(TimeRemainingColumn):
    """The time left, where the number of steps is known."""

    def render(self, task: Task) -> Text:
        return Text("") if task.total is None else Text("left ") + super().render(task)


@contextmanager
def working(what: str, quiet: bool = False, still: bool = False) -> Iterator[Tell]:
    """A function to call with every step; within, a terminal shows a bar with the time left, and a log gets lines.

    Parameters
    ----------
    what
        What takes so long, in a word or two.
    quiet
        Show nothing, as with --json.
    still
        No thread redraws it: an audit that measures times must not be disturbed.
    """
    console = Console(stderr=True, quiet=quiet)
    if quiet or console.is_terminal:
        yield from _bar(what, console, quiet, still)
    else:
        yield from _lines(what, still)


def _bar(what: str, console: Console, quiet: bool, still: bool) -> Iterator[Tell]:
    columns = (
        SpinnerColumn(),
        TextColumn(f"{what}  {{task.fields[words]}}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        _Left(),
    )
    with Progress(*columns, console=console, disable=quiet, transient=True, auto_refresh=not still) as bar:
        task = bar.add_task(what, total=None, words="", count="")

        def tell(words: str, done: int, many: int) -> None:
            count = f"{done} of {many}" if many else ""
            bar.update(task, completed=done, total=many or None, words=words, count=count)
            if still:
                bar.refresh()

        yield tell


def _lines(what: str, still: bool) -> Iterator[Tell]:
    began, latest, due = time.monotonic(), ("", 0, 0), FIRST
    turn, ended = threading.Lock(), threading.Event()

    def say_when_due() -> None:
        nonlocal due
        with turn:
            passed = time.monotonic() - began
            if passed >= due:
                due = passed + min(max(passed, FIRST), LONGEST)
                print(line(what, *latest, passed), file=sys.stderr, flush=True)

    def watch() -> None:
        while not ended.wait(max(0.05, due - (time.monotonic() - began))):
            say_when_due()

    def tell(words: str, done: int, many: int) -> None:
        nonlocal latest
        latest = (words, done, many)
        say_when_due()

    watcher = threading.Thread(target=watch, daemon=True)
    if not still:
        watcher.start()
    try:
        yield tell
    finally:
        ended.set()
        if not still:
            watcher.join()


def line(what: str, words: str, done: int, many: int, passed: float) -> str:
    """One line of a log.

    >>> line("training", "loss 0.5", 250, 1000, 10.0)
    'training: loss 0.5, 250 of 1000, 10 s so far, about 30 s left'
    >>> line("reading", "", 0, 0, 4.2)
    'reading: 4 s so far'
    """
    parts = [words] if words else []
    parts += [f"{done} of {many}"] if many else []
    parts.append(f"{span(passed)} so far")
    if many and 0 < done <= many:
        parts.append(f"about {span(passed * (many - done) / done)} left")
    return f"{what}: {', '.join(parts)}"


def span(seconds: float) -> str:
    """A time in the unit that people would use.

    >>> span(59.7), span(200.0), span(9000.0)
    ('60 s', '3 min', '2.5 h')
    """
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


@contextmanager
def training_bar(epsilon: float, quiet: bool = False) -> Iterator[Callable[[int, int, float], None]]:
    """A function to call with (step, steps, loss)."""
    with working(f"training, ε spent {epsilon:.4g}", quiet) as tell:

        def told(step: int, steps: int, loss: float) -> None:
            # a table's model is fitted column by column and has none
            tell("" if math.isnan(loss) else f"loss {loss:.4f}", step, steps)

        yield told


@contextmanager
def counting_bar(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (how many are done, of how many)."""
    with working(what, quiet) as tell:
        yield lambda done, many: tell("", done, many)


@contextmanager
def partition_bar(quiet: bool = False) -> Iterator[Callable[[PassProgress], None]]:
    """A function to call after every partition; on terminals alone: its rate tells how many records there are."""
    console = Console(stderr=True, quiet=quiet)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("partitions, {task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left {task.fields[left]}"),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=None, rate="", left="")

        def tell(now: PassProgress) -> None:
            left = "" if math.isnan(now.left) else f"{int(now.left) // 60}:{int(now.left) % 60:02d}"
            rate = f"{now.rate:,.0f} records/s"
            if now.done == 1:
                bar.reset(task)
            bar.update(
                task, description=now.what, completed=now.done, total=now.partitions, rate=rate, left=left, refresh=True
            )

        yield tell
