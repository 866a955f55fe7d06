"""How help is shown: what every argument is for, and examples that can be copied; it knows no command."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any

import click


class _Formatter(click.HelpFormatter):
    """Prints paragraphs as Click does, but every example on a line of its own, whole: a broken one cannot be copied."""

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


class _Context(click.Context):
    formatter_class = _Formatter


def with_help(command: click.Command) -> click.Command:
    """`command` and all below it, with the help of their arguments and examples that stay whole."""
    command.context_class = _Context
    # Typer lists arguments itself; newer Clicks would list them once more
    setattr(command, "format_arguments", lambda context, formatter: None)  # noqa: B010
    stated = _stated(command.callback)
    for parameter in command.params:
        # a Typer older than Click's own help of arguments sets it and then has Click forget it
        if isinstance(parameter, click.Argument) and not getattr(parameter, "help", None):
            parameter.help = stated.get(parameter.name or "")
    if isinstance(command, click.Group):
        for name in command.commands:
            with_help(command.commands[name])
    return command


def _stated(callback: Any) -> dict[str, str]:
    """What the function behind a command says about each of its arguments."""
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
