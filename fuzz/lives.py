"""Lives of a command: each a fork of this process, the first of them struck by a signal at a chosen moment."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

Struck = tuple[str, int, int]
"""The function of privot that sends the signal when it is called, the signal, and at which call."""


def strike(place: str, number: int, at: int) -> None:
    """Let the function at `place` send the signal to its own process when it is called for the `at`-th time."""
    owner, name = _found(place.split("."))
    real, calls = getattr(owner, name), []

    def struck(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == at:
            os.kill(os.getpid(), number)
            # the interpreter looks at signals between two steps
            [None for _ in range(1000)]
        return real(*given, **named)

    setattr(owner, name, struck)


def _found(parts: list[str]) -> tuple[Any, str]:
    with suppress(ModuleNotFoundError):
        return import_module(".".join(parts[:-1])), parts[-1]
    return getattr(import_module(".".join(parts[:-2])), parts[-2]), parts[-1]


def life(
    words: str | Sequence[str], struck: Struck | None = None, before: Callable[[], object] = bool
) -> tuple[int, str, str]:
    """(exit code or minus the signal, standard output, standard error) of one run of a command, in a fork.

    `before` is called in the fork, when its output goes to files.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _lived(shlex.split(words) if isinstance(words, str) else list(words), struck, before)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, *(Path(name).read_bytes().decode("utf-8", "replace") for name in ("printed", "said"))


def _lived(words: list[str], struck: Struck | None, before: Callable[[], object]) -> int:
    from privot import cli

    for number, name in ((1, "printed"), (2, "said")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    # tests that run in the background ignore interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    before()
    if struck is not None:
        strike(*struck)
    sys.argv = ["privot", *words]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def charges(folder: Path = Path()) -> list[int]:
    """How many charges each ledger in a folder, or below it, holds; each is verified."""
    from privot.ledger import Ledger

    found = []
    for path in sorted(folder.rglob("*.ledger")):
        with Ledger.open(path) as book:
            book.verify()
            found.append(len(book.entries()))
    return found
