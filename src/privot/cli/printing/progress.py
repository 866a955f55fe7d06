"""Progress of training, audits and simulations, on standard error if that is a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from privot.partitions.source import PassProgress


@contextmanager
def training_bar(epsilon: float, quiet: bool = False) -> Iterator[Callable[[int, int, float], None]]:
    """A function to call with (step, steps, loss)."""
    console = Console(stderr=True, quiet=quiet)
    columns = (
        TextColumn(f"training  ε spent {epsilon:.4g}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("training", total=None, loss="")

        def tell(step: int, steps: int, loss: float) -> None:
            # a table's model is fitted column by column and has none
            bar.update(task, completed=step, total=steps, loss="" if math.isnan(loss) else f"loss {loss:.4f}")

        yield tell


@contextmanager
def partition_bar(quiet: bool = False) -> Iterator[Callable[[PassProgress], None]]:
    """A function to call after every partition."""
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


@contextmanager
def audit_bar(quiet: bool = False, still: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with (current attack, attacks done, attacks in all; 0 if that is not known).

    With `still` no thread redraws it: an audit that measures times must not be disturbed.
    """
    console = Console(stderr=True, quiet=quiet)
    columns = (SpinnerColumn(), TextColumn("audit  {task.description}"), TextColumn("{task.fields[of]}"))
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
        transient=True,
        auto_refresh=not still,
    ) as bar:
        task = bar.add_task("", total=None, of="")

        def tell(what: str, done: int, many: int) -> None:
            bar.update(task, description=what, of=f"{done + 1} of {many}" if many > 1 else "")
            bar.refresh()

        yield tell


@contextmanager
def counting_bar(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (how many are done, of how many)."""
    console = Console(stderr=True, quiet=quiet)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def tell(done: int, many: int) -> None:
            bar.update(task, completed=done, total=many)

        yield tell
