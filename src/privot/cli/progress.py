"""A progress bar with the time left and the ε spent, on standard error; silent where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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
        TextColumn("loss {task.fields[loss]:.4f}"),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("training", total=None, loss=float("nan"))

        def tell(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, loss=loss)

        yield tell
