"""The command line: `privot …`. It parses, prints and sets exit codes; the work is done on the floors below."""

from __future__ import annotations

import io
import os
import sys
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

from privot.common import interruption

MAX_WORD = 300
"""The longest word of an error message, in characters: longer than most paths, …"""
COMPLETING = "_PRIVOT_COMPLETE"
"""The variable in which a shell says that it wants a line completed."""
MAX_LINE = 900
"""… and the longest message."""


def main() -> None:
    """Run the command line; every refusal is one sentence on standard error and the exit code of its kind."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments or bool(os.environ.get("PRIVOT_DEBUG"))
    arguments = [a for a in arguments if a != "--debug"]
    if not debug and not sys.warnoptions:
        # a refusal is one sentence: warnings of libraries are shown with --debug only
        warnings.simplefilter("ignore")
    interruption.interrupt_on_termination()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a name of a file need not be text; what cannot be printed may not end what is paid for
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run(arguments, debug)
    except KeyboardInterrupt:
        # while modules are still imported, or while an answer is written
        code = _interrupted(arguments)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _forget_output()
    # CPython remembers an interrupt that left an exec() of text, as dataclasses do while they are imported, even where
    # it was handled, and would end `python -m privot` by the signal: the next exec() of text makes it forget
    exec("")  # noqa: S102
    sys.exit(code)


def run(arguments: list[str], debug: bool = False) -> int:
    """Run one command and return its exit code."""
    from privot.cli.printing.visible_streams import visible_streams

    with visible_streams():
        return _run(arguments, debug)


def _run(arguments: list[str], debug: bool) -> int:
    import typer

    from privot.cli.app import COMMANDS
    from privot.cli.parsing.help_pages import WrongUsage
    from privot.cli.parsing.option_bounds import check_words
    from privot.cli.parsing.recalled_options import recalled
    from privot.cli.plugged import plugged
    from privot.cli.printing.command_warnings import warned
    from privot.cli.printing.interrupts import WAITING
    from privot.cli.printing.unforeseen import unforeseen
    from privot.common.extras import needing
    from privot.errors import PrivotError

    interruption.written.clear()
    warned.clear()
    interruption.tell_when_waiting(lambda: _say(WAITING) if sys.stderr.isatty() else None)
    try:
        if COMPLETING in os.environ:
            # otherwise Typer does so where it adds options that install completion
            import_module("typer.completion").completion_init()
        check_words(arguments)
        # a word that is a command's name may be a file's: one module more is imported then; a shell that completes a
        # line gives no arguments, and may ask for the options of any command
        own = bool(arguments) and arguments[0] in COMMANDS
        names = [*COMMANDS, *([] if own else plugged(COMMANDS))]
        words = names if COMPLETING in os.environ else set(arguments)
        command = _command(tuple(name for name in names if name in words), not own)
        arguments, note = recalled(arguments, command.commands)
        if note and "--json" not in arguments:
            print(note, file=sys.stderr)
        with needing("This command needs"):
            if COMPLETING in os.environ:
                command.main(args=arguments, prog_name="privot", standalone_mode=False)
            # not Typer's `main`: it makes an exit code of an interrupt and of a closed pipe, and says nothing
            with command.make_context("privot", list(arguments)) as context:
                answer = command.invoke(context)
        return int(answer) if isinstance(answer, int) else 0
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, EOFError, KeyboardInterrupt):
        return _interrupted(arguments)
    except WrongUsage as error:
        if debug:
            raise
        _say(error.format_message())
        return 2
    except PrivotError as error:
        if debug:
            raise
        _say(str(error))
        return error.exit_code
    except BrokenPipeError:
        # the reader went away (`privot … | head`): nothing is wrong
        _forget_output()
        return 0
    except OSError as error:
        if debug:
            raise
        _say(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}{_paid(arguments)}.")
        return 3
    except Exception as error:
        if debug:
            raise
        _say(unforeseen(error).removesuffix(".") + _paid(arguments) + ".")
        return 1


@lru_cache(maxsize=32)
def _command(used: tuple[str, ...], more: bool) -> Any:
    """The command line with the commands `used` whole; kept, because a program that runs many builds each once."""
    from typer.main import get_command

    from privot.cli.app import build_app
    from privot.cli.parsing.help_pages import with_help
    from privot.cli.parsing.option_bounds import with_bounds
    from privot.cli.parsing.settings import with_settings

    return with_settings(with_bounds(with_help(get_command(build_app(used, more=more)))))


def _interrupted(arguments: list[str]) -> int:
    """Say what was paid, and return the exit code of an interrupt."""
    try:
        from privot.cli.printing.interrupts import sentence

        _say(sentence(arguments))
    except KeyboardInterrupt:
        _say("Interrupted: privot ledger show lists what was paid.")
    return 130


def _paid(arguments: list[str]) -> str:
    """What this run charged and how to go on, as the end of a sentence that knows nothing of it; empty for nothing."""
    from privot.cli.printing.interrupts import charged

    return charged(arguments)


def _forget_output() -> None:
    """Nothing more is written to standard output, which cannot be: not at exit either, where Python flushes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(sentence: str) -> None:
    """One line on standard error; what it quotes of an endless argument is cut short."""
    words = [word if len(word) <= MAX_WORD else word[:57] + "..." for word in sentence.split()]
    line = "privot: " + " ".join(words)
    # a command that goes on stands at the end
    print(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 303]}...{line[-300:]}", file=sys.stderr)
