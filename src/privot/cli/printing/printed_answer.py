"""How answers are printed: as one JSON object, or as a few aligned lines; and how one is kept in a file."""

from __future__ import annotations

import errno
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from privot.accounting.comparison import AccountantComparison


def print_json(answer: Mapping[str, Any]) -> None:
    """`answer` as the one JSON object on standard output; numbers that JSON cannot express become null."""
    typer.echo(json.dumps(_expressible(answer), indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def in_one_piece() -> Iterator[None]:
    """What is printed within is written at the end, all of it; `OSError` says why it cannot be.

    For an answer that was paid for: it is delivered once all of it is written, and not before.
    """
    with io.StringIO() as held:
        with redirect_stdout(held):
            yield
        text = held.getvalue()
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.write(text)
    sys.stdout.flush()


def keep_json(answer: Mapping[str, Any], path: Path) -> None:
    """Write an answer to a file, whose folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")


def _expressible(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _expressible(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_expressible(v) for v in value]
    return value


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, aligned."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        typer.echo(f"{name:<{width}}  {value}")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as their widest cell, with the header underlined."""
    table = [list(header), *[list(r) for r in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for number, row in enumerate(table):
        typer.echo("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            typer.echo("  ".join("─" * w for w in widths))


def bar(share: float, width: int = 40) -> str:
    """A share from 0 to 1 as a bar; more than nothing and less than everything can be seen to be so.

    >>> bar(0.5, 10), bar(0.001, 10), bar(0.999, 10), bar(2.0, 4)
    ('█████░░░░░', '█░░░░░░░░░', '█████████░', '████')
    """
    full = round(width * min(max(share, 0.0), 1.0)) if share == share else width  # a share that is not a number: all
    if 0.0 < share < 1.0:
        full = min(max(full, 1), width - 1)
    return "█" * full + "░" * (width - full)


def number(value: float | None, digits: int = 5) -> str:
    """A number as text: ∞ where there is none."""
    return "∞" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def print_epsilons(compared: AccountantComparison) -> None:
    """ε against σ, one row per accountant."""
    header = ["accountant", "standing", *(f"σ={s:.3g}" for s in compared.sigmas)]
    print_table(header, [[c.name, str(c.standing), *(number(e, 4) for e in c.epsilons)] for c in compared.curves])
