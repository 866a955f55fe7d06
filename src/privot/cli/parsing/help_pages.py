"""How help is printed: a description of every argument, and examples that can be copied; it knows no command.

Typer is built on Click, which newer versions carry inside themselves. So nothing is imported from Click: classes are
taken from what Typer exports.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any

import typer

_HelpFormatter: Any = typer.Context.formatter_class

WrongUsage: Any = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))
"""Base class of all errors that Typer raises for a wrong command line; `format_message` describes the error."""


class _Formatter(_HelpFormatter):  # type: ignore[misc]  # which class it is depends on Typer's version
    """Prints paragraphs as Typer does, but every example on one line of its own, so that it can be copied."""

    def write_text(self, text: str) -> None:
        for number, part in enumerate(text.split("\n\n")):
            if number:
                self.write_paragraph()
            words = " ".join(part.split())
            if not words.startswith(("Example: ", "Examples: ")):
                super().write_text(part)
                continue
            title, _, commands = words.partition(": ")
            margin = " " * self.current_indent
            self.write(f"{margin}{title}:\n" + "".join(f"{margin}  {c}\n" for c in commands.split("; ")))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        # Typer writes its brackets for a console that is not used here
        super().write_dl([(name, words.replace("\\[", "[")) for name, words in rows], col_max, col_spacing)


class _Context(typer.Context):
    formatter_class = _Formatter


def with_help(command: Any) -> Any:
    """`command` and all its subcommands, with help for their arguments and examples on one line each."""
    command.context_class = _Context
    # Typer lists arguments itself; newer Clicks would list them once more
    command.format_arguments = lambda context, formatter: None
    stated = _stated(command.callback)
    for parameter in command.params:
        # a Typer older than Click's own help of arguments sets it and then has Click forget it
        if parameter.param_type_name == "argument" and not getattr(parameter, "help", None):
            parameter.help = stated.get(parameter.name or "")
    if getattr(command, "no_args_is_help", False):
        # newer Clicks raise that help as an error, which would be printed on one line
        command.no_args_is_help, parse = False, command.parse_args
        command.parse_args = lambda context, words: parse(context, words or ["--help"])
    for below in getattr(command, "commands", {}).values():
        with_help(below)
    return command


def _stated(callback: Any) -> dict[str, str]:
    """The help text of each argument of the function behind a command."""
    function = getattr(callback, "__wrapped__", callback)
    if function is None:
        return {}
    hints = typing.get_type_hints(function, include_extras=True)
    return {
        name: stated.help
        for name, hint in hints.items()
        for stated in getattr(hint, "__metadata__", ())
        if getattr(stated, "help", None)
    }
